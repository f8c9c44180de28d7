//! Text → wish, by way of the classifier, as a session and `explain` ask for it.

use std::sync::Arc;

use super::*;
use crate::sql::{Caps, Classified, Classifier, Functions, Misroutes, ShapeKey, StringRules};

/// The operator's and the session's part, in words.
#[derive(Clone, Copy)]
struct Setting {
    phase: Phase,
    defaults: Defaults,
    preference: Preference,
}

const PLAIN: Setting = Setting {
    phase: Phase::Autocommit,
    defaults: Defaults { read_only: false, serializable: false },
    preference: Preference { reads: Reads::Replica, unknown_functions: UnknownFunctions::Primary, rule: None },
};
const TRY_REPLICA: Setting = Setting {
    preference: Preference { reads: Reads::Replica, unknown_functions: UnknownFunctions::TryReplica, rule: None },
    ..PLAIN
};
const READS_PRIMARY: Setting = Setting {
    preference: Preference { reads: Reads::Primary, unknown_functions: UnknownFunctions::TryReplica, rule: None },
    ..PLAIN
};
const SERIALIZABLE: Setting = Setting {
    defaults: Defaults { read_only: false, serializable: true },
    preference: TRY_REPLICA.preference,
    ..PLAIN
};
const READ_ONLY: Setting = Setting { defaults: Defaults { read_only: true, serializable: false }, ..PLAIN };

fn classify(text: &str) -> Classified {
    let functions = Arc::new(Functions::built_in().unwrap());
    let caps = Caps { parse: 1 << 20, entries: 10 };
    let mut classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(10)), caps);
    classifier.classify(text.as_bytes(), StringRules::default())
}

fn said(wish: Wish) -> String {
    let place = match wish.place {
        Where::Any => "any",
        Where::Replica => "replica",
        Where::Primary => "primary",
    };
    format!("{place} {}{}", wish.reason.as_str(), if wish.repeatable { " repeatable" } else { "" })
}

fn wish(setting: Setting, text: &str) -> Wish {
    let classified = classify(text);
    decide(&classified.known.facts, classified.hints, setting.phase, setting.defaults, setting.preference)
}

fn check(setting: Setting, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(said(wish(setting, text)), *expected, "{text}");
    }
}

/// In a transaction that these statements have begun and no server has yet.
fn after(setting: Setting, begin: &str) -> Setting {
    let facts = &classify(begin).known.facts;
    let mut sum = TxOptions::default();
    for verb in &facts.tx {
        let (TxVerb::Begin { options, .. } | TxVerb::SetTransaction(options)) = verb else { panic!("{begin}") };
        sum.read_only = options.read_only.or(sum.read_only);
        sum.isolation = options.isolation.or(sum.isolation);
    }
    Setting { phase: Phase::Begun(sum), ..setting }
}

const READ: &str = "replica proven-read repeatable";
const UNKNOWN: &str = "select my_function()";

#[test]
fn outside_a_transaction() {
    check(
        PLAIN,
        &[
            ("select 1", READ),
            ("select * from t join u using (id) where a = 'x'", READ),
            ("values (1)", READ),
            ("", READ),
            ("select 1; select 2", READ),
            ("insert into t values (1)", "primary writes"),
            ("with w as (delete from t returning *) select * from w", "primary writes"),
            ("select * from t for update", "primary locks-rows"),
            ("select nextval('s')", "primary volatile-function"),
            (UNKNOWN, "primary unknown-function"),
            ("selec 1", "primary unparsable"),
            ("create table t (a int)", "primary writes"),
            ("select 1; insert into t values (1)", "primary multi-statement"),
            ("set timezone = 'UTC'; insert into t values (1)", "primary multi-statement"),
        ],
    );
}

#[test]
fn settings_follow_the_client_wherever_it_goes() {
    check(
        PLAIN,
        &[
            ("set timezone = 'UTC'", "any session-state"),
            ("set local timezone = 'UTC'", "any session-state"),
            ("reset timezone", "any session-state"),
            ("reset all", "any session-state"),
            ("set timezone = 'UTC'; set work_mem = '1MB'", "any session-state"),
            ("set timezone = 'UTC'; select 1", "any session-state"),
            ("set timezone = 'UTC'; select my_function()", "primary multi-statement"),
            ("set timezone = 'UTC'; listen a", "primary multi-statement"),
            ("listen a", "primary session-state"),
            ("create temp table x (a int)", "primary writes"),
            ("select pg_advisory_lock(1)", "primary volatile-function"),
            ("prepare p as select 1", "primary session-state"),
            ("declare c cursor with hold for select 1", "primary session-state"),
            ("discard all", "primary session-state"),
        ],
    );
}

#[test]
fn transactions_that_begin() {
    check(
        PLAIN,
        &[
            ("begin", "primary transaction-control"),
            ("begin read only", "replica read-only-transaction"),
            ("start transaction read only", "replica read-only-transaction"),
            ("begin read write", "primary transaction-control"),
            ("begin isolation level repeatable read, read only", "replica read-only-transaction"),
            ("begin isolation level serializable, read only", "primary serializable"),
            ("commit", "primary transaction-control"),
            ("rollback", "primary transaction-control"),
            ("savepoint a", "primary transaction-control"),
            ("begin read only; select 1", "primary multi-statement"),
            ("begin; insert into t values (1); commit", "primary multi-statement"),
        ],
    );
    check(
        READ_ONLY,
        &[("begin", "replica read-only-transaction"), ("begin read write", "primary transaction-control")],
    );
    check(SERIALIZABLE, &[("begin read only", "primary serializable")]);
    check(SERIALIZABLE, &[("begin read only, isolation level read committed", "replica read-only-transaction")]);
    check(READS_PRIMARY, &[("begin read only", "primary configured")]);
}

