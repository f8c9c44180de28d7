//! The firewall: every kind of rule at every door, and that a refusal is like any error of a server at the same place.

mod allow_list;
mod limits;
mod names;
mod unread;

use std::fs;

use crate::{
    Case, cases,
    client::{Client, Login, Reply, Trouble},
    frontend::{self, Values},
    lifecycle::{http, rewrite},
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    let mut cases = allow_list::cases();
    cases.extend(limits::cases());
    cases.extend(names::cases());
    cases.extend(unread::cases());
    cases.extend(cases!("firewall", Pgsluice:
        every_rule_at_every_door, harmless_statements_pass, what_was_prepared_is_judged_again_after_a_reload,
        a_login_is_a_door, a_function_call_is_a_door, what_cannot_be_read_is_refused, a_rule_may_only_watch,
        the_error_is_the_rules, rules_are_for_whom_they_name, a_bad_rule_file_changes_nothing, rules_see_the_moment));
    cases
}

const TABLE: &str = "drop table if exists t cascade; create table t(id int primary key, v text); \
    insert into t select i, 'v' || i from generate_series(1, 5) i";

/// A rule file, and the lines of the configuration that name it.
pub fn rules(world: &World, name: &str, text: &str) -> String {
    let path = world.cluster().dir().join(format!("rules-{name}.yaml"));
    fs::write(&path, text).expect("write rules");
    format!("rules: [\"{}\"]", path.display())
}

fn message(reply: &Reply, code: u8) -> String {
    reply.0.iter().find(|m| m.tag == b'E').and_then(|m| m.field(code)).unwrap_or_default()
}

