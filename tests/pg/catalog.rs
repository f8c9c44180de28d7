//! What the catalog says of names, on real servers: where statements go, and what is noticed of changes.

use std::{ops::Deref, rc::Rc};

use crate::{
    Case, cases,
    client::{Client, Login},
    firewall::rules,
    frontend::{self, Values},
    lifecycle::http,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("catalog", Pgsluice:
        names_go_where_they_belong, what_a_replica_runs_is_right, a_change_through_us_is_noticed_at_once,
        a_change_behind_our_back_is_noticed, an_unknown_name_is_looked_for, each_session_has_its_path,
        a_role_has_its_path, prepared_statements_follow_the_catalog, a_temporary_table_hides_another,
        a_path_set_in_a_pipeline_counts, what_cannot_be_read_is_not_believed, what_is_declared_is_believed, explain_asks_the_catalog,
        a_session_sees_its_own_hidden_changes, what_a_statement_reaches_stays_with_its_session, a_table_of_ones_own_hides_what_is_known))
}

const OBJECTS: &str = "drop schema if exists c1, c2 cascade; create schema c1; create schema c2;
    drop table if exists ct, cu, cpart, ctenant, cplain, caudited cascade;
    create table ct(id int primary key, v text); insert into ct select i, 'v' || i from generate_series(1, 5) i;
    create unlogged table cu(id int);
    create table cpart(id int) partition by range (id);
    create table cpart1 partition of cpart for values from (0) to (10);
    create table cpart2 partition of cpart for values from (10) to (20);
    create or replace function c1.immutable(int) returns int immutable language sql as 'select $1 + 1';
    create or replace function c1.reads() returns bigint stable language sql as 'select count(*) from public.ct';
    create or replace function c1.standard() returns bigint stable begin atomic select count(*) from public.ct; end;
    create or replace function c1.computes() returns bigint stable language plpgsql as
        $$declare n bigint; begin select count(*) into n from public.ct where id > 0; return n; end$$;
    create or replace function c1.writes() returns int language sql as $$insert into public.ct values (1000 + (random() * 1e9)::int, 'w') returning 1$$;
    create or replace function c1.unlabelled() returns int language sql as 'select 1';
    create or replace function c1.lies() returns int stable language plpgsql as 'begin return c1.writes(); end';
    create or replace function c1.locks() returns int stable language plpgsql as 'begin perform pg_advisory_xact_lock(5); return 1; end';
    create or replace function c1.dynamic() returns int stable language plpgsql as $$declare n int; begin execute 'select 1' into n; return n; end$$;
    create or replace function c1.twofold(int) returns int immutable language sql as 'select 1';
    create or replace function c1.twofold(text) returns int volatile language sql as 'select 1';
    create or replace function c1.row_of(ct) returns text volatile language sql as $$select 'x'::text$$;
    create or replace procedure c1.proceed() language sql as 'select 1';
    create view c1.tables as select id from public.ct;
    create view c1.computed as select c1.immutable(id) as n from public.ct;
    create view c1.writing as select c1.writes() as n;
    create view c1.locked as select * from public.ct for share;
    create view c1.local as select pg_is_in_recovery() as r;
    create operator c1.@@@ (function = c1.immutable, rightarg = int);
    create function c1.lowers(int, int) returns bool volatile language sql as 'select $1 < $2';
    create operator c1.<<<< (function = c1.lowers, leftarg = int, rightarg = int);
    create type c1.money as (amount int);
    create function c1.to_money(int) returns c1.money volatile language sql as 'select row($1)::c1.money';
    create cast (int as c1.money) with function c1.to_money(int);
    create aggregate c1.total(int) (sfunc = int4pl, stype = int, initcond = '0');
    create function c1.add(int, int) returns int volatile language sql as 'select $1 + $2';
    create aggregate c1.bad_total(int) (sfunc = c1.add, stype = int, initcond = '0');
    create table ctenant(id int, tenant text);
    alter table ctenant enable row level security;
    create policy own on ctenant using (tenant = current_setting('app.tenant', true));
    create table caudited(id int);
    alter table caudited enable row level security;
    create policy audit on caudited using (c1.unlabelled() = id);
    create table cplain(id int);
    create table c2.ct(id int)";

