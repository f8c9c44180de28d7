//! Rules and statements in, verdicts out.

use std::net::IpAddr;

use super::*;
use crate::{
    config::rules::{KINDS, OBJECTS, STATEMENTS},
    policy::{Identity, InTransaction, Judgements, Moment, SearchPath},
    sql::{
        Caps, Classifier, FunctionClass, Misroutes, ShapeKey, StringRules,
        facts::{Kind, Verb},
    },
};

fn functions() -> Arc<Functions> {
    Arc::new(Functions::built_in().expect("the list that is compiled in"))
}

fn compiled(texts: &[&str], firewall: &Firewall) -> Compiled {
    let files: Vec<RuleFile> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| RuleFile::parse(&format!("{i}.yaml"), text).unwrap_or_else(|faults| panic!("{faults}")).0)
        .collect();
    compile(&files, firewall, functions(), 1, None)
}

fn rules(text: &str) -> Arc<RuleSet> {
    Arc::new(compiled(&[text], &Firewall::default()).finish().unwrap_or_else(|faults| panic!("{faults}")).0)
}

fn faults(texts: &[&str]) -> String {
    match compiled(texts, &Firewall::default()).finish() {
        Ok(_) => String::new(),
        Err(faults) => {
            let line = |fault: &Fault| {
                let rest: String = fault.excerpt.chars().skip(fault.at.column - 1).collect();
                let word = rest.split([',', '}', ']']).next().unwrap_or_default().to_owned();
                format!("{} {word} ~ {}", fault.file, fault.message)
            };
            faults.0.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Asks twice, since a second judgement is remembered.
struct Court {
    rules: Arc<RuleSet>,
    classifier: Classifier,
    judgements: Judgements,
}

impl Court {
    fn new(rules: Arc<RuleSet>) -> Self {
        let caps = Caps { parse: 1 << 20, entries: 1000 };
        let classifier = Classifier::new(ShapeKey::random(), functions(), Arc::new(Misroutes::new(1)), caps);
        Self { rules, classifier, judgements: Judgements::new(1000) }
    }

    fn said(&mut self, sql: &str, identity: Identity<'_>, moment: Moment) -> String {
        let known = self.classifier.classify(sql.as_bytes(), StringRules::default()).known;
        let principal = self.judgements.principal(&self.rules, &identity);
        let mut said = || {
            let verdict = self.judgements.judge(&self.rules, &principal, &known, sql.as_bytes(), moment);
            let mut words = Vec::new();
            words.extend(verdict.denial.iter().map(|denial| format!("deny {}", denial.rule)));
            words.extend(verdict.detected.iter().map(|rule| format!("detect {rule}")));
            words.extend(verdict.limits.iter().map(|limit| format!("limit {} {}", limit.rule, limit.kind.as_str())));
            words.extend(verdict.route.iter().map(|route| format!("route {}", route.rule)));
            words.extend(verdict.timeout.iter().map(|timeout| format!("{timeout:?}")));
            words.join(" ")
        };
        let first = said();
        assert_eq!(first, said(), "{sql}");
        first
    }

    fn says(&mut self, sql: &str) -> String {
        self.said(sql, APP, IDLE)
    }
}

const APP: Identity<'static> =
    Identity { user: "app", database: "d", application: "", client: None, role: "app", search_path: None };
const IDLE: Moment = Moment { in_transaction: InTransaction::No, prepared: false, search_path: SearchPath::Known };

#[test]
fn the_words_of_rule_files_are_those_of_explain() {
    let verbs: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
    assert!(verbs.len() < 64, "a set of them is one word of memory");
    for word in STATEMENTS {
        assert!(verbs.contains(word), "{word}");
    }
    for word in verbs {
        assert!(STATEMENTS.contains(&word), "{word}");
    }
    assert_eq!(KINDS, Kind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>());
}

#[test]
fn the_first_that_matches_decides() {
    let mut court = Court::new(rules(
        "
firewall:
  - { name: watch, when: { tables: [t] }, deny: {}, mode: detect }
  - { name: dry, when: { tables: [t] }, deny: {}, dry_run: true }
  - { name: off, when: { tables: [t] }, deny: {}, mode: 'off' }
  - { name: first, when: { tables: [t], statement: [delete, select], where: missing }, deny: {} }
  - { name: second, when: { tables: [t], statement: [delete, insert] }, deny: {} }
routing:
  - { name: slow, when: { functions: [pg_sleep] }, timeout: 5s, continue: true }
  - { name: quick, when: { functions: ['pg_*'] }, timeout: 9s, route: { to: primary } }
  - { name: rest, when: { kind: read }, route: { to: replica } }
",
    ));
    for (sql, said) in [
        ("select 1", "route rest"),
        ("select * from t where id = 1", "detect watch route rest"),
        ("select * from t", "deny first detect watch route rest"),
        ("delete from t", "deny first detect watch"),
        ("delete from t where id = 1", "deny second detect watch"),
        ("update t set a = 1", "detect watch"),
        ("select pg_sleep(1)", "route quick 5s"),
        ("select pg_catalog.pg_typeof(1)", "route quick 9s"),
        ("selec", "deny unparsable"),
        ("", ""),
    ] {
        assert_eq!(court.says(sql), said, "{sql}");
    }
}

#[test]
fn conditions_about_acts_hold_for_one_act() {
    let mut court =
        Court::new(rules("firewall: [{ name: x, when: { statement: [update, delete], where: missing }, deny: {} }]"));
    for (sql, denied) in [
        ("delete from t where id = 1; select * from t", false),
        ("select * from t; delete from t", true),
        ("with d as (delete from t returning *) select * from d where id = 1", true),
        ("with d as (delete from t where id = 1 returning *) select * from d", false),
        ("explain delete from t", true),
    ] {
        assert_eq!(court.says(sql).starts_with("deny"), denied, "{sql}");
    }
}

/// A limit lets pass what it matches, but of several statements only that one.
#[test]
fn limits_are_found_and_hide_no_denial() {
    let mut court = Court::new(rules(
        "
firewall:
  - { name: dry, when: { tables: [t] }, limit: { rows: 1 }, dry_run: true }
  - { name: watch, when: { tables: [t] }, limit: { rows: 1 }, mode: detect }
  - { name: few, when: { tables: [t], statement: select }, limit: { rows: 1, bytes: 1KiB } }
  - { name: less, when: { tables: [t], statement: select }, limit: { rows: 1 } }
  - { name: no, when: { tables: [t, u] }, deny: {} }
",
    ));
    let watching = "limit dry dry_run limit watch detect";
    for (sql, said) in [
        ("select * from t", format!("{watching} limit few deny")),
        ("select * from u", "deny no".to_owned()),
        ("delete from t", format!("deny no {watching}")),
        ("select * from t; select 1", format!("deny no {watching} limit few deny limit less deny")),
        ("explain select * from t", format!("deny no {watching} limit few deny limit less deny")),
        ("selec", "deny unparsable".to_owned()),
    ] {
        assert_eq!(court.says(sql), said, "{sql}");
    }
}

#[test]
fn what_names_no_table_is_about_all_of_them() {
    let mut court = Court::new(rules(
        "
firewall:
  - { name: secret, when: { tables: [app.secret] }, deny: {} }
routing:
  - { name: near, when: { tables: [app.secret] }, route: { to: replica } }
",
    ));
    for (sql, denied) in [
        ("grant select on all tables in schema app to x", true),
        ("grant select on all tables in schema other, app to x", true),
        ("grant select on all tables in schema other to x", false),
        ("revoke select on all tables in schema app from x", true),
        ("grant execute on all functions in schema app to x", false),
        ("alter default privileges grant select on tables to x", true),
        ("alter default privileges in schema other grant select on tables to x", false),
        ("drop schema app cascade", true),
        ("drop schema other cascade", false),
        ("drop owned by x", true),
        ("truncate t cascade", true),
        ("truncate t", false),
        ("alter schema app rename to b", true),
        ("drop extension x cascade", true),
    ] {
        assert_eq!(court.says(sql), if denied { "deny secret" } else { "" }, "{sql}");
    }
}

#[test]
fn who_sends_it_matters() {
    let mut court = Court::new(rules(
        "
firewall:
  - { name: user, when: { user: [b*], statement: truncate }, deny: {} }
  - { name: block, when: { client: 10.0.0.0/8, statement: truncate }, deny: {} }
  - { name: path, when: { tables: [ledger.t] }, deny: {} }
  - { name: tx, when: { statement: vacuum, in_transaction: true }, deny: {} }
  - { name: ext, when: { statement: vacuum, prepared: true }, deny: {} }
",
    ));
    let from = |address: &str| Some(address.parse::<IpAddr>().expect("an address"));
    for (identity, sql, said) in [
        (APP, "truncate t", ""),
        (Identity { user: "bob", ..APP }, "truncate t", "deny user"),
        (Identity { client: from("10.1.2.3"), ..APP }, "truncate t", "deny block"),
        (Identity { client: from("::ffff:10.1.2.3"), ..APP }, "truncate t", "deny block"),
        (Identity { client: from("11.1.2.3"), ..APP }, "truncate t", ""),
        (APP, "select 1 from t", ""),
        (APP, "select 1 from ledger.t", "deny path"),
        (Identity { search_path: Some("public, ledger"), ..APP }, "select 1 from t", "deny path"),
        (Identity { role: "ledger", ..APP }, "select 1 from t", "deny path"),
        (Identity { user: "ledger", ..APP }, "select 1 from t", ""),
    ] {
        assert_eq!(court.said(sql, identity, IDLE), said, "{identity:?} {sql}");
    }
    let (no, yes, partly) = (InTransaction::No, InTransaction::Yes, InTransaction::Partly);
    for (in_transaction, prepared, said) in [
        (no, false, ""),
        (yes, false, "deny tx"),
        (no, true, "deny ext"),
        (yes, true, "deny tx"),
        (partly, false, "deny tx"),
    ] {
        assert_eq!(court.said("vacuum t", APP, Moment { in_transaction, prepared, ..IDLE }), said);
    }
}

#[test]
fn what_is_not_certain_is_strict() {
    let mut court = Court::new(rules(
        "
firewall:
  - { name: ledger, when: { tables: ['ledger.*'] }, deny: {}, mode: detect }
  - { name: outside, when: { statement: vacuum, in_transaction: false }, deny: {} }
routing:
  - { name: near, when: { tables: [ledger.e] }, route: { to: replica } }
  - { name: within, when: { statement: show, in_transaction: true }, route: { to: replica } }
  - { name: far, when: { tables: [ledger.e, ledger.f] }, route: { to: primary } }
",
    ));
    let doubtful = Moment { in_transaction: InTransaction::Partly, prepared: false, search_path: SearchPath::Unknown };
    for (sql, certain, uncertain) in [
        ("select 1 from e", "", "detect ledger route far"),
        ("select 1 from ledger.e", "detect ledger route near", "detect ledger route near"),
        ("select 1 from public.e", "", ""),
        ("vacuum t", "deny outside", "deny outside detect ledger"),
        ("show work_mem", "", ""),
    ] {
        assert_eq!(court.said(sql, APP, IDLE), certain, "{sql}");
        assert_eq!(court.said(sql, APP, doubtful), uncertain, "{sql}");
    }
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let rule = |name: &str, when: &str, more: &str| format!("{{ name: {name}, when: {{ {when} }}, deny: {{}}{more} }}");
    let file = |rules: &[String]| format!("firewall: [{}]", rules.join(", "));
    let examples = ", examples: { match: [select 1, delete from t], nomatch: [delete from u] }";
    for (texts, expected) in [
        (
            vec![file(&[rule("a", "statement: delete", examples)])],
            "0.yaml select 1 ~ rule `a` does not match this\n0.yaml delete from u ~ rule `a` matches this",
        ),
        (
            vec![file(&[rule("a", "statement: do", "")]), file(&[rule("a", "statement: call", "")])],
            "1.yaml a ~ firewall rule `a` stands here again, first in 0.yaml:1",
        ),
        (
            vec![file(&[rule("a", "statement: [do, call]", "")]), file(&[rule("b", "statement: do, user: x", "")])],
            "1.yaml { statement: do ~ rule `b` can never match: rule `a` before it matches all that it does",
        ),
        (vec![file(&[rule("a", "statement: do", ", mode: detect"), rule("b", "statement: do", "")])], ""),
        (vec![file(&[rule("a", "statement: do", ", continue: true"), rule("b", "statement: do", "")])], ""),
        (
            vec![file(&[rule("a", "statement: insert, where: missing", "")])],
            "0.yaml { statement: insert ~ rule `a` can never match: none of these statements has a WHERE",
        ),
        (
            vec![file(&[rule("unparsable", "statement: do", "")])],
            "0.yaml unparsable ~ `unparsable` is what the firewall calls its own reasons",
        ),
    ] {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let texts = texts.as_slice();
        assert_eq!(faults(texts), expected, "{texts:?}");
    }
}

#[test]
fn the_mode_is_the_rules_or_the_configurations() {
    let rule = "firewall: [{ name: a, when: { statement: truncate }, deny: {} }]";
    let own = "firewall: [{ name: a, when: { statement: truncate }, deny: {}, mode: protect }]";
    let others = "firewall: [{ name: a, when: { statement: truncate, user: bob }, deny: {}, mode: protect }]";
    for (texts, mode, truncate, unreadable) in [
        (&[rule][..], None, "deny a", "deny unparsable"),
        (&[rule], Some(FirewallMode::Protect), "deny a", "deny unparsable"),
        (&[rule], Some(FirewallMode::Detect), "detect a", "detect unparsable"),
        (&[rule], Some(FirewallMode::Off), "", ""),
        (&[], None, "", ""),
        (&[], Some(FirewallMode::Protect), "", "deny unparsable"),
        (&[], Some(FirewallMode::Detect), "", "detect unparsable"),
        // It may be what the rule refuses.
        (&[own], Some(FirewallMode::Detect), "deny a", "deny unparsable"),
        (&[own], Some(FirewallMode::Off), "deny a", "deny unparsable"),
        (&[others], Some(FirewallMode::Off), "", ""),
    ] {
        let (rules, _) = compiled(texts, &Firewall { mode, ..Firewall::default() }).finish().expect("rules that hold");
        let mut court = Court::new(Arc::new(rules));
        assert_eq!((&*court.says("truncate t"), &*court.says("truncat t")), (truncate, unreadable), "{mode:?}");
    }
}

#[test]
fn the_pack_knows_every_function_that_runs_its_arguments() {
    let mut court = Court::new(rules(include_str!("../../../rules/firewall/code.yaml")));
    for name in functions().names(&[FunctionClass::Opaque]) {
        assert_eq!(court.says(&format!("select {name}('x')")), "deny dangerous-functions", "{name}");
    }
}

#[test]
fn the_firewall_asks_for_the_kind_of_anything_in_a_text() {
    let mut court = Court::new(rules(
        "
firewall: [{ name: writes, when: { kind: write }, deny: {} }]
routing: [{ name: reads, when: { kind: read }, route: { to: replica } }, { name: ddl, when: { kind: ddl }, route: { to: primary } }]
",
    ));
    for (sql, said) in [
        ("select 1", "route reads"),
        ("insert into t values (1)", "deny writes"),
        ("explain analyze insert into t values (1)", "deny writes"),
        ("prepare p as insert into t values (1)", "deny writes"),
        ("prepare p as select 1", ""),
        ("copy (insert into t values (1) returning id) to stdout", "deny writes"),
        ("copy t from stdin", "deny writes"),
        ("copy t to stdout", ""),
        ("insert into t values (1); create temp table z (i int)", "deny writes route ddl"),
        ("create table y as with d as (delete from t returning *) select * from d", "deny writes route ddl"),
        ("with d as (delete from t returning *) select * into y from d", "deny writes route ddl"),
        ("create table y as select 1", "route ddl"),
        ("select nextval('s')", "deny writes route reads"),
        ("select lo_create(1)", "deny writes route reads"),
        ("create table y (i int default nextval('s'))", "route ddl"),
        ("do $$ begin delete from t; end $$", "deny writes"),
        ("begin", ""),
    ] {
        assert_eq!(court.says(sql), said, "{sql}");
    }
}

#[test]
fn an_example_that_cannot_be_read_shows_nothing() {
    let text = "firewall: [{ name: a, when: { statement: do }, deny: {}, examples: { nomatch: [selec] } }]";
    let found = faults(&[text]);
    assert!(found.starts_with("0.yaml selec ~ this shows nothing, for it can not be parsed ("), "{found}");
}

#[test]
fn what_hangs_on_an_unknown_path_is_not_rewritten() {
    if !crate::sql::can_edit() {
        return;
    }
    let mut court = Court::new(rules("rewrite: [{ name: moved, rewrite: { rename_table: { old.t: new.t } } }]"));
    let unknown = Moment { search_path: SearchPath::Unknown, ..IDLE };
    for (sql, certain, uncertain) in [
        ("select 1 from t", Ok(None), Err("moved")),
        ("select 1 from old.t", Ok(Some("select 1 from new.t")), Ok(Some("select 1 from new.t"))),
        ("select 1 from public.t", Ok(None), Ok(None)),
        ("select 1 from u", Ok(None), Ok(None)),
    ] {
        let known = court.classifier.classify(sql.as_bytes(), StringRules::default()).known;
        let principal = court.judgements.principal(&court.rules, &APP);
        for (moment, expected) in [(IDLE, certain), (unknown, uncertain)] {
            let verdict = court.judgements.judge(&court.rules, &principal, &known, sql.as_bytes(), moment);
            let changed = court.rules.change(&principal, &verdict, &known.facts, moment, sql.as_bytes());
            let text = changed.as_ref().map(|changed| changed.as_ref().map(|changed| &*changed.text));
            assert_eq!(text.map_err(|denial| &*denial.rule), expected, "{sql} {moment:?}");
        }
    }
}

#[test]
fn words_fold_as_sql_folds_them() {
    let mut court = Court::new(rules(
        "
firewall:
  - { name: parameter, when: { parameters: [ROLE] }, deny: {} }
  - { name: object, when: { object: [Role] }, deny: {} }
  - { name: function, when: { functions: [PG_SLEEP] }, deny: {} }
  - { name: table, when: { tables: ['\"Users\"'] }, deny: {} }
",
    ));
    for (sql, said) in [
        ("set ROLE x", "deny parameter"),
        ("create role x", "deny object"),
        ("select Pg_Sleep(1)", "deny function"),
        ("select 1 from \"Users\"", "deny table"),
        ("select 1 from users", ""),
    ] {
        assert_eq!(court.says(sql), said, "{sql}");
    }
}

#[test]
fn examples_know_what_is_declared_of_functions() {
    let rules = "firewall: [{ name: orders, when: { writes: [orders] }, deny: {},
        examples: { match: [select app.add_order(1), select add_stock(2)], nomatch: [select app.price_of(1), select f(1)] } }]";
    let declared =
        "functions: [{ name: app.add_order, writes: [orders, stock] }, { name: add_stock, writes: [orders] },
        { name: app.price_of, read_only: true }]";
    assert_eq!(faults(&[rules, declared]), "");
    assert_eq!(faults(&[declared, rules]), "");
    assert_ne!(faults(&[rules]), "");
}

