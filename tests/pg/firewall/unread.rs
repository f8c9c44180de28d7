//! What the firewall cannot read, and what is left when it refuses.

use super::{RULES, TABLE, message, refused, rules};
use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    lifecycle::http,
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    cases!("firewall::unread", Pgsluice: a_rule_that_protects_covers_what_cannot_be_read, a_refused_parse_drops_the_unnamed_statement,
        what_code_has_prepared_does_not_run, calls_and_names_in_disguise_are_seen).into()
}

fn a_rule_that_protects_covers_what_cannot_be_read(world: &World) {
    let text = "firewall: [{ name: mine, when: { statement: truncate, user: app }, deny: {}, mode: protect }]";
    let limits = "firewall: { mode: \"off\" }\nlimits: { parse: 64KiB }";
    let top = format!("{}\n{limits}", rules(world, "mine", text));
    let proxy = world.proxy(&Setup::default().size(3).top(&top));
    let mut client = proxy.login();
    let long = format!("select '{}'", "x".repeat(70_000));
    let deep = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
    let texts =
        [("selec 1", "syntax error at or near \"selec\""), (&*long, "longer than limits.parse"), (&*deep, "nested")];
    for (sql, why) in texts {
        for reply in [client.query(sql), client.extended(sql, &[])] {
            let detail = message(&reply, b'D');
            assert_eq!(reply.sqlstate().as_deref(), Some("42501"), "{why}");
            assert!(detail.starts_with("It matches the rule \"unparsable\": ") && detail.contains(why), "{detail}");
        }
    }
    refused(&client.ask(&frontend::function_call(999_999, &["1", "2"])), "function-call", "no function");
    // The rule is not for him.
    let mut bob = proxy.login_as(&Login::default().user("bob"));
    assert_eq!(bob.query("selec 1").sqlstate().as_deref(), Some("42601"));
    assert_eq!(bob.query(&long).sqlstate(), None);
}

/// As on a server, which drops the unnamed statement before it looks at the next one.
fn a_refused_parse_drops_the_unnamed_statement(world: &World) {
    world.prepare(TABLE);
    let proxy = world.proxy(&Setup::default().size(2).top(&rules(world, "unnamed", RULES)));
    let parse = |sql: &str| [frontend::parse("", sql, &[]), frontend::sync()].concat();
    let run = [frontend::bind("", "", &Values::text(&[])), frontend::execute("", 0), frontend::sync()].concat();
    let before = |client: &mut Client| {
        assert_eq!(client.ask(&parse("select 2")).sqlstate(), None);
        assert_eq!(client.ask(&run).value(), "2");
    };
    for begin in ["select 1", "begin; select 1"] {
        let mut client = proxy.login();
        client.query(begin);
        before(&mut client);
        assert_eq!(client.ask(&parse("truncate t")).sqlstate().as_deref(), Some("42501"), "{begin}");
        // Also in a failed transaction the missing statement is the first fault.
        assert_eq!(client.ask(&run).sqlstate().as_deref(), Some("26000"), "{begin}");
        client.query("rollback");
    }
    // A Parse that the server never came to takes nothing with it.
    let mut client = proxy.login();
    before(&mut client);
    let fails = [frontend::bind("", "", &Values::text(&["too many"])), frontend::parse("", "truncate t", &[])].concat();
    assert_eq!(client.ask(&[fails, frontend::sync()].concat()).sqlstate().as_deref(), Some("08P01"));
    assert_eq!(client.ask(&run).value(), "2");
}