/// A foreign table needs the superuser; no server behind it is ever asked.
const FOREIGN: &str = "do $$begin
    create extension if not exists postgres_fdw;
    drop server if exists nowhere cascade;
    create server nowhere foreign data wrapper postgres_fdw options (host '127.0.0.1', port '1');
    create user mapping for app server nowhere options (user 'app', password 'secret');
    create foreign table cforeign(id int) server nowhere;
    grant select on cforeign to app; end$$";

/// A proxy that knows them. They go with it: operators and casts of a user's would concern the other tests.
struct Prepared<'w> {
    world: &'w World,
    proxy: Rc<Proxy>,
}

impl Deref for Prepared<'_> {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.proxy
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        self.world.superuser("drop schema if exists c1, c2 cascade");
        self.world.superuser("drop server if exists nowhere cascade");
    }
}

fn prepared<'w>(world: &'w World, setup: &Setup) -> Prepared<'w> {
    world.prepare(OBJECTS);
    world.superuser(FOREIGN);
    world.settle();
    Prepared { world, proxy: world.proxy(setup) }
}

fn setup() -> Setup {
    Setup::default().size(3)
}

/// Role and reason of a statement that runs alone in its session.
fn route(proxy: &Proxy, sql: &str) -> String {
    routed(&mut proxy.login(), sql)
}

fn routed(client: &mut Client, sql: &str) -> String {
    client.query(sql);
    let route = client.route();
    format!("{} {}", route.role, route.reason)
}

fn names_go_where_they_belong(world: &World) {
    let proxy = prepared(world, &setup());
    for (sql, expected) in [
        ("select * from ct", "replica proven-read"),
        ("select c1.immutable(1)", "replica proven-read"),
        ("select c1.immutable(id) from ct where c1.immutable(id) > 1", "replica proven-read"),
        ("select c1.reads()", "replica proven-read"),
        ("select c1.standard()", "replica proven-read"),
        ("select c1.computes()", "replica proven-read"),
        ("select c1.dynamic()", "replica proven-read"),
        ("select * from c1.tables", "replica proven-read"),
        ("select * from c1.computed", "replica proven-read"),
        ("select * from cpart", "replica proven-read"),
        ("select * from ctenant", "replica proven-read"),
        ("select c1.total(id) from ct", "replica proven-read"),
        ("select operator(c1.@@@) 1", "replica proven-read"),
        ("select c1.writes()", "primary volatile-function"),
        ("select c1.unlabelled()", "primary volatile-function"),
        ("select c1.lies()", "primary volatile-function"),
        ("select c1.locks()", "primary volatile-function"),
        ("select c1.twofold(1)", "primary volatile-function"),
        ("select ct.row_of from ct", "primary volatile-function"),
        ("select c1.row_of(ct) from ct", "primary volatile-function"),
        ("select * from c1.writing", "primary volatile-function"),
        ("select * from c1.locked", "primary locks-rows"),
        ("select * from c1.local", "primary node-local"),
        ("select 1 operator(c1.<<<<) 2", "primary volatile-function"),
        ("select 1::c1.money", "primary volatile-function"),
        ("select c1.bad_total(id) from ct", "primary volatile-function"),
        ("select * from caudited", "primary volatile-function"),
        ("select * from cu", "primary unknown-relation"),
        ("select * from cforeign", "primary unknown-relation"),
        ("select c1.nosuch()", "primary unknown-function"),
        ("select * from c1.nosuch", "primary unknown-relation"),
    ] {
        // What a standby had refused first would say `retried`.
        assert_eq!(route(&proxy, sql), expected, "{sql}");
        // The same by the extended protocol, and when it was seen before.
        let mut client = proxy.login();
        for _ in 0..2 {
            client.extended(sql, &[]);
            let route = client.route();
            let again = format!("{} {}", route.role, route.reason);
            // Who has written reads its own write on the primary.
            assert!(again == expected || expected.starts_with("primary") && route.role == "primary", "{sql}: {again}");
        }
    }
}