#[test]
fn the_first_statement_of_a_transaction() {
    const IN_READ_ONLY: &str = "replica read-only-transaction";
    const IN_READ_ONLY_READ: &str = "replica read-only-transaction repeatable";
    check(
        after(PLAIN, "begin"),
        &[
            ("select 1", "primary transaction-control repeatable"),
            ("insert into t values (1)", "primary transaction-control"),
            ("set local timezone = 'UTC'", "primary transaction-control"),
        ],
    );
    check(
        after(PLAIN, "begin read only"),
        &[
            ("select 1", IN_READ_ONLY_READ),
            ("set local timezone = 'UTC'", IN_READ_ONLY),
            ("declare c cursor for select 1", IN_READ_ONLY),
            ("set timezone = 'UTC'", "primary session-state"),
            ("declare c cursor with hold for select 1", "primary session-state"),
            ("insert into t values (1)", "primary writes"),
            ("select * from t for share", "primary locks-rows"),
            (UNKNOWN, "primary unknown-function"),
            ("selec 1", "primary unparsable"),
            ("listen a", "primary session-state"),
        ],
    );
    check(after(PLAIN, "begin read write"), &[("select 1", "primary transaction-control repeatable")]);
    check(after(PLAIN, "begin; set transaction read only"), &[("select 1", IN_READ_ONLY_READ)]);
    check(
        after(PLAIN, "begin read only; set transaction read write"),
        &[("select 1", "primary transaction-control repeatable")],
    );
    check(
        after(PLAIN, "begin read only; set transaction isolation level serializable"),
        &[("select 1", "primary serializable repeatable")],
    );
    check(after(READ_ONLY, "begin"), &[("select 1", IN_READ_ONLY_READ)]);
    check(after(SERIALIZABLE, "begin read only"), &[("select 1", "primary serializable repeatable")]);
    check(after(READS_PRIMARY, "begin read only"), &[("select 1", "primary configured repeatable")]);
    // What is tried elsewhere must not be tried inside a transaction: it would be run again in another one.
    check(after(TRY_REPLICA, "begin read only"), &[(UNKNOWN, "primary unknown-function")]);
    check(
        after(PLAIN, "begin read only"),
        &[
            ("/* pgsluice: primary */ select 1", "primary hint repeatable"),
            ("/* pgsluice: replica */ select 1", IN_READ_ONLY_READ),
        ],
    );
}

#[test]
fn functions_nobody_vouches_for_may_be_tried() {
    check(
        TRY_REPLICA,
        &[
            (UNKNOWN, "replica unknown-function repeatable"),
            ("select 1", READ),
            ("select nextval('s')", "primary volatile-function"),
            ("insert into t select my_function()", "primary writes"),
            ("select my_function() from t for update", "primary locks-rows"),
            ("/* pgsluice: primary */ select my_function()", "primary unknown-function"),
            ("begin; select my_function()", "primary multi-statement"),
            ("call p()", "replica unknown-function repeatable"),
        ],
    );
    check(SERIALIZABLE, &[(UNKNOWN, "primary unknown-function")]);
    check(READS_PRIMARY, &[(UNKNOWN, "primary unknown-function")]);
}

#[test]
fn hints_are_never_laxer_than_safe() {
    check(
        PLAIN,
        &[
            ("/* pgsluice: primary */ select 1", "primary hint repeatable"),
            ("/* route:writer */ select 1", "primary hint repeatable"),
            ("/* pgsluice: replica */ select 1", READ),
            ("/* pgsluice: replica */ insert into t values (1)", "primary writes"),
            ("/* pgsluice: replica */ select my_function()", "primary unknown-function"),
            ("/* pgsluice: primary */ set timezone = 'UTC'", "any session-state"),
        ],
    );
    check(
        READS_PRIMARY,
        &[
            ("select 1", "primary configured repeatable"),
            ("/* route:reader */ select 1", "replica hint repeatable"),
            ("/* route:reader */ insert into t values (1)", "primary writes"),
        ],
    );
    check(SERIALIZABLE, &[("select 1", "primary serializable repeatable")]);
}

#[test]
fn together_the_strictest_counts() {
    let texts = ["select 1", "set timezone = 'UTC'", "insert into t values (1)", UNKNOWN];
    let check = |together: &[&str], expected: &str| {
        let sum = together.iter().fold(Wish::nothing(), |sum, text| sum.and(wish(PLAIN, text)));
        assert_eq!(said(sum), expected, "{together:?}");
    };
    check(&[], "any session-state repeatable");
    check(&texts[..1], READ);
    check(&texts[..2], "replica proven-read");
    check(&texts[..3], "primary writes");
    check(&texts[1..2], "any session-state");
    check(&[texts[3], texts[2]], "primary unknown-function");
    // Whatever the order, the place is the same.
    for a in texts {
        for b in texts {
            let (one, other) = (wish(PLAIN, a).and(wish(PLAIN, b)), wish(PLAIN, b).and(wish(PLAIN, a)));
            assert_eq!((one.place, one.repeatable), (other.place, other.repeatable), "{a}, {b}");
        }
    }
}
