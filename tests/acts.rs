//! Every line of tests/data/firewall/*.txt: a text, and what each of its statements does.
//!
//! `UPDATE_EXPECT=1 cargo test --test acts` writes what the code says into the files; read the difference.

#![cfg(feature = "pg_query")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fmt::Write, fs, path::Path, sync::Arc};

use pgsluice::sql::{
    Caps, Classifier, Facts, Functions, Misroutes, ShapeKey, StringRules,
    facts::{Act, Clause},
    fingerprint, normalize,
};

const ARROW: &str = "  ⇒  ";

#[test]
fn acts() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/firewall");
    let (mut cases, mut wrong) = (0, String::new());
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "txt")) {
        let text = fs::read_to_string(file).unwrap();
        let mut new = String::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                writeln!(new, "{line}").unwrap();
                continue;
            }
            cases += 1;
            let (input, expected) = line.split_once(ARROW).unwrap_or((line, ""));
            let found = judge(input);
            if found != expected && !update {
                let place = format!("{}:{}", file.display(), number + 1);
                writeln!(wrong, "{place}: {input}\n  expected {expected}\n  found    {found}").unwrap();
            }
            writeln!(new, "{input}{ARROW}{found}").unwrap();
        }
        if update {
            fs::write(file, new).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 100, "only {cases} cases: are the files there?");
}

/// Two forms of one list or of several rows are one.
#[test]
fn fingerprints_are_what_they_were() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/firewall/fingerprints.golden");
    let text = fs::read_to_string(&file).unwrap();
    let mut new = String::new();
    for line in text.lines() {
        if line.starts_with('#') {
            writeln!(new, "{line}").unwrap();
            continue;
        }
        let input = line.split_once(ARROW).map_or(line, |(input, _)| input);
        writeln!(new, "{input}{ARROW}{}", fingerprint(input.as_bytes()).unwrap()).unwrap();
    }
    if update {
        fs::write(&file, &new).unwrap();
    } else {
        assert_eq!(new, text);
    }
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
