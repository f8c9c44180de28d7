//! A client's names while some of its changes wait for the server's word.

use std::{cell::RefCell, sync::Arc};

use super::*;
use crate::pool::Params;
use crate::sql::{Caps, Classifier, Functions, Misroutes, ShapeKey};

fn named(text: &str) -> Named {
    let functions = Arc::new(Functions::built_in().unwrap());
    let caps = Caps { parse: 1 << 20, entries: 10 };
    let mut classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(10)), caps);
    let rules = StringRules::default();
    let classified = classifier.classify(text.as_bytes(), rules);
    let statement = Statement {
        text: text.as_bytes().into(),
        oids: Box::default(),
        local: None,
        copies_in: false,
        tells_time: false,
        is_plain: true,
        names_in_sql: Box::default(),
        deallocates: Box::default(),
        forgets_names: forgets_names(&classified.known.facts),
        base: text.bytes().fold(0, |sum, byte| sum * 31 + u128::from(byte)),
        rules,
        classified: RefCell::new(classified),
        held_for: Cell::new(HeldFor { learnt: 0, declared: 0, scope: 0, stamp: 0 }),
        home: Weak::new(),
    };
    Named { statement: Rc::new(statement), original: None, schema: 0, birth: 0, own: 0, told: Some(Rc::default()) }
}

/// `a=1` gives the name a text, `a=` takes it away, `=1` is the unnamed statement; `|` settles everything.
fn change(names: &mut Names, words: &str) {
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some((name, text)) => names.change(name.as_bytes(), (!text.is_empty()).then(|| named(text))),
            None => names.settle(usize::MAX, false),
        }
    }
}

fn said(names: &Names) -> String {
    let mut said: Vec<String> = ["", "a", "b", "c"]
        .iter()
        .filter_map(|name| names.find(name.as_bytes()).map(|s| format!("{name}={}", String::from_utf8_lossy(&s.text))))
        .collect();
    let bytes: usize = names.named.values().map(|s| s.text.len()).sum();
    assert_eq!(names.bytes(), bytes, "the count of bytes is off");
    said.sort();
    said.join(" ")
}

fn check(changes: &str, settled: usize, failed_parse: bool, expected: &str) {
    let mut names = Names::default();
    change(&mut names, changes);
    names.settle(settled, failed_parse);
    assert_eq!(said(&names), expected, "{changes}: {settled} settled, failed parse: {failed_parse}");
    // Nothing is left to be settled.
    names.settle(0, false);
    assert_eq!(said(&names), expected, "{changes}: again");
}

#[test]
fn what_the_server_never_saw_is_undone() {
    check("", 0, false, "");
    check("a=1 b=2", 2, false, "a=1 b=2");
    check("a=1 b=2", 1, false, "a=1");
    check("a=1 b=2", 0, false, "");
    check("a=1 b=2", 9, false, "a=1 b=2");
    check("a=1 | a= b=2", 2, false, "b=2");
    check("a=1 | a= b=2", 1, false, "");
    check("a=1 | a= b=2", 0, false, "a=1");
    // One name again and again: the last one that came true counts.
    check("a=1 | a= a=2 a= a=3", 4, false, "a=3");
    check("a=1 | a= a=2 a= a=3", 3, false, "");
    check("a=1 | a= a=2 a= a=3", 2, false, "a=2");
    check("a=1 | a= a=2 a= a=3", 1, false, "");
    check("a=1 | a= a=2 a= a=3", 0, false, "a=1");
    check("=1 | =2 a=3 =4", 2, false, "=2 a=3");
    check("=1 | =2 a=3 =4", 0, false, "=1");
}

#[test]
fn a_parse_that_fails_destroys_the_unnamed_statement_and_no_named_one() {
    check("=1 | =2", 0, true, "");
    check("=1 | a=2", 0, true, "=1");
    check("=1 | a=2 =3", 1, true, "a=2");
    check("a=1 | a= a=2", 1, true, "");
    check("=1 | =2 =3", 1, true, "");
    // Only the one that failed was seen.
    check("=1 | a=2 =3", 0, true, "=1");
}

#[test]
fn some_changes_need_no_word_of_the_server() {
    let mut names = Names::default();
    change(&mut names, "=1 a=2 b=3 |");
    names.take_unnamed();
    names.remove(b"a");
    names.remove(b"nobody");
    assert_eq!((&*said(&names), names.len()), ("b=3", 1));
    names.clear();
    assert_eq!((&*said(&names), names.len(), names.bytes()), ("", 0, 0));
}

#[test]
fn a_statement_is_another_with_other_settings_or_another_schema() {
    let one = named("select 1");
    let with = |name, value| Meaning { settings: Params::default().with([(name, Some(value))]).meaning(), own: None };
    let plain = one.id(Meaning::default());
    assert_eq!(one.id(with("application_name", "x")), plain);
    assert_ne!(one.id(with("search_path", "x")), plain);
    assert_ne!(one.id(with("search_path", "x")), one.id(with("search_path", "y")));
    let later = Named { schema: 1, ..one.clone() };
    assert_ne!(later.id(Meaning::default()), plain);
}

/// Each Parse of a session that has temporary tables is another, and so is each life of those.
#[test]
fn a_statement_is_the_sessions_own_beside_temporary_tables() {
    let one = named("select 1");
    let again = Named { birth: 1, ..one.clone() };
    let with = |own| Meaning { settings: 0, own };
    let ids = [None, Some((1, 1)), Some((1, 2)), Some((2, 1))].map(|own| [one.id(with(own)), again.id(with(own))]);
    assert_eq!(ids[0][0], ids[0][1]);
    let mut others: Vec<u128> = ids.iter().flatten().skip(1).map(|id| id.0).collect();
    others.sort_unstable();
    others.dedup();
    assert_eq!(others.len(), 7);
}
