//! Text → what it may have done, by way of the classifier.

use std::sync::Arc;

use super::*;
use crate::{
    config::Feature,
    session::state::{PIN_REASONS, Pins},
    sql::{Caps, Classifier, Functions, Misroutes, ShapeKey, StringRules},
};

/// Notes the statements one by one, as a transaction's requests come.
fn deeds(texts: &str) -> Deeds {
    let functions = Arc::new(Functions::built_in().unwrap());
    let caps = Caps { parse: 1 << 20, entries: 10 };
    let mut classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(10)), caps);
    let mut deeds = Deeds::default();
    for text in texts.split(" / ") {
        deeds.note(&classifier.classify(text.as_bytes(), StringRules::default()).known.facts);
    }
    deeds
}

fn said(deeds: &Deeds) -> String {
    let mut words: Vec<String> = Vec::new();
    for (name, last) in &deeds.touched {
        words.push(match last {
            Last::Set => format!("set:{name}"),
            Last::Reset => format!("reset:{name}"),
        });
    }
    let flags = [
        ("reset_all", deeds.reset_all),
        ("living", deeds.living),
        ("opaque", deeds.opaque),
        ("residue", deeds.residue),
        ("unknown_parameter", deeds.unknown_parameter),
        ("load", deeds.load),
        ("wrote", deeds.wrote),
        ("ending", deeds.ending),
        ("rolled_back", deeds.rolled_back),
        ("controlled", deeds.controlled),
        ("ddl", deeds.ddl),
    ];
    words.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| (*name).to_owned()));
    words.join(" ")
}

fn check(texts: &str, expected: &str) {
    let deeds = deeds(texts);
    assert_eq!(said(&deeds), expected, "{texts}");
    let only_data = ["residue", "wrote", "ending", "rolled_back", "controlled", "ddl"];
    let left = expected.split_whitespace().any(|word| !only_data.contains(&word));
    assert_eq!(deeds.left_something(), left, "{texts}");
}

#[test]
fn reads_do_nothing() {
    for text in ["select * from t", "", "show timezone", "values (1)", "explain select 1"] {
        check(text, "");
    }
}

#[test]
fn writes() {
    check("insert into t values (1)", "wrote");
    check("with w as (delete from t returning *) select * from w", "wrote");
    check("copy t from stdin", "wrote");
    check("select nextval('s')", "wrote");
    check("create table t (a int)", "wrote ddl");
    check("truncate t", "wrote");
    check("vacuum t", "wrote");
    check("select my_function()", "opaque wrote");
    check("do 'begin end'", "opaque wrote");
    check("call p()", "opaque wrote");
    check("selec 1", "opaque wrote");
}

#[test]
fn settings() {
    check("set timezone = 'UTC'", "set:timezone");
    check("set time zone 'UTC'", "set:timezone");
    check("set local timezone = 'UTC'", "");
    check("reset timezone", "reset:timezone");
    check("set timezone to default", "reset:timezone");
    check("set role a", "set:role");
    check("set session authorization a", "set:role set:session_authorization");
    check("reset session authorization", "reset:role reset:session_authorization");
    check("select set_config('a.b', 'x', false)", "set:a.b wrote");
    check("select set_config('a.b', 'x', true)", "wrote");
    check("set timezone = 'UTC' / reset timezone", "reset:timezone");
    check("reset timezone / set timezone = 'UTC'", "set:timezone");
    check("reset all", "reset_all");
    check("set timezone = 'UTC' / reset all", "reset:timezone reset_all");
    check("reset all / set timezone = 'UTC'", "set:timezone reset_all");
    check("discard all", "reset_all living");
}

#[test]
fn what_lives_on() {
    for text in [
        "listen a",
        "unlisten a",
        "unlisten *",
        "discard temp",
        "prepare p as select 1",
        "deallocate p",
        "deallocate all",
        "declare c cursor with hold for select 1",
        "close c",
        "close all",
    ] {
        assert!(deeds(text).living, "{text}");
    }
    check("create temp table x (a int)", "living wrote");
    check("select pg_advisory_lock(1)", "living wrote");
    check("load 'x'", "load");
    check("discard plans", "");
    check("execute p", "residue wrote");
}

#[test]
fn transactions() {
    check("begin", "controlled");
    check("begin / insert into t values (1) / commit", "wrote ending controlled");
    check("commit", "ending controlled");
    check("rollback", "rolled_back controlled");
    check("rollback to savepoint a", "rolled_back controlled");
    check("savepoint a", "controlled");
    check("prepare transaction 'x'", "wrote ending controlled");
    check("commit prepared 'x'", "wrote ending controlled");
    check("begin; insert into t values (1); commit", "wrote ending controlled");
}

#[test]
fn the_first_pin_gives_the_reason() {
    let mut pins = Pins::default();
    assert_eq!((pins.any(), pins.reason()), (false, None));
    for (feature, word) in Feature::ALL.into_iter().zip(PIN_REASONS).rev() {
        pins.put(feature, true);
        assert_eq!((pins.any(), pins.has(feature), pins.reason()), (true, true, Some(*word)));
    }
    pins.put(Feature::Listen, false);
    assert_eq!((pins.iter().count(), pins.reason()), (6, Some("temp_table")));
}