/// Rules that the tests of doors share, by name.
const RULES: &str = "
firewall:
  - { name: no-where, when: { statement: [delete, update], where: missing }, deny: {} }
  - { name: no-truncate, when: { statement: truncate }, deny: {} }
  - { name: no-drop, when: { statement: drop }, deny: {} }
  - { name: no-role, when: { object: role }, deny: {} }
  - { name: no-do, when: { statement: do }, deny: {} }
  - { name: no-program, when: { copy: program }, deny: {} }
  - { name: no-setting, when: { parameters: [role, \"log_*\", row_security] }, deny: {} }
  - { name: no-sleep, when: { functions: [pg_sleep] }, deny: {} }
  - { name: no-secret, when: { tables: [secret] }, deny: {} }
  - { name: no-tautology, when: { tautology: true }, deny: {} }
  - { name: no-catalog-union, when: { union_catalog: true }, deny: {} }
  - { name: no-word, when: { text: \"(?i)xyzzy\" }, deny: {} }
";

/// Rule, statement.
const OFFENCES: &[(&str, &str)] = &[
    ("no-where", "delete from t"),
    ("no-where", "DELETE/**/FROM t"),
    ("no-where", "update t set v = 'x' where 1 = 1"),
    ("no-where", "with d as (delete from t returning *) select count(*) from d"),
    ("no-truncate", "truncate t"),
    ("no-drop", "drop table t"),
    ("no-role", "create role z"),
    ("no-do", "do $$ begin null; end $$"),
    ("no-program", "copy t to program 'cat'"),
    ("no-setting", "set role postgres"),
    ("no-setting", "reset role"),
    ("no-setting", "select set_config('row_security', 'off', false)"),
    ("no-sleep", "select pg_sleep(0)"),
    ("no-sleep", "select PG_CATALOG.\"pg_sleep\"(0)"),
    ("no-sleep", "insert into t select 9 from pg_sleep(0)"),
    ("no-secret", "select 1 from secret"),
    ("no-secret", "select 1 from public . SECRET"),
    ("no-secret", "insert into t select 9 where exists (select from secret)"),
    ("no-tautology", "select * from t where v = 'x' or 1 = 1"),
    ("no-catalog-union", "select v from t union all select usename::text from pg_user"),
    ("no-word", "select 1 as xyzzy"),
];

/// Ways to have a statement run; `$X` is the statement. Only those that the statement's kind can be put into.
fn inside(rule: &str, statement: &str) -> Vec<String> {
    let verb = statement.split([' ', '/']).next().unwrap_or_default().to_ascii_lowercase();
    let query = ["select", "with"].contains(&&*verb);
    let plannable = query || ["insert", "update", "delete"].contains(&&*verb);
    let mut ways = vec!["$X", "select 1; $X", "$X; select 1", "/* a */ $X -- b", "begin; $X; commit"];
    if plannable {
        ways.extend(["prepare p as $X", "explain $X", "explain (analyze, costs off) $X"]);
    }
    if query {
        ways.extend([
            "copy ($X) to stdout",
            "create view z as $X",
            "create table z as $X",
            "create materialized view z as $X",
            "declare c cursor with hold for $X",
            "select * from (select 1) q where exists ($X)",
            "insert into t ($X)",
        ]);
    }
    // The text of a body is a value, which normalised texts do not show.
    if (plannable || verb == "truncate" || verb == "drop") && rule != "no-word" {
        ways.push("create function z() returns void language sql as '$X'");
        ways.push("create function z() returns void language plpgsql as 'begin $X; end'");
    }
    let nested = |way: &&str| !(way.contains("exists ($X)") || way.contains("insert into t ($X)")) || verb == "select";
    let quoted = |way: &str| match way.contains("language") {
        true => statement.replace('\'', "''"),
        false => statement.to_owned(),
    };
    ways.into_iter().filter(nested).map(|way| way.replace("$X", &quoted(way))).collect()
}

fn refused(reply: &Reply, rule: &str, what: &str) {
    assert_eq!(reply.letters(), "E(42501) Z(I)", "{what}");
    let detail = message(reply, b'D');
    assert!(detail.contains(&format!("\"{rule}\"")), "{what}: {detail}");
}

fn every_rule_at_every_door(world: &World) {
    world.prepare(TABLE);
    world.prepare("drop table if exists secret; create table secret(id int)");
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "doors", RULES)));
    let mut client = proxy.login();
    for (rule, statement) in OFFENCES {
        for sql in inside(rule, statement) {
            refused(&client.query(&sql), rule, &sql);
            let route = client.route();
            assert_eq!((route.reason.as_str(), route.rule.as_str()), ("rule", *rule), "{sql}");
            refused(&client.extended(&sql, &[]), rule, &sql);
            let parse_only = [frontend::parse("n", &sql, &[]), frontend::sync()].concat();
            refused(&client.ask(&parse_only), rule, &sql);
            assert_eq!(client.value("select 1"), "1", "{sql}");
        }
    }
    assert_eq!(world.superuser("select count(*) from t"), "5");
    assert_eq!(world.superuser("select count(*) from pg_roles where rolname = 'z'"), "0");
    assert_eq!(world.superuser("select count(*) from pg_class where relname = 'z'"), "0");
    let (_, metrics) = http(proxy.admin, "/metrics");
    let count = |rule: &str| {
        let label = format!("pgsluice_firewall_total{{rule=\"{rule}\",verdict=\"deny\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(label.as_str()).map(str::to_owned));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    // Refused by a query, an extended query and a Parse alone.
    let truncates = inside("no-truncate", "truncate t").len() as u64;
    assert_eq!((count("no-truncate"), count("unparsable")), (3 * truncates, 0), "{metrics}");
}

fn harmless_statements_pass(world: &World) {
    world.prepare(TABLE);
    world.prepare("drop table if exists secret; create table secret(id int)");
    let mut client = world.proxy(&Setup::default().size(3).top(&rules(world, "doors", RULES))).login();
    for sql in [
        "select 1",
        "delete from t where id = 100",
        "update t set v = 'z' where 1 = 1 and id = 100",
        "select * from t where 1 = 1",
        "select * from t where true and id = 1",
        "select 'delete from t'",
        "select 1 as \"pg_sleep\"",
        "set work_mem = '8MB'",
        "reset work_mem",
        "copy t to stdout",
        "begin; select 1; commit",
        "explain select 1",
        "prepare p as select 1",
        "execute p",
        "deallocate p",
        "create view z as select 1",
        "create or replace view z as select 2",
        "show work_mem",
    ] {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
    }
    world.prepare("drop view z");
}

/// Parsed, or prepared by SQL, while it was allowed; run when it is no longer.
fn what_was_prepared_is_judged_again_after_a_reload(world: &World) {
    world.prepare(TABLE);
    let lax = "firewall:\n  - { name: none, when: { tables: [nosuch] }, deny: {} }\n";
    let top = rules(world, "reload", lax);
    let proxy = world.start_proxy(&Setup::default().size(3).top(&top), world.cluster());
    let (mut plain, mut pinned) = (proxy.login(), proxy.login());
    for (name, sql) in [("n", "delete from t"), ("m", "select 7"), ("r", "select count(*) from t")] {
        plain.ask(&[frontend::parse(name, sql, &[]), frontend::sync()].concat());
    }
    assert_eq!(pinned.query("prepare p as delete from t").letters(), "C(PREPARE) Z(I)");
    assert_eq!(pinned.query("begin; declare c cursor for select 1").sqlstate(), None);
    let before = proxy.log();
    let strict = "firewall:\n  - { name: no-where, when: { statement: delete, where: missing }, deny: {} }\n";
    rules(world, "reload", strict);
    rewrite(&proxy, "rules:", "rules: ");
    eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
    let use_it = |name: &str| {
        [frontend::bind("", name, &Values::default()), frontend::execute("", 0), frontend::sync()].concat()
    };
    refused(&plain.ask(&use_it("n")), "no-where", "bind and execute");
    assert_eq!(plain.ask(&use_it("m")).letters(), "2 D C(SELECT 1) Z(I)");
    plain.query("begin");
    plain.query("select 1");
    assert_eq!(plain.ask(&use_it("r")).letters(), "2 D C(SELECT 1) Z(T)");
    assert_eq!(plain.ask(&use_it("n")).letters(), "E(42501) Z(E)");
    assert_eq!(plain.query("execute n").letters(), "E(25P02) Z(E)");
    plain.query("rollback");
    refused(&plain.query("execute n"), "no-where", "execute of a protocol's statement");
    // A transaction that was open when the rules came is subject to them as well.
    assert_eq!(pinned.query("execute p").letters(), "E(42501) Z(E)");
    pinned.query("rollback");
    for sql in ["execute p", "explain analyze execute p", "create table z_p as execute p"] {
        refused(&pinned.query(sql), "no-where", sql);
        refused(&pinned.extended(sql, &[]), "no-where", sql);
    }
    assert_eq!(world.superuser("select count(*) from t"), "5");
}

fn a_login_is_a_door(world: &World) {
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "doors", RULES)));
    let try_login = |login: &Login| match Client::login(proxy.port, login) {
        Ok(_) => "let in".to_owned(),
        Err(Trouble::Refused(msg)) => {
            format!("{} {}", msg.field(b'S').unwrap_or_default(), msg.sqlstate().unwrap_or_default())
        }
        Err(trouble) => trouble.to_string(),
    };
    let plain = Login::default();
    assert_eq!(try_login(&plain.clone().param("options", "-c row_security=off")), "FATAL 42501");
    assert_eq!(try_login(&plain.clone().param("options", "-c work_mem=8MB -c role=bob")), "FATAL 42501");
    assert_eq!(try_login(&plain.clone().param("row_security", "off")), "FATAL 42501");
    assert_eq!(try_login(&plain.clone().param("options", "-c work_mem=8MB")), "let in");
    assert_eq!(try_login(&plain.param("application_name", "role")), "let in");
}

fn a_function_call_is_a_door(world: &World) {
    world.prepare(
        "create or replace function mine() returns int language sql as 'select 5'; \
         create or replace function theirs() returns int language sql as 'select 6'",
    );
    let text = format!("{RULES}  - {{ name: no-unlink, when: {{ functions: [lo_unlink, theirs] }}, deny: {{}} }}\n");
    let mut client = world.proxy(&Setup::default().size(3).top(&rules(world, "calls", &text))).login();
    refused(&client.ask(&frontend::function_call(999_999, &["1", "2"])), "function-call", "no function");
    // int4pl, which only the catalog knows.
    eventually("the catalog", || client.ask(&frontend::function_call(177, &["1", "2"])).letters() == "V Z(I)");
    let number = |name: &str| world.superuser(&format!("select '{name}'::regproc::oid")).parse().unwrap_or_default();
    assert_eq!(client.ask(&frontend::function_call(number("mine"), &[])).letters(), "V Z(I)");
    refused(&client.ask(&frontend::function_call(number("theirs"), &[])), "no-unlink", "a function of somebody's");
    refused(&client.ask(&frontend::function_call(2626, &["0"])), "no-sleep", "pg_sleep");
    refused(&client.ask(&frontend::function_call(964, &["1"])), "no-unlink", "lo_unlink");
    // lo_creat is known, and no rule is about it.
    assert_eq!(client.ask(&frontend::function_call(957, &["131072"])).letters(), "V Z(I)");
    client.query("begin");
    client.query("select 1");
    assert_eq!(client.ask(&frontend::function_call(964, &["1"])).letters(), "E(42501) Z(E)");
    assert_eq!(client.ask(&frontend::function_call(957, &["1"])).letters(), "E(25P02) Z(E)");
    client.query("rollback");
}

fn what_cannot_be_read_is_refused(world: &World) {
    world.prepare(TABLE);
    for (mode, sqlstate) in [("protect", "42501"), ("detect", "42601"), ("\"off\"", "42601")] {
        let top = format!("{}\nfirewall: {{ mode: {mode} }}", rules(world, "doors", RULES));
        let proxy = world.proxy(&Setup::default().size(3).top(&top));
        let mut client = proxy.login();
        for sql in ["selec 1", "select 1; delete form t", "delete from t where"] {
            assert_eq!(client.query(sql).sqlstate().as_deref(), Some(sqlstate), "{mode}: {sql}");
            assert_eq!(client.extended(sql, &[]).sqlstate().as_deref(), Some(sqlstate), "{mode}: {sql}");
        }
        assert_eq!(client.query("select * from nosuch").sqlstate().as_deref(), Some("42P01"), "{mode}");
        // What ends in a text that a server reads otherwise is not read either.
        client.query("set standard_conforming_strings = off");
        let hidden = client.query("select '\\'; select 2; --'").sqlstate();
        assert_eq!(hidden.as_deref(), (mode == "protect").then_some("42501"), "{mode}");
        assert_eq!(client.query("show pgsluice.version").sqlstate(), None, "{mode}");
    }
}

fn a_rule_may_only_watch(world: &World) {
    world.prepare(TABLE);
    let text = "
firewall:
  - { name: watched, when: { tables: [t] }, deny: {}, mode: detect }
  - { name: tried, when: { tables: [t] }, deny: {}, dry_run: true }
  - { name: rests, when: { tables: [t] }, deny: {}, mode: \"off\" }
  - { name: acts, when: { tables: [t], statement: truncate }, deny: {} }
";
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "watch", text)));
    let mut client = proxy.login();
    for _ in 0..3 {
        assert_eq!(client.query("select count(*) from t").sqlstate(), None);
        assert_eq!(client.extended("select count(*) from t", &[]).sqlstate(), None);
    }
    for sql in ["prepare w as select count(*) from t", "execute w", "execute w"] {
        assert_eq!(client.query(sql).sqlstate(), None);
    }
    refused(&client.query("truncate t"), "acts", "a rule after those that watch");
    let (_, metrics) = http(proxy.admin, "/metrics");
    for line in [
        "pgsluice_firewall_total{rule=\"watched\",verdict=\"detect\"} 10",
        "pgsluice_firewall_total{rule=\"tried\",verdict=\"dry_run\"} 10",
        "pgsluice_firewall_total{rule=\"acts\",verdict=\"deny\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("rests\""), "{metrics}");
    let log = proxy.log();
    let told = |rule: &str| {
        log.lines().filter(|line| line.contains("a rule of the firewall matched") && line.contains(rule)).count()
    };
    assert_eq!((told("watched"), told("tried"), told("acts")), (1, 1, 1), "{log}");
}