#[test]
fn rules_know_every_kind_of_object() {
    let mut court = Court::new(Arc::default());
    for line in include_str!("../../../tests/data/firewall/objects.txt").lines() {
        let sql = line.split("  ⇒  ").next().unwrap_or_default();
        let facts = court.classifier.classify(sql.as_bytes(), StringRules::default());
        for object in facts.known.facts.acts.iter().filter_map(|act| act.object) {
            assert!(OBJECTS.contains(&object), "{object}: {sql}");
        }
    }
}

#[test]
fn counters_survive_a_reload() {
    let text = "firewall: [{ name: a, when: { statement: truncate }, deny: {} }]";
    let file = || RuleFile::parse("a.yaml", text).expect("a rule file").0;
    let make = |old: Option<&RuleSet>| {
        compile(&[file()], &Firewall::default(), functions(), 1, old).finish().expect("rules that hold").0
    };
    let old = make(None);
    let hits = |rules: &RuleSet| Arc::clone(rules.hits().find(|(_, name, _)| ***name == *"a").expect("the rule").2);
    hits(&old).count(0, crate::policy::HitKind::Deny);
    assert_eq!(hits(&make(Some(&old))).total(crate::policy::HitKind::Deny), 1);
}

#[test]
fn a_statement_seen_before_is_not_compared_again() {
    let many: String = (0..1000)
        .map(|i| format!("  - {{ name: r{i}, when: {{ tables: [t{i}], text: 'x{i}' }}, deny: {{}} }}\n"))
        .collect();
    let mut court = Court::new(rules(&format!("firewall:\n{many}")));
    let mut judge = |sql: &str| {
        let known = court.classifier.classify(sql.as_bytes(), StringRules::default()).known;
        let principal = court.judgements.principal(&court.rules, &APP);
        court.judgements.judge(&court.rules, &principal, &known, sql.as_bytes(), IDLE)
    };
    let (first, second) = (judge("select 1 from a where i = 1"), judge("select 1 from a where i = 2"));
    assert!(std::rc::Rc::ptr_eq(&first, &second));
}