/// A function may PREPARE what it has put together. Whoever has prepared by itself notices nothing.
fn what_code_has_prepared_does_not_run(world: &World) {
    world.prepare(TABLE);
    world.prepare(
        "create or replace function prepares(what text) returns void language plpgsql as \
         $$begin execute 'prepare hidden as ' || what; end$$",
    );
    let hidden = "select prepares('delete from t')";
    let bind = |name: &str| [frontend::bind("", name, &Values::text(&[])), frontend::execute("", 0)].concat();
    let sync = frontend::sync;
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "unseen", RULES)));
    let mut client = proxy.login();
    assert_eq!(client.query(hidden).sqlstate(), None);
    for request in [
        frontend::query("execute hidden"),
        frontend::query("explain analyze execute hidden"),
        [frontend::parse("", "execute hidden", &[]), bind(""), sync()].concat(),
        [bind("hidden"), sync()].concat(),
    ] {
        let reply = client.ask(&request);
        assert_eq!(reply.letters(), "E(26000) Z(I)");
        let (words, detail) = (message(&reply, b'M'), message(&reply, b'D'));
        assert_eq!(words, "prepared statement \"hidden\" does not exist");
        assert!(detail.contains("\"unseen-statement\""), "{detail}");
    }
    assert_eq!(client.value("select count(*) from t"), "5");
    for request in [
        frontend::query("prepare seen as select 1; execute seen"),
        frontend::query("execute seen"),
        [bind("seen"), sync()].concat(),
        frontend::query("deallocate seen"),
        [
            frontend::parse("", "prepare seen as select 1", &[]),
            bind(""),
            frontend::parse("", "execute seen", &[]),
            bind(""),
            sync(),
        ]
        .concat(),
        frontend::query("execute seen"),
        [frontend::parse("protocol", "select 1", &[]), sync()].concat(),
        frontend::query("execute protocol"),
    ] {
        assert_eq!(client.ask(&request).sqlstate(), None, "{:?}", String::from_utf8_lossy(&request));
    }
    // Who only watches is told.
    let watching = format!("{}\nfirewall: {{ mode: detect }}", rules(world, "watching", RULES));
    let proxy = world.proxy(&Setup::default().size(3).top(&watching));
    let mut client = proxy.login();
    client.query(hidden);
    assert_eq!(client.query("execute hidden").sqlstate(), None);
    let (_, page) = http(proxy.admin, "/metrics");
    assert!(page.contains("rule=\"unseen-statement\",verdict=\"detect\"} 1"), "{page}");
}

/// Ways to call a function, to set a parameter and to read a table that look like something else.
fn calls_and_names_in_disguise_are_seen(world: &World) {
    world.prepare(TABLE);
    world.prepare("drop table if exists secret; create table secret(id int)");
    world.prepare(
        "create or replace function my_sleep(v text) returns int language sql as 'select 1'; \
         drop type if exists address cascade; create type address as (street text)",
    );
    let rules_here = format!("{RULES}\n  - {{ name: no-mine, when: {{ functions: [\"my_*\"] }}, deny: {{}} }}\n");
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "disguise", &rules_here)));
    let mut client = proxy.login();
    let body = |code: &str| format!("create function x() returns setof secret language plpgsql as '{code}'");
    for (rule, sql) in [
        ("no-sleep", "select (0.01::float8).pg_sleep".to_owned()),
        ("no-mine", "select ('a'::text).my_sleep".to_owned()),
        ("no-mine", "select (t.v).my_sleep from t".to_owned()),
        ("no-setting", "select set_config('roleX'::varchar(4), 'bob', false)".to_owned()),
        ("no-secret", body("begin return query table secret; end")),
        (
            "no-secret",
            body("declare r secret; begin for r in execute ''table secret'' loop return next r; end loop; end"),
        ),
        ("no-secret", body("begin return query execute ''select * from secret''; end")),
        ("no-setting", body("declare x text; begin x := set_config(''role'', ''bob'', false); end")),
        ("no-sleep", body("begin raise notice ''%'', pg_sleep(1); end")),
    ] {
        refused(&client.query(&sql), rule, &sql);
        refused(&client.extended(&sql, &[]), rule, &sql);
    }
    assert_eq!(client.value("select (row('x')::address).street"), "x");
    // By parsing and EXECUTE in one group, too.
    let group = [
        frontend::parse("p", "select 1", &[]),
        frontend::parse("", "execute p", &[]),
        frontend::bind("", "", &Values::text(&[])),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    assert_eq!(client.ask(&group.concat()).sqlstate(), None);
}
