//! Routing rules and hints: where statements go when somebody says so.

mod rewriting;

use crate::{
    Case, cases,
    client::Login,
    firewall::rules,
    lifecycle::http,
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    let mut cases = rewriting::cases();
    cases.extend(cases!("rules", Pgsluice:
        a_rule_sends_reads_to_the_primary, a_rule_never_overrides_safety, a_rule_picks_replicas_by_tag, a_rule_limits_the_time,
        hints_are_for_users_who_may_give_them, what_comes_behind_a_refusal_has_a_route_again));
    cases
}

const TABLE: &str = "drop table if exists t cascade; create table t(id int primary key, v text); \
    insert into t select i, 'v' || i from generate_series(1, 5) i";

fn a_rule_sends_reads_to_the_primary(world: &World) {
    world.prepare(TABLE);
    world.prepare("create schema if not exists ledger; create table if not exists ledger.entries(i int)");
    let text = "
routing:
  - { name: tried, when: { reads: [t] }, route: { to: primary }, dry_run: true }
  - { name: strong, when: { reads: [\"ledger.*\"] }, route: { to: primary } }
";
    let setup = Setup::default().size(3).routing("consistency: \"off\"").top(&rules(world, "strong", text));
    let proxy = world.proxy(&setup);
    let mut client = proxy.login();
    let went = |client: &mut crate::client::Client| {
        let route = client.route();
        format!("{} {} {}", route.role, route.reason, route.rule)
    };
    for extended in [false, true] {
        let run = |client: &mut crate::client::Client, sql: &str| {
            let reply = if extended { client.extended(sql, &[]) } else { client.query(sql) };
            assert_eq!(reply.sqlstate(), None, "{sql}");
            went(client)
        };
        assert_eq!(run(&mut client, "select count(*) from ledger.entries"), "primary rule strong");
        assert_eq!(run(&mut client, "select count(*) from t"), "replica proven-read ∅");
        assert_eq!(run(&mut client, "select 1 where exists (select from ledger.entries)"), "primary rule strong");
        assert_eq!(run(&mut client, "insert into ledger.entries values (1)"), "primary writes ∅");
    }
    let (_, metrics) = http(proxy.admin, "/metrics");
    for line in [
        "pgsluice_rules_total{section=\"routing\",rule=\"strong\",verdict=\"allow\"} 4",
        "pgsluice_rules_total{section=\"routing\",rule=\"tried\",verdict=\"dry_run\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

fn a_rule_never_overrides_safety(world: &World) {
    world.prepare(TABLE);
    let function = "create or replace function opaque() returns int language plpgsql as 'begin return 1; end'";
    world.prepare(function);
    let text = "
routing:
  - { name: daring, when: { functions: [opaque], statement: select }, route: { to: replica, unsafe: true } }
  - { name: away, when: {}, route: { to: replica } }
";
    let setup = Setup::default().size(3).routing("consistency: \"off\"").top(&rules(world, "away", text));
    let mut client = world.proxy(&setup).login();
    for (sql, role) in [
        ("select count(*) from t", "replica"),
        ("insert into t values (100, 'x')", "primary"),
        ("delete from t where id = 100", "primary"),
        ("select 1 from t for update", "primary"),
        ("select pg_advisory_xact_lock(1)", "primary"),
        ("select opaque()", "replica"),
    ] {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
        assert_eq!(client.route().role, role, "{sql}");
    }
    client.query("begin");
    client.query("select count(*) from t");
    assert_eq!(client.route().role, "primary");
    client.query("rollback");
}

fn a_rule_picks_replicas_by_tag(world: &World) {
    world.prepare(TABLE);
    let text = "
routing:
  - { name: reports, when: { application: [\"bi*\"], kind: read }, route: { to: replica, tags: [reports] } }
  - { name: nowhere, when: { application: [lost], kind: read }, route: { to: replica, tags: [nosuch] } }
";
    let nodes: Vec<String> = world
        .cluster()
        .nodes()
        .iter()
        .map(|n| {
            let tags = if n.name() == "replica2" { ", tags: [reports, night]" } else { "" };
            format!("{{ name: {}, host: 127.0.0.1, port: {}{tags} }}", n.name(), n.port())
        })
        .collect();
    let tagged = format!("  tagged:\n    dbname: app\n    nodes: [{}]\n", nodes.join(", "));
    let proxy = world.proxy(&Setup::default().size(3).databases(&tagged).top(&rules(world, "tags", text)));
    let login = |application: &str| Login::default().database("tagged").param("application_name", application);
    let nodes_of = |application: &str| {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..12 {
            let mut client = proxy.login_as(&login(application));
            assert_eq!(client.query("select count(*) from t").sqlstate(), None);
            seen.insert(client.route().node);
        }
        seen.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(nodes_of("bi 7"), "replica2");
    assert_eq!(nodes_of("lost"), "primary");
}

fn a_rule_limits_the_time(world: &World) {
    let text = "routing:\n  - { name: hurry, when: { functions: [pg_sleep] }, timeout: 100ms }\n";
    let mut client = world.proxy(&Setup::default().size(3).top(&rules(world, "hurry", text))).login();
    assert_eq!(client.query("select pg_sleep(30)").letters(), "T E(57014) Z(I)");
    assert_eq!(client.extended("select pg_sleep(30)", &[]).sqlstate().as_deref(), Some("57014"));
    assert_eq!(client.query("select 1").sqlstate(), None);
    client.query("prepare s as select pg_sleep(30)");
    assert_eq!(client.query("execute s").sqlstate().as_deref(), Some("57014"));
    assert_eq!(client.extended("execute s", &[]).sqlstate().as_deref(), Some("57014"));
    client.query("begin");
    client.query("select 1");
    assert_eq!(client.query("select pg_sleep(30)").status(), Some('E'));
    client.query("rollback");
    // A hint can only shorten it.
    assert_eq!(client.query("/* pgsluice: timeout=1h */ select pg_sleep(30)").sqlstate().as_deref(), Some("57014"));
    assert_eq!(
        client.query("/* timeout:100ms */ select count(pg_sleep(1)) from generate_series(1, 30)").sqlstate().as_deref(),
        Some("57014")
    );
}

fn hints_are_for_users_who_may_give_them(world: &World) {
    world.prepare(TABLE);
    let users = "{ name: app, password: secret }, { name: bob, password: secret, hints: [replica, timeout] }, \
        { name: postgres, password: secret, hints: [] }";
    let strong = world.proxy(&Setup::default().size(3).users(users).routing("consistency: \"off\""));
    let hint = |user: &str, hint: &str| {
        let mut client = strong.login_as(&Login::default().user(user));
        let sql = format!("/* {hint} */ select 1");
        assert_eq!(client.query(&sql).sqlstate(), None);
        let simple = client.route();
        assert_eq!(client.extended(&sql, &[]).sqlstate(), None);
        assert_eq!(client.route().role, simple.role, "{sql}");
        format!("{} {}", simple.role, simple.reason)
    };
    for (user, text, went) in [
        ("app", "pgsluice: primary", "primary hint"),
        ("app", "route:writer", "primary hint"),
        ("bob", "pgsluice: primary", "replica proven-read"),
        ("postgres", "route:writer", "replica proven-read"),
        ("bob", "route:reader", "replica proven-read"),
    ] {
        assert_eq!(hint(user, text), went, "{user}: {text}");
    }
    let mut late = strong.login_as(&Login::default().user("postgres"));
    assert_eq!(late.query("/* timeout:10ms */ select pg_sleep(0.2)").sqlstate(), None);
    let mut bob = strong.login_as(&Login::default().user("bob"));
    assert_eq!(bob.query("/* timeout:50ms */ select pg_sleep(30)").sqlstate().as_deref(), Some("57014"));
}

/// The server that a session holds stays what it is.
fn what_comes_behind_a_refusal_has_a_route_again(world: &World) {
    world.prepare(TABLE);
    let text = "firewall: [{ name: no-truncate, when: { statement: truncate }, deny: {} }]";
    for (mode, begin) in [("session", "select 1"), ("transaction", "create temp table own(i int)")] {
        let proxy = world.proxy(&Setup::default().size(2).mode(mode).top(&rules(world, "behind", text)));
        let mut client = proxy.login();
        client.query(begin);
        assert_eq!(client.query("truncate t").sqlstate().as_deref(), Some("42501"), "{mode}");
        let refused = client.route();
        assert_eq!((&*refused.node, &*refused.rule), ("∅", "no-truncate"), "{mode}");
        client.query("update t set v = 'x' where id = 1");
        let route = client.route();
        assert_eq!((&*route.node, &*route.role, &*route.rule), ("primary", "primary", "∅"), "{mode}");
    }
}
