//! Rules about relations of a schema, while the session's search_path changes: an unqualified name never hides what a rule is about.

use super::{refused, rules};
use crate::{
    Case, cases,
    client::{Client, Login, Reply},
    frontend::{self, Values},
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    cases!("firewall::names", Pgsluice: a_path_that_changes_hides_nothing, a_user_is_the_servers,
        a_role_has_a_path_of_its_own, a_path_is_certain_again_afterwards)
    .into()
}

const TABLES: &str = "drop schema if exists led cascade; create schema led; create table led.entries(id int); \
    insert into led.entries values (1); drop schema if exists other cascade; create schema other; create table other.notes(id int); \
    drop table if exists entries; create table entries(id int)";

const RULES: &str = "firewall: [{ name: ledger, when: { tables: [led.entries] }, deny: {} }]";

/// Messages before one that must be refused.
const BEFORE: &[(&[&str], &str)] = &[
    (&[], "select * from led.entries"),
    (&["set search_path = led"], "select * from entries"),
    (&[], "set search_path = led; select * from entries"),
    (&["begin", "set local search_path = led"], "select * from entries"),
    (&["begin", "set search_path = led"], "select * from entries"),
    (&[], "begin; set local search_path = led; select * from entries; commit"),
    (&[], "select set_config('search_path', 'led', false); select * from entries"),
    (&["select set_config('search_path', 'led', false)"], "select * from entries"),
    (&["begin", "do $$ begin execute 'set search_path=' || 'led'; end $$"], "select * from entries"),
    (&["do $$ begin execute 'set search_path=' || 'led'; end $$"], "select * from entries"),
    (&["begin", "update pg_settings set setting = 'led' where name = 'search_path'"], "select * from entries"),
    (&["update pg_settings set setting = 'led' where name = 'search_path'"], "select * from entries"),
    (
        &["begin", "set local search_path = led", "savepoint a", "set local search_path = public", "rollback to a"],
        "select * from entries",
    ),
    (&["prepare e as select * from entries", "set search_path = led"], "execute e"),
    (&["prepare e as select * from entries"], "set search_path = led; execute e"),
    (&["prepare s as select set_config('search_path', 'led', false)", "begin", "execute s"], "select * from entries"),
];

fn a_path_that_changes_hides_nothing(world: &World) {
    world.prepare(TABLES);
    world.superuser("grant usage on schema led, other to public; grant select on led.entries, other.notes to public");
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "names", RULES)));
    let denied = |reply: &Reply, what: &str| {
        assert_eq!(reply.sqlstate().as_deref(), Some("42501"), "{what}: {}", reply.letters());
    };
    for (before, last) in BEFORE {
        let mut client = proxy.login();
        for sql in *before {
            assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
        }
        denied(&client.query(last), &format!("{before:?} {last}"));
        let mut client = proxy.login();
        for sql in *before {
            assert_eq!(client.extended(sql, &[]).sqlstate(), None, "{sql}");
        }
        if !last.contains(';') {
            denied(&client.extended(last, &[]), &format!("{before:?} {last}, extended"));
        }
    }
    // In one pipeline.
    let mut client = proxy.login();
    let run = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("", "", &Values::text(&[])), frontend::execute("", 0)].concat()
    };
    let messages = [run("set search_path = led"), run("select * from entries"), frontend::sync()].concat();
    denied(&client.ask(&messages), "in one pipeline");
    refused(&client.query("select * from led.entries"), "ledger", "afterwards");
    // A name that cannot be that relation, and one that says where it is.
    let mut client = proxy.login();
    for sql in ["begin", "set local search_path = other", "select * from notes", "select * from other.notes", "commit"]
    {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
    }
    // Where the path is certain, it decides.
    let unknown = |client: &mut Client| client.query("select * from entries").sqlstate();
    assert_eq!(unknown(&mut client), None);
    client.query("set search_path = other");
    assert_eq!(unknown(&mut client).as_deref(), Some("42P01"));
}

fn a_user_is_the_servers(world: &World) {
    world.prepare("drop schema if exists app cascade; create schema app; create table app.us(id int)");
    let text = "firewall: [{ name: ours, when: { tables: [app.us] }, deny: {} }]";
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "user", text)));
    let mut client = proxy.login();
    let role = client.value("select current_user");
    assert_eq!(role, "app");
    refused(&client.query("select * from us"), "ours", "the role is the schema");
    world.superuser("drop schema app cascade");
}

fn a_role_has_a_path_of_its_own(world: &World) {
    world.prepare(TABLES);
    world.superuser("grant usage on schema led to public; grant select on led.entries to public");
    world.superuser("alter role bob set search_path = led");
    world.settle();
    let proxy = world.start_proxy(&Setup::default().size(2).top(&rules(world, "path", RULES)), world.cluster());
    let (mut bob, mut app) = (proxy.login_as(&Login::default().user("bob")), proxy.login());
    let seen = [bob.query("select * from entries").sqlstate(), app.query("select * from entries").sqlstate()];
    world.superuser("alter role bob reset search_path");
    assert_eq!(seen, [Some("42501".to_owned()), None]);
}

fn a_path_is_certain_again_afterwards(world: &World) {
    world.prepare(TABLES);
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "names", RULES)));
    for before in [
        &["do $$ begin perform 1; end $$"][..],
        &["do $$ begin raise exception 'x'; end $$"],
        &["begin; set local search_path = led; commit"],
        &["begin", "set local search_path = led", "rollback"],
        &["begin", "set local search_path = led", "select 1/0", "rollback"],
        &["begin", "do $$ begin perform 1; end $$", "commit"],
        &["select set_config('search_path', 'led', true)"],
        &["set local search_path = led"],
        &["set search_path = led; reset search_path"],
        &["set search_path = led", "reset all"],
        &["set search_path = led", "discard all"],
        &["prepare q as select 1", "execute q"],
        &["select 1; nonsense"],
    ] {
        let mut client = proxy.login();
        for sql in before {
            client.query(sql);
        }
        assert_eq!(client.query("select * from entries").sqlstate(), None, "{before:?}");
        assert_eq!(client.extended("select * from entries", &[]).sqlstate(), None, "{before:?}");
        let mut client = proxy.login();
        for sql in before {
            client.extended(sql, &[]);
        }
        assert_eq!(client.extended("select * from entries", &[]).sqlstate(), None, "{before:?}, extended");
    }
}