/// The answers are those of the primary.
fn what_a_replica_runs_is_right(world: &World) {
    let proxy = prepared(world, &setup());
    let mut client = proxy.login();
    for sql in [
        "select c1.immutable(1)",
        "select c1.reads()",
        "select c1.standard()",
        "select c1.computes()",
        "select c1.dynamic()",
        "select count(*) from c1.computed",
        "select c1.total(id) from ct",
        "select operator(c1.@@@) 41",
    ] {
        let direct = world.ask(world.cluster().primary(), "app", sql);
        assert_eq!(client.value(sql), direct, "{sql}");
        assert_eq!(client.route().role, "replica", "{sql}");
    }
}

/// Between the change and the look at it nothing is believed, so this needs no waiting on our side of it.
fn a_change_through_us_is_noticed_at_once(world: &World) {
    let proxy = prepared(world, &setup().routing("consistency: off"));
    let (mut ddl, mut client) = (proxy.login(), proxy.login());
    let is = |client: &mut Client, sql: &str, expected: &str| {
        let mut last = String::new();
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("the route", || {
                last = routed(client, sql);
                last == expected
            });
        }));
        assert!(verdict.is_ok(), "{sql}: {last} and not {expected}");
    };
    assert_eq!(routed(&mut client, "select c1.immutable(1)"), "replica proven-read");
    for round in 0..5 {
        ddl.query(
            "create or replace function c1.immutable(int) returns int volatile language sql as 'select c1.writes()'",
        );
        let route = routed(&mut client, "select c1.immutable(1)");
        assert!(route.starts_with("primary"), "{round}: {route}");
        is(&mut client, "select c1.immutable(1)", "primary volatile-function");
        is(&mut client, "select * from c1.computed", "primary volatile-function");
        ddl.query("create or replace function c1.immutable(int) returns int immutable language sql as 'select $1 + 1'");
        is(&mut client, "select c1.immutable(1)", "replica proven-read");
        ddl.query("create or replace view c1.tables as select c1.writes() as id");
        let route = routed(&mut client, "select * from c1.tables");
        assert!(route.starts_with("primary"), "{round}: {route}");
        ddl.query("create or replace view c1.tables as select id from ct");
        is(&mut client, "select * from c1.tables", "replica proven-read");
    }
    // In a transaction it is a change when it is committed.
    ddl.query("begin");
    ddl.query("create or replace function c1.immutable(int) returns int volatile language sql as 'select 2'");
    is(&mut client, "select c1.immutable(1)", "replica proven-read");
    ddl.query("commit");
    let route = routed(&mut client, "select c1.immutable(1)");
    assert!(route.starts_with("primary"), "{route}");
    ddl.query("alter table ct set unlogged");
    is(&mut client, "select * from ct", "primary unknown-relation");
    ddl.query("alter table ct set logged");
    world.settle();
    is(&mut client, "select * from ct", "replica proven-read");
    ddl.query("alter table ct rename to ct_renamed");
    is(&mut client, "select * from ct", "primary unknown-relation");
    world.settle();
    // A view shows what its tables are called now.
    is(&mut client, "select * from c1.tables", "replica proven-read");
    is(&mut client, "select * from ct_renamed", "replica proven-read");
    ddl.query("alter table ct_renamed rename to ct");
}

fn a_change_behind_our_back_is_noticed(world: &World) {
    let proxy = prepared(world, &setup());
    let mut client = proxy.login();
    assert_eq!(routed(&mut client, "select c1.immutable(2)"), "replica proven-read");
    world.prepare("create or replace function c1.immutable(int) returns int volatile language sql as 'select 3'");
    proxy.reload();
    assert_eq!(routed(&mut client, "select c1.immutable(2)"), "primary volatile-function");
    world.prepare("create or replace function c1.immutable(int) returns int immutable language sql as 'select $1 + 1'");
    // And without being told: within the time between two looks.
    eventually("the look", || routed(&mut client, "select c1.immutable(2)") == "replica proven-read");
    world.prepare("create policy late on cplain using (c1.unlabelled() = id)");
    proxy.reload();
    assert_eq!(routed(&mut client, "select * from cplain"), "replica proven-read", "row security is off");
    world.prepare("alter table cplain enable row level security");
    proxy.reload();
    assert_eq!(routed(&mut client, "select * from cplain"), "primary volatile-function");
}

