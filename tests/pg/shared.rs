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
        own_operators_hide_nothing)
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
