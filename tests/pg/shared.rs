//! What one server connection remembers of several clients: nothing of it shows.

use crate::{
    Case, cases,
    frontend::{self, Values},
    world::{Setup, World, direct},
};

pub fn cases() -> Vec<Case> {
    cases!("shared", Nothing:
        sequences_tell_their_own_client_alone, a_statement_tells_the_time_of_its_own_parse,
        what_is_created_in_pg_temp_by_its_path_is_temporary, what_has_no_rows_in_pg_temp_is_temporary_too, settings_written_as_a_table_follow_their_client,
        own_operators_hide_nothing, sequences_asked_before_are_not_told, a_transactions_settings_are_its_statements_own,
        plans_of_functions_are_no_other_clients, a_temporary_table_is_seen_by_what_was_planned, code_without_a_name_leaves_nothing)
    .into()
}

fn one() -> Setup {
    Setup { size: 1, replicas: false, checkout_timeout: "300ms", ..Setup::default() }
}

fn sequences_tell_their_own_client_alone(world: &World) {
    let proxy = world.proxy(&one());
    let (mut a, mut b, mut c) = (proxy.login(), proxy.login(), proxy.login());
    a.query("drop sequence if exists seq_own; create sequence seq_own");
    assert_eq!(a.value("select nextval('seq_own')"), "1");
    assert_eq!(a.value("select currval('seq_own')"), "1");
    assert_eq!(b.value("select nextval('seq_own')"), "2");
    let mut fresh = direct(world.cluster().primary(), "app");
    for text in ["select currval('seq_own')", "select lastval()", "begin; select lastval(); commit"] {
        let expected = fresh.query(text).sqlstate();
        assert_eq!(expected.as_deref(), Some("55000"), "{text}");
        for client in [&mut a, &mut c] {
            assert_eq!(client.query(text).sqlstate(), expected, "{text}");
            client.query("rollback");
        }
        let batch = [
            frontend::parse("", text, &[]),
            frontend::bind("", "", &Values::default()),
            frontend::execute("", 0),
            frontend::sync(),
        ];
        if !text.contains(';') {
            assert_eq!(c.ask(&batch.concat()).sqlstate(), expected, "{text}");
        }
        assert_eq!(b.value("select nextval('seq_own') > 2"), "t");
    }
    a.query("begin");
    let own = a.value("select nextval('seq_own')");
    assert_eq!(a.value("select currval('seq_own')"), own);
    assert_eq!(a.value("select lastval()"), own);
    a.query("commit");
}

fn a_statement_tells_the_time_of_its_own_parse(world: &World) {
    let proxy = world.proxy(&one());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    let text = "select 'now'::timestamptz";
    let ask = |parse: bool| {
        let head = if parse { frontend::parse("s", text, &[]) } else { Vec::new() };
        [head, frontend::bind("", "s", &Values::default()), frontend::execute("", 0), frontend::sync()].concat()
    };
    let first = a.ask(&ask(true)).value();
    let between = direct(world.cluster().primary(), "app").value("select clock_timestamp()");
    let second = b.ask(&ask(true)).value();
    let later = format!(
        "select '{second}'::timestamptz >= '{between}'::timestamptz and '{first}'::timestamptz <= '{between}'::timestamptz"
    );
    assert_eq!(direct(world.cluster().primary(), "app").value(&later), "t", "{first} {between} {second}");
    assert_eq!(a.ask(&ask(false)).value(), first);
}

fn what_is_created_in_pg_temp_by_its_path_is_temporary(world: &World) {
    let proxy = world.proxy(&one());
    for create in [
        "create table shadow(x int)",
        "create table shadow as select 1 as x where false",
        "select 1 as x into shadow where false",
    ] {
        let (mut a, mut b) = (proxy.login(), proxy.login());
        b.query("drop table if exists public.shadow; create table public.shadow(x int); insert into public.shadow values (1), (2)");
        a.query("set search_path = pg_temp, public");
        a.query(create);
        assert_eq!(a.value("select count(*) from shadow"), "0", "{create}");
        a.query("discard all");
        assert_eq!(b.value("select count(*) from shadow"), "2", "{create}");
        a.query(&format!("set search_path = pg_temp, public; {create}"));
        assert_eq!(a.value("select count(*) from shadow"), "0", "{create}");
        a.query("discard all");
    }
}

fn what_has_no_rows_in_pg_temp_is_temporary_too(world: &World) {
    let proxy = world.proxy(&one());
    for (create, ask, expected) in [
        ("create function pg_temp.two() returns int language sql as 'select 2'", "select pg_temp.two()", "2"),
        ("create domain pg_temp.positive as int check (value > 0)", "select 3::pg_temp.positive", "3"),
    ] {
        let (mut a, mut b) = (proxy.login(), proxy.login());
        a.query(create);
        assert_eq!(a.value(ask), expected, "{create}");
        assert_eq!(b.query(ask).sqlstate().as_deref(), Some("53300"), "{create}");
        a.query("discard all");
        assert!(b.query(ask).sqlstate().is_some_and(|code| code != "53300"), "{create}");
    }
}

fn settings_written_as_a_table_follow_their_client(world: &World) {
    let proxy = world.proxy(&one());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    a.query("update pg_settings set setting = '3MB' where name = 'work_mem'");
    assert_eq!(b.value("show work_mem"), "4MB");
    assert_eq!(a.value("show work_mem"), "3MB");
}