fn an_unknown_name_is_looked_for(world: &World) {
    world.prepare("drop table if exists cnew; drop function if exists cnew()");
    let proxy = world.proxy(&setup());
    let mut client = proxy.login();
    assert_eq!(routed(&mut client, "select * from cnew"), "primary unknown-relation");
    assert_eq!(routed(&mut client, "select cnew()"), "primary unknown-function");
    // Asking for the name is all that happens.
    world.prepare("create table cnew(id int); create function cnew() returns int immutable language sql as 'select 1'");
    eventually("the table to be known", || routed(&mut client, "select * from cnew") == "replica proven-read");
    eventually("the function to be known", || routed(&mut client, "select cnew()") == "replica proven-read");
    assert_eq!(client.value("select cnew()"), "1");
}

fn each_session_has_its_path(world: &World) {
    let proxy = prepared(world, &setup());
    world.prepare("create view c2.shared as select c1.writes() as id; create view c1.shared as select id from ct");
    proxy.reload();
    let (mut one, mut two) = (proxy.login(), proxy.login());
    one.query("set search_path = c1, public");
    two.query("set search_path = c2, public");
    for _ in 0..3 {
        assert_eq!(routed(&mut one, "select * from shared"), "replica proven-read");
        assert!(routed(&mut two, "select * from shared").starts_with("primary volatile-function"));
        assert_eq!(routed(&mut one, "select immutable(1)"), "replica proven-read");
    }
    two.query("set search_path = c1, public");
    let route = routed(&mut two, "select * from shared");
    assert!(["replica proven-read", "primary not-fresh"].contains(&&*route), "{route}");
    one.query("reset search_path");
    assert_eq!(routed(&mut one, "select * from shared"), "primary unknown-relation");
    // Asked for at login.
    let mut three = proxy.login_as(&Login::default().param("search_path", "c2"));
    assert_eq!(routed(&mut three, "select * from shared"), "primary volatile-function");
    let mut four = proxy.login_as(&Login::default().param("search_path", "\"$user\", c1"));
    assert_eq!(routed(&mut four, "select * from shared"), "replica proven-read");
    // Undone.
    let mut five = proxy.login_as(&Login::default().param("search_path", "c1"));
    five.query("begin");
    five.query("set search_path = c2");
    five.query("rollback");
    assert_eq!(routed(&mut five, "select * from shared"), "replica proven-read");
}

fn a_role_has_its_path(world: &World) {
    let proxy = prepared(world, &setup());
    world.prepare("create view c2.mine as select c1.writes() as id; create view c1.mine as select id from ct");
    world.superuser("alter role bob set search_path = c2");
    world.superuser("grant usage on schema c1, c2 to bob; grant select on all tables in schema c1, c2 to bob");
    world.superuser("alter role app in database app set search_path = c1, public");
    world.settle();
    proxy.reload();
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let fresh = world.start_proxy(&setup(), world.cluster());
        let mut bob = fresh.login_as(&Login::default().user("bob"));
        assert!(routed(&mut bob, "select * from mine").starts_with("primary volatile-function"));
        let mut app = fresh.login();
        assert_eq!(routed(&mut app, "select * from mine"), "replica proven-read");
    }));
    world.superuser("alter role bob reset search_path");
    world.superuser("alter role app in database app reset search_path");
    verdict.unwrap_or_else(|what| std::panic::resume_unwind(what));
}

