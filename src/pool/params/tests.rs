//! The SQL between two sets, as text, and by its effect on a model of a server's session.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn params(pairs: &[(&str, &str)]) -> Params {
    Params::default().with(pairs.iter().map(|(n, v)| (*n, Some(*v))))
}

#[test]
fn the_change_between_two_sets() {
    let check = |have: &[(&str, &str)], want: &[(&str, &str)], expected: Option<(&str, Together)>| {
        let change = params(have).change_to(&params(want));
        assert_eq!(change.as_ref().map(|c| (c.sql.as_str(), c.together)), expected, "{have:?} → {want:?}");
    };
    check(&[], &[], None);
    check(&[("timezone", "UTC")], &[("timezone", "UTC")], None);
    check(&[], &[("timezone", "UTC")], Some(("SELECT pg_catalog.set_config('timezone','UTC',false)", Together::Yes)));
    check(&[("timezone", "UTC")], &[], Some(("RESET \"timezone\";", Together::Yes)));
    check(&[("app.x", "1")], &[], Some(("RESET \"app\".\"x\";", Together::Yes)));
    check(
        &[("role", "r"), ("datestyle", "ISO, MDY")],
        &[("role", "s"), ("search_path", "a, \"B c\"")],
        Some((
            "RESET ROLE;RESET \"datestyle\";SELECT pg_catalog.set_config('search_path','a, \"B c\"',false),pg_catalog.set_config('role','s',false)",
            Together::No,
        )),
    );
    check(
        &[("session_authorization", "a"), ("role", "r")],
        &[("session_authorization", "b"), ("role", "r")],
        Some((
            "RESET ROLE;RESET SESSION AUTHORIZATION;SELECT pg_catalog.set_config('session_authorization','b',false),pg_catalog.set_config('role','r',false)",
            Together::No,
        )),
    );
    check(
        &[],
        &[("app.x", "it's \\ here")],
        Some(("SELECT pg_catalog.set_config('app.x',E'it''s \\\\ here',false)", Together::No)),
    );
    check(
        &[],
        &[("statement_timeout", "1ms"), ("timezone", "UTC")],
        Some((
            "SELECT pg_catalog.set_config('statement_timeout','1ms',false),pg_catalog.set_config('timezone','UTC',false)",
            Together::No,
        )),
    );
}

#[test]
fn times_are_read_as_servers_show_them() {
    let ms = |ms| Some(Duration::from_millis(ms));
    for (value, expected) in [
        ("0", None),
        ("1ms", ms(1)),
        ("1500ms", ms(1500)),
        ("90s", ms(90_000)),
        ("2min", ms(120_000)),
        ("3h", ms(10_800_000)),
        ("24d", ms(24 * 86_400_000)),
        ("", None),
        ("s", None),
        ("5 s", None),
        ("99999999999999999999s", None),
    ] {
        let idle = params(&[("idle_session_timeout", value)]).idle();
        assert_eq!(idle, Idle { outside: expected, in_transaction: None }, "{value}");
        let idle = params(&[("idle_in_transaction_session_timeout", value)]).idle();
        assert_eq!(idle, Idle { outside: None, in_transaction: expected }, "{value}");
    }
    assert_eq!(Params::default().idle(), Idle::default());
}

/// What a server would do with the SQL of a change: RESET and set_config, and nothing else. Names it knows become values.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    values: BTreeMap<String, String>,
    /// Whether the login user was in force when other things were set.
    as_login: bool,
}

impl Model {
    fn of(params: &Params) -> Self {
        Self { values: params.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(), as_login: true }
    }

    fn is_identity(name: &str) -> bool {
        matches!(name, "role" | "session_authorization")
    }

    fn acts(&mut self, name: &str) {
        if !Self::is_identity(name) {
            self.as_login &= !self.values.contains_key("role") && !self.values.contains_key("session_authorization");
        }
    }