fn own_operators_hide_nothing(world: &World) {
    let mut owner = direct(world.cluster().primary(), "app");
    owner.query(
        "drop schema if exists evil cascade; create schema evil; \
         create function evil.no(oid, oid) returns boolean language sql immutable as 'select false'; \
         create operator evil.= (leftarg = oid, rightarg = oid, function = evil.no); \
         create function evil.no(text, text) returns boolean language sql immutable as 'select false'; \
         create operator evil.= (leftarg = text, rightarg = text, function = evil.no)",
    );
    let proxy = world.proxy(&one());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    a.query("set search_path = evil, pg_catalog, public");
    a.query("create temp table hidden_x(x int)");
    assert_eq!(a.value("select count(*) from hidden_x"), "0");
    drop(a);
    assert_eq!(b.query("select * from hidden_x").sqlstate().as_deref(), Some("42P01"));
    owner.query("drop schema evil cascade");
}

/// A client that has used the connection for something else in between is no owner of what was left before.
fn sequences_asked_before_are_not_told(world: &World) {
    let proxy = world.proxy(&one());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    a.query("drop table if exists seq_user; drop sequence if exists seq_left; create sequence seq_left; create table seq_user(id serial, x int)");
    for first in ["select 1", "begin; update seq_user set x = 1; commit"] {
        a.query("select nextval('seq_left')");
        b.query(first);
        assert_eq!(b.query("select lastval()").sqlstate().as_deref(), Some("55000"), "{first}");
    }
    // Its own it is told.
    a.query("select nextval('seq_left')");
    let id = b.value("insert into seq_user(x) values (1) returning id");
    assert_eq!(b.value("select lastval()"), id);
}

/// Literals are read when a text is parsed, by settings that end with the transaction.
fn a_transactions_settings_are_its_statements_own(world: &World) {
    let proxy = world.proxy(&one());
    let text = "select timestamptz '2021-01-01 00:00' at time zone 'UTC'";
    let run = |name: &str| {
        [
            frontend::parse(name, text, &[]),
            frontend::bind("", name, &Values::default()),
            frontend::execute("", 0),
            frontend::sync(),
        ]
        .concat()
    };
    for (set, end) in [
        ("set local timezone = 'America/New_York'", "commit"),
        ("set timezone = 'America/New_York'", "rollback"),
        ("select set_config('timezone', 'America/New_York', true)", "commit"),
    ] {
        let (mut a, mut b) = (proxy.login(), proxy.login());
        for client in [&mut a, &mut b] {
            client.query("set timezone = 'UTC'");
        }
        a.query("begin");
        a.query(set);
        assert_eq!(a.ask(&run("s")).value(), "2021-01-01 05:00:00", "{set}");
        a.query(end);
        assert_eq!(b.ask(&run("other")).value(), "2021-01-01 00:00:00", "{set}");
    }
}

/// PL/pgSQL keeps what it has planned for as long as the server's session lives.
fn plans_of_functions_are_no_other_clients(world: &World) {
    let proxy = world.proxy(&one());
    let mut a = proxy.login();
    a.query(
        "create or replace function says_when() returns text language plpgsql as \
         $$begin return timestamptz '2020-01-01 00:00' at time zone 'UTC'; end$$",
    );
    for (zone, expected) in
        [("UTC", "2020-01-01 00:00:00"), ("America/New_York", "2020-01-01 05:00:00"), ("UTC", "2020-01-01 00:00:00")]
    {
        let mut client = proxy.login();
        client.query(&format!("set timezone = '{zone}'"));
        assert_eq!(client.value("select says_when()"), expected, "{zone}");
    }
    a.query("drop function says_when()");
}

/// A server that has had temporary tables does not notice that another client's first one hides a table.
fn a_temporary_table_is_seen_by_what_was_planned(world: &World) {
    let proxy = world.proxy(&one());
    let mut owner = proxy.login();
    owner.query("drop table if exists hides; create table hides(v text); insert into hides values ('permanent')");
    owner.query(
        "create or replace function reads_hides() returns text language plpgsql volatile as \
         $$begin return (select v from hides); end$$",
    );
    let make = "create temp table hides(v text); insert into hides values ('own')";
    let before = |world: &World| {
        let mut first = world.proxy(&one()).login();
        first.query("create temp table other(x int)");
        assert_eq!(first.value("select reads_hides()"), "permanent");
    };
    before(world);
    let mut client = proxy.login();
    client.query("prepare p as select v from hides");
    client.query(make);
    assert_eq!(client.value("execute p"), "own");
    drop(client);
    before(world);
    let mut client = proxy.login();
    client.query(make);
    assert_eq!(client.value("select reads_hides()"), "own");
    drop(client);
    before(world);
    let mut client = proxy.login();
    assert_eq!(client.value("select reads_hides()"), "permanent");
    client.query(make);
    assert_eq!(client.value("select reads_hides()"), "own");
    drop(client);
    owner.query("drop function reads_hides(); drop table hides");
}

/// Nothing in these texts looks like a call.
fn code_without_a_name_leaves_nothing(world: &World) {
    let proxy = world.proxy(&one());
    let mut owner = direct(world.cluster().primary(), "app");
    owner.query(
        "drop schema if exists quiet cascade; create schema quiet; \
         create operator quiet.### (leftarg = int, rightarg = int, function = pg_try_advisory_lock)",
    );
    for text in [
        "select (4242::int8).pg_advisory_lock",
        "select 1 operator(quiet.###) 2",
        "select set_config('roleX'::varchar(4), 'app', false)",
        "select set_config('work_memX'::varchar(8), '99MB', false)",
    ] {
        let mut a = proxy.login();
        assert_eq!(a.query(text).sqlstate(), None, "{text}");
        drop(a);
        let mut b = proxy.login();
        let left = "select (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) || \
            current_setting('role') || current_setting('work_mem')";
        assert_eq!(b.value(left), "0none4MB", "{text}");
    }
    owner.query("drop schema quiet cascade");
}