fn prepared_statements_follow_the_catalog(world: &World) {
    let proxy = prepared(world, &setup().routing("consistency: off"));
    let (mut ddl, mut client) = (proxy.login(), proxy.login());
    client.ask(&[frontend::parse("p", "select c1.immutable($1)", &[]), frontend::sync()].concat());
    let mut run = || {
        let run = [frontend::bind("", "p", &Values::text(&["1"])), frontend::execute("", 0), frontend::sync()].concat();
        client.ask(&run);
        let route = client.route();
        format!("{} {}", route.role, route.reason)
    };
    assert_eq!(run(), "replica proven-read");
    ddl.query("create or replace function c1.immutable(int) returns int volatile language sql as 'select 7'");
    assert!(run().starts_with("primary"));
    eventually("the look", || run() == "primary volatile-function");
    ddl.query("create or replace function c1.immutable(int) returns int immutable language sql as 'select $1 + 1'");
    world.settle();
    eventually("the look", || run() == "replica proven-read");
    // PREPARE keeps the session where it is.
    client.query("prepare q as select c1.immutable(1)");
    assert_eq!(client.value("execute q"), "2");
    assert_eq!(client.route().role, "primary");
}

fn a_temporary_table_hides_another(world: &World) {
    let proxy = prepared(world, &setup());
    let mut client = proxy.login();
    assert_eq!(client.value("select count(*) from c1.tables"), "5");
    client.query("create temp table ct(id int)");
    assert_eq!(client.value("select count(*) from ct"), "0");
    assert_eq!(client.route().role, "primary");
    client.query("drop table pg_temp.ct");
    assert_eq!(client.value("select count(*) from ct"), "5");
    client.query("create temp table conly(id int)");
    assert_eq!(client.value("select count(*) from conly"), "0");
}

/// One group: the path is set by one statement and used by the next.
fn a_path_set_in_a_pipeline_counts(world: &World) {
    let proxy = prepared(world, &setup());
    world.prepare("create view c2.piped as select c1.writes() as id; create view c1.piped as select id from ct");
    proxy.reload();
    let mut client = proxy.login_as(&Login::default().param("search_path", "c1"));
    assert_eq!(routed(&mut client, "select * from piped"), "replica proven-read");
    let both = [
        frontend::parse("", "set search_path = c2", &[]),
        frontend::bind("", "", &Values::default()),
        frontend::execute("", 0),
        frontend::parse("", "select * from piped", &[]),
        frontend::bind("", "", &Values::default()),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    // From version 18 on the server reports what search_path is.
    let heard = client.ask(&both.concat()).letters().replace(" S(search_path)", "");
    assert_eq!(heard, "1 2 C(SET) 1 2 D C(SELECT 1) Z(I)");
    assert_eq!(client.route().role, "primary");
}

/// Nobody may read the catalog: safe, as without one.
fn what_cannot_be_read_is_not_believed(world: &World) {
    world.prepare(OBJECTS);
    world.superuser("revoke select on pg_catalog.pg_amproc from public");
    world.settle();
    let proxy = world.start_proxy(&setup(), world.cluster());
    let routes = ["select c1.immutable(1)", "select * from ct"].map(|sql| route(&proxy, sql));
    world.superuser("grant select on pg_catalog.pg_amproc to public");
    world.settle();
    assert!(proxy.log().contains("the catalog cannot be read"), "{}", proxy.log());
    assert_eq!(routes, ["primary unknown-function", "replica proven-read"]);
    proxy.reload();
    assert_eq!(route(&proxy, "select c1.immutable(1)"), "replica proven-read");
    world.prepare("drop schema c1, c2 cascade");
}

/// `functions:` of a rule file goes before what the catalog says, and comes and goes with a reload.
fn what_is_declared_is_believed(world: &World) {
    let objects = prepared(world, &setup());
    let text = "
functions:
  - { name: c1.unlabelled, read_only: true }
  - { name: writes, writes: [ct] }
";
    let proxy = world.start_proxy(&setup().top(&rules(world, "declared", text)), world.cluster());
    let mut client = proxy.login();
    client.ask(&[frontend::parse("p", "select c1.unlabelled()", &[]), frontend::sync()].concat());
    let mut run = || {
        client.ask(&[frontend::bind("", "p", &Values::default()), frontend::execute("", 0), frontend::sync()].concat());
        client.route().role
    };
    assert_eq!(run(), "replica");
    assert_eq!(route(&proxy, "select c1.unlabelled()"), "replica proven-read");
    assert_eq!(route(&proxy, "select * from caudited"), "replica proven-read");
    assert_eq!(route(&proxy, "select c1.writes()"), "primary volatile-function");
    assert_eq!(route(&proxy, "select c1.lies()"), "primary volatile-function");
    // The rule file has changed.
    rules(world, "declared", "functions: [{ name: c1.dynamic, read_only: true }]");
    proxy.reload();
    assert_eq!(route(&proxy, "select c1.unlabelled()"), "primary volatile-function");
    // A session takes over what is new when it is idle, so it was perhaps waiting for this one by the old rules.
    run();
    assert_eq!(run(), "primary");
    drop(objects);
}

fn explain_asks_the_catalog(world: &World) {
    let proxy = prepared(world, &setup());
    let explain = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_pgsluice"))
            .args(["explain", "--format", "json", "-c"])
            .arg(&proxy.config)
            .args(arguments)
            .output()
            .expect("run explain");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        format!("{} {}", json["route"]["to"].as_str().unwrap_or(""), json["route"]["reason"].as_str().unwrap_or(""))
    };
    for (arguments, expected) in [
        (&["select c1.immutable(1)"][..], "primary unknown-function"),
        (&["select * from c1.writing"], "replica proven-read"),
        (&["--connect", "select c1.immutable(1)"], "replica proven-read"),
        (&["--connect", "select * from c1.writing"], "primary volatile-function"),
        (&["--connect", "select * from cu"], "primary unknown-relation"),
        (&["--connect", "select immutable(1)"], "primary unknown-function"),
        (&["--connect", "--search-path", "c1", "select immutable(1)"], "replica proven-read"),
    ] {
        assert_eq!(explain(arguments), expected, "{arguments:?}");
    }
}