fn the_error_is_the_rules(world: &World) {
    world.prepare(TABLE);
    let text = "
firewall:
  - name: a rule of its own
    when: { statement: truncate }
    deny: { message: \"not here, not now\", sqlstate: \"P0001\" }
";
    let mut client = world.proxy(&Setup::default().top(&rules(world, "words", text))).login();
    for reply in [client.query("truncate t"), client.extended("truncate t", &[])] {
        assert_eq!(reply.letters(), "E(P0001) Z(I)");
        assert_eq!(message(&reply, b'M'), "not here, not now");
        assert_eq!(message(&reply, b'S'), "ERROR");
        assert!(message(&reply, b'D').contains("a rule of its own"));
    }
}

fn rules_are_for_whom_they_name(world: &World) {
    world.prepare(TABLE);
    let text = "
firewall:
  - { name: bob, when: { user: b*, statement: truncate }, deny: {} }
  - { name: tool, when: { application: [\"tool*\"], statement: truncate }, deny: {} }
  - { name: elsewhere, when: { database: other, statement: truncate }, deny: {} }
  - { name: far, when: { client: 10.0.0.0/8, statement: truncate }, deny: {} }
  - { name: near, when: { client: [127.0.0.0/8], tables: [near] }, deny: {} }
  - { name: schema, when: { tables: [\"led*.t\"] }, deny: {} }
";
    world.prepare("create schema if not exists ledger; create table if not exists ledger.t(i int)");
    let proxy: std::rc::Rc<Proxy> = world.proxy(&Setup::default().size(3).top(&rules(world, "whom", text)));
    let mut app = proxy.login();
    assert_eq!(app.query("begin; truncate t; rollback").sqlstate(), None);
    refused(&app.query("select 1 from near"), "near", "an address");
    let mut bob = proxy.login_as(&Login::default().user("bob"));
    refused(&bob.query("truncate t"), "bob", "a user");
    let mut tool = proxy.login_as(&Login::default().param("application_name", "tool 7"));
    refused(&tool.query("truncate t"), "tool", "an application");
    // Whoever calls itself something else from now on is judged as that.
    tool.query("set application_name = 'other'");
    assert_eq!(tool.query("begin; truncate t; rollback").sqlstate(), None);
    app.query("set application_name = 'toolbox'");
    refused(&app.query("truncate t"), "tool", "a new name");
    assert_eq!(app.query("select 1 from t").sqlstate(), None);
    refused(&app.query("select 1 from ledger.t"), "schema", "a qualified name");
    app.query("set search_path = ledger");
    refused(&app.query("select 1 from t"), "schema", "search_path");
}

fn a_bad_rule_file_changes_nothing(world: &World) {
    world.prepare(TABLE);
    let good = "firewall:\n  - { name: no-truncate, when: { statement: truncate }, deny: {} }\n";
    let top = rules(world, "bad", good);
    let proxy = world.start_proxy(&Setup::default().top(&top), world.cluster());
    let mut client = proxy.login();
    refused(&client.query("truncate t"), "no-truncate", "before");
    let bad = "firewall:\n  - { name: a, when: { statement: trunkate }, deny: {} }\n  - { name: b, when: { text: \"(\" }, deny: {} }\n";
    let before = proxy.log();
    rules(world, "bad", bad);
    rewrite(&proxy, "rules:", "rules: ");
    eventually("the reload to fail", || proxy.log()[before.len()..].contains("not reloaded"));
    let log = proxy.log();
    assert!(!log.contains("can never match"), "{log}");
    assert!(log.contains("rules-bad.yaml:2:35") && log.contains("rules-bad.yaml:3:30"), "{log}");
    refused(&client.query("truncate t"), "no-truncate", "after");
    refused(&proxy.login().query("truncate t"), "no-truncate", "after, and new");
    // Counters survive a reload that holds.
    let before = proxy.log();
    rules(world, "bad", &format!("{good}  - {{ name: another, when: {{ statement: vacuum }}, deny: {{}} }}\n"));
    rewrite(&proxy, "rules:", "rules: ");
    eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
    refused(&client.query("vacuum t"), "another", "a new rule");
    let (_, metrics) = http(proxy.admin, "/metrics");
    assert!(metrics.contains("pgsluice_firewall_total{rule=\"no-truncate\",verdict=\"deny\"} 3"), "{metrics}");
}

fn rules_see_the_moment(world: &World) {
    world.prepare(TABLE);
    let text = "
firewall:
  - { name: alone, when: { statement: truncate, in_transaction: false }, deny: {} }
  - { name: simple, when: { tables: [t], statement: select, prepared: false }, deny: {} }
  - { name: crowd, when: { statements: many, kind: write }, deny: {} }
";
    let mut client = world.proxy(&Setup::default().top(&rules(world, "moment", text))).login();
    refused(&client.query("truncate t"), "alone", "outside a transaction");
    client.query("begin");
    assert_eq!(client.query("truncate t").letters(), "C(TRUNCATE TABLE) Z(T)");
    client.query("rollback");
    refused(&client.query("truncate t"), "alone", "outside again");
    let run = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)].concat()
    };
    let batch = [run("begin"), run("truncate t"), run("rollback"), frontend::sync()].concat();
    assert_eq!(client.ask(&batch).letters(), "1 2 C(BEGIN) 1 2 C(TRUNCATE TABLE) 1 2 C(ROLLBACK) Z(I)");
    refused(&client.query("select 1 from t"), "simple", "a simple query");
    assert_eq!(client.extended("select 1 from t where id = 1", &[]).sqlstate(), None);
    let insert = "insert into t values (100, 'x')";
    refused(&client.query(&format!("{insert}; {insert}")), "crowd", "many statements");
    assert_eq!(client.query(insert).sqlstate(), None);
}
