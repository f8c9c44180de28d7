//! Every line of tests/data/firewall/*.txt: a text, and what each of its statements does.
//!
//! `UPDATE_EXPECT=1 cargo test --test acts` writes what the code says into the files.

#![cfg(feature = "pg_query")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fmt::Write, sync::Arc};

use pgsluice::sql::{
    Caps, Classifier, Facts, Functions, Misroutes, ShapeKey, StringRules,
    facts::{Act, Clause},
    fingerprint, normalize,
};

mod lines;

#[test]
fn acts() {
    lines::check("firewall", 100, |_, input| judge(input));
}

/// Two forms of one list or of several rows are one.
#[test]
fn fingerprints_are_what_they_were() {
    lines::check("firewall/fingerprints.golden", 10, |_, input| fingerprint(input.as_bytes()).unwrap().to_string());
    let same = |a: &str, b: &str| assert_eq!(fingerprint(a.as_bytes()), fingerprint(b.as_bytes()), "{a} | {b}");
    same("select * from t where id in (1)", "select * from t where id in ($1, $2, 3)");
    same("insert into t values (1, 2)", "insert into t values (1, 2), (3, 4)");
    same("select * from t where id = 1", "SELECT * FROM t WHERE id = 'x' /* y */");
    assert_eq!(
        normalize(b"select * from t where a = 1 and b = $1").as_deref(),
        Some("select * from t where a = $2 and b = $1")
    );
}

/// `␊` stands for the end of a line.
fn judge(input: &str) -> String {
    let text = input.replace('␊', "\n");
    let functions = Arc::new(Functions::built_in().unwrap());
    let caps = Caps { parse: 1 << 20, entries: 100 };
    let mut classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(10)), caps);
    let first = classifier.classify(text.as_bytes(), StringRules::default());
    let second = classifier.classify(text.as_bytes(), StringRules::default());
    assert_eq!(first.known, second.known, "{input}: a hit and a miss differ");
    summary(&first.known.facts)
}

fn summary(facts: &Facts) -> String {
    let mut acts: Vec<String> = facts.acts.iter().map(act).collect();
    if facts.needs_literals {
        acts.push("by literals".to_owned());
    }
    acts.join(" · ")
}

fn act(act: &Act) -> String {
    let mut text = act.verb.as_str().to_owned();
    if let Some(object) = act.object {
        write!(text, " {object}").unwrap();
    }
    for (name, clause) in [("where", act.filter), ("limit", act.limit)] {
        if clause != Clause::NotApplicable {
            write!(text, ", {name} {}", clause.as_str()).unwrap();
        }
    }
    for mark in act.marks.names() {
        write!(text, ", {mark}").unwrap();
    }
    if !act.parameters.is_empty() {
        write!(text, ", sets {}", act.parameters.join(" ")).unwrap();
    }
    text
}