/// Each with code in another place, and one without any.
const REACHED: &str = "drop schema if exists c3 cascade; create schema c3; set search_path to c3;
    create function sets(value text) returns text language plpgsql as
        $$begin perform set_config('app.x', value, false); return value; end$$;
    create function notes() returns trigger language plpgsql as
        $$begin perform set_config('app.x', 'trigger', false); return coalesce(new, old); end$$;
    create table plain(i int primary key, v text default now()::text, w text generated always as (upper(v)) stored, check (i > 0));
    create view over_plain as select i, v from plain;
    create table noted(i int, v text); create trigger notes before insert or update on noted for each row execute function notes();
    create view over_noted as select i, v from noted;
    create table parent(i int primary key); create table child(i int references parent on delete cascade);
    create trigger notes after delete on child for each row execute function notes();
    create table defaults(i int, v text default sets('default'));
    create table checked(i int, v text check (sets('check') is not null));
    create view computed as select i, sets('view') as v from plain;
    create table ruled(i int); create rule r as on insert to ruled do also select sets('rule');
    create table parts(i int) partition by list (i); create table part1 partition of parts for values in (1);
    create trigger notes before insert on part1 for each row execute function notes();
    create table old(i int); create table young() inherits (old);
    create trigger notes before update on young for each row execute function notes();
    insert into plain values (1); insert into old values (1); insert into young values (1);
    reset search_path";