    fn reset(&mut self, name: &str) {
        self.acts(name);
        self.values.remove(name);
        // RESET SESSION AUTHORIZATION takes the role back as well.
        if name == "session_authorization" {
            self.values.remove("role");
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.acts(name);
        if name == "session_authorization" {
            self.values.remove("role");
        }
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Reads the SQL with a reader of its own; anything it does not know is a failure.
    fn run(&mut self, sql: &str) {
        let mut rest = sql;
        while !rest.is_empty() {
            if let Some(next) = rest.strip_prefix("RESET ROLE;") {
                self.reset("role");
                rest = next;
            } else if let Some(next) = rest.strip_prefix("RESET SESSION AUTHORIZATION;") {
                self.reset("session_authorization");
                rest = next;
            } else if let Some(next) = rest.strip_prefix("RESET ") {
                let (name, next) = name(next);
                self.reset(&name);
                rest = next.strip_prefix(';').expect(next);
            } else {
                rest = rest.strip_prefix("SELECT ").expect(rest);
                loop {
                    rest = rest.strip_prefix("pg_catalog.set_config(").expect(rest);
                    let (name, next) = literal(rest);
                    let (value, next) = literal(next.strip_prefix(',').expect(next));
                    self.set(&name, &value);
                    rest = next.strip_prefix(",false)").expect(next);
                    match rest.strip_prefix(',') {
                        Some(next) => rest = next,
                        None => break,
                    }
                }
                assert_eq!(rest, "");
            }
        }
    }
}

/// `"a"."b"`.
fn name(sql: &str) -> (String, &str) {
    let (mut name, mut rest) = (String::new(), sql);
    loop {
        rest = rest.strip_prefix('"').expect(rest);
        loop {
            let quote = rest.find('"').expect(rest);
            name.push_str(&rest[..quote]);
            rest = &rest[quote + 1..];
            match rest.strip_prefix('"') {
                Some(next) => {
                    name.push('"');
                    rest = next;
                }
                None => break,
            }
        }
        match rest.strip_prefix('.') {
            Some(next) => {
                name.push('.');
                rest = next;
            }
            None => return (name, rest),
        }
    }
}

/// `'…'` without a backslash, or `E'…'`: the two that read the same whatever standard_conforming_strings is.
fn literal(sql: &str) -> (String, &str) {
    let (escapes, body) = match sql.strip_prefix("E'") {
        Some(body) => (true, body),
        None => (false, sql.strip_prefix('\'').expect(sql)),
    };
    let mut value = String::new();
    let mut chars = body.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if chars.peek().is_some_and(|(_, c)| *c == '\'') => {
                value.push('\'');
                chars.next();
            }
            '\'' => return (value, &body[at + 1..]),
            '\\' => {
                assert!(escapes, "a backslash reads differently with standard_conforming_strings off: {sql}");
                value.push(chars.next().map(|(_, c)| c).expect("an escaped character"));
            }
            c => value.push(c),
        }
    }
    panic!("no end: {sql}");
}

fn any_params() -> impl Strategy<Value = Params> {
    let name = prop_oneof![
        Just("role".to_owned()),
        Just("session_authorization".to_owned()),
        Just("search_path".to_owned()),
        Just("statement_timeout".to_owned()),
        Just("timezone".to_owned()),
        Just("work_mem".to_owned()),
        "[a-c]\\.[a-c\"]{1,2}",
    ];
    let value = prop_oneof![Just("1".to_owned()), Just(String::new()), "['\"\\\\a-cE;,\u{e4}]{0,6}"];
    proptest::collection::btree_map(name, value, 0..6)
        .prop_map(|map| Params::default().with(map.iter().map(|(n, v)| (n.as_str(), Some(v.as_str())))))
}

proptest! {
    #[test]
    fn the_change_leads_from_one_set_to_the_other(have in any_params(), want in any_params()) {
        let mut model = Model::of(&have);
        match have.change_to(&want) {
            Some(change) => {
                model.run(&change.sql);
                let identity = |p: &Params| p.value("role").is_some() || p.value("session_authorization").is_some();
                let moves = ["role", "session_authorization"].iter().any(|n| have.value(n) != want.value(n));
                prop_assert!(!moves || change.together == Together::No, "{}", change.sql);
                if !identity(&have) {
                    prop_assert!(model.as_login, "{}", change.sql);
                }
            }
            None => prop_assert_eq!(&have, &want),
        }
        prop_assert_eq!(model.values, Model::of(&want).values);
    }

    #[test]
    fn equal_sets_mean_the_same(have in any_params(), want in any_params()) {
        let again = Params::default().with(have.iter().map(|(n, v)| (n, Some(v))));
        prop_assert!(again == have && again.meaning() == have.meaning());
        if have.meaning() != want.meaning() {
            prop_assert!(have != want);
        }
    }
}

#[test]
fn what_cannot_change_a_statement_does_not_change_its_meaning() {
    let base = params(&[("search_path", "a")]);
    for (name, same) in [
        ("application_name", true),
        ("statement_timeout", true),
        ("search_path", false),
        ("role", false),
        ("app.x", false),
    ] {
        assert_eq!(base.with([(name, Some("b"))]).meaning() == base.meaning(), same, "{name}");
    }
    assert_eq!(params(&[("application_name", "a")]).meaning(), Params::default().meaning());
    // A server without settings and one with settings that mean nothing run the same statement.
    assert_eq!(params(&[("application_name", "a")]).meaning(), params(&[("application_name", "b")]).meaning());
}