/// Triggers, rules, defaults and checks run code that stands in no text; a pool of one makes certain that what it leaves would be found.
fn what_a_statement_reaches_stays_with_its_session(world: &World) {
    world.prepare(REACHED);
    let proxy = world.start_proxy(&Setup::default().primary_only().size(1), world.cluster());
    let mut other = proxy.login();
    for (sql, sets) in [
        ("select * from c3.plain", ""),
        ("insert into c3.plain(i) values (2) on conflict do nothing", ""),
        ("update c3.over_plain set v = 'x'", ""),
        ("delete from c3.plain where i = 2", ""),
        ("copy (select * from c3.over_plain) to stdout", ""),
        ("select * from c3.noted", ""),
        ("select * from c3.over_noted", ""),
        ("insert into c3.noted values (1)", "trigger"),
        ("update c3.over_noted set v = 'x'", "trigger"),
        ("insert into c3.parent values (1); insert into c3.child values (1); delete from c3.parent", "trigger"),
        ("insert into c3.defaults(i) values (1)", "default"),
        ("insert into c3.checked(i) values (1)", "check"),
        ("select * from c3.computed", "view"),
        ("insert into c3.ruled values (1)", "rule"),
        ("insert into c3.parts values (1)", "trigger"),
        ("update c3.old set i = 2", "trigger"),
        ("update only c3.old set i = 2", ""),
    ] {
        for _ in 0..2 {
            let mut client = proxy.login();
            assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
            assert_eq!(
                other.value("select coalesce(current_setting('app.x', true), '')"),
                "",
                "another client after {sql}"
            );
            assert_eq!(client.value("select coalesce(current_setting('app.x', true), '')"), sets, "{sql}");
        }
    }
    // What has changed since is known as well.
    let mut client = proxy.login();
    client.query("create trigger notes before insert on c3.plain for each row execute function c3.notes()");
    client.query("insert into c3.plain(i) values (3)");
    assert_eq!(other.value("select coalesce(current_setting('app.x', true), '')"), "");
    let (_, page) = http(proxy.admin, "/metrics");
    for line in [
        "looks_total{database=\"app\",outcome=\"changed\"}",
        "generation{database=\"app\"}",
        "age_seconds{database=\"app\"}",
        "questions_total ",
    ] {
        assert!(page.contains(&format!("pgsluice_catalog_{line}")), "{line}\n{page}");
    }
    world.prepare("drop schema c3 cascade");
}

/// A snapshot has no temporary tables: they are a session's own, and so is what their triggers leave.
fn a_table_of_ones_own_hides_what_is_known(world: &World) {
    world.prepare(REACHED);
    let proxy = world.start_proxy(&Setup::default().primary_only().size(1), world.cluster());
    let mut other = proxy.login();
    let insert = "insert into plain(i) values (4)";
    for script in [
        &[
            "begin",
            "create temp table plain(i int) on commit drop",
            "create trigger n before insert on plain for each row execute function c3.notes()",
            insert,
            "commit",
        ][..],
        &[
            "create temp table plain(i int)",
            "create trigger n before insert on plain for each row execute function c3.notes()",
            insert,
        ],
    ] {
        let mut client = proxy.login();
        client.query("set search_path to c3");
        // Known as harmless.
        client.query("delete from plain where i = 4");
        client.query(insert);
        for sql in script {
            assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
        }
        drop(client);
        assert_eq!(other.value("select coalesce(current_setting('app.x', true), '')"), "", "{script:?}");
    }
    world.prepare("drop schema c3 cascade");
}

/// What code has done to the schema stands in no text. Whoever ran it does not believe the catalog until that was looked at again.
fn a_session_sees_its_own_hidden_changes(world: &World) {
    let proxy = prepared(world, &setup().routing("consistency: off"));
    world.prepare("create procedure c1.proceed(code text) language plpgsql as $$begin execute code; end$$");
    proxy.reload();
    let (bad, good) = (
        "create or replace view c1.tables as select c1.writes() as id",
        "create or replace view c1.tables as select id from ct",
    );
    for (before, after) in
        [("do $x$begin ", "; end$x$"), ("call c1.proceed($x$", "$x$)"), ("begin; do $x$begin ", "; end$x$; commit")]
    {
        let mut client = proxy.login();
        assert_eq!(routed(&mut client, "select * from c1.tables"), "replica proven-read", "{before}");
        client.query(&format!("{before}{bad}{after}"));
        let route = routed(&mut client, "select * from c1.tables");
        assert!(route.starts_with("primary"), "{before}: {route}");
        let route = routed(&mut client, "select * from ct");
        assert_eq!(route, "replica proven-read", "{before}: a table is one");
        eventually("the look", || routed(&mut client, "select * from c1.tables") == "primary volatile-function");
        client.query(&format!("{before}{good}{after}"));
        eventually("the look", || routed(&mut client, "select * from c1.tables") == "replica proven-read");
        world.settle();
    }
}
