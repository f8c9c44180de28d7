//! State of a session: it is the client's own wherever its statements run, and nobody else's.
//!
//! Each script is said once straight to the primary and once through the proxy, where a second client uses the same server connections
//! in between. The first must see what it sees on a server of its own, the second what a new session sees.

use crate::{
    Case,
    backend::Detail,
    cases,
    client::{Client, Login, Reply},
    frontend::{self, Values},
    world::{Setup, World, direct},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(cases!("state", Nothing:
        settings_follow_their_client_alone, startup_settings_follow_their_client_alone, identities_follow_their_client_alone,
        unseen_code_leaves_nothing, a_dropped_role_can_be_left, whatever_ends_the_state_ends_it_for_this_client_only));
    all.extend(cases!("state", Pgsluice: what_unseen_code_sets_stays_with_its_client));
    all
}

/// What a client can tell about its settings.
const MINE: &str = "select current_user, session_user, current_setting('role'), current_setting('work_mem'), current_setting('search_path'), \
    current_setting('timezone'), current_setting('datestyle'), current_setting('client_encoding'), \
    current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only'), \
    current_setting('default_transaction_deferrable'), current_setting('extra_float_digits'), current_setting('statement_timeout'), \
    current_setting('client_min_messages'), current_setting('enable_seqscan'), current_setting('application_name'), \
    current_setting('bytea_output'), current_setting('intervalstyle'), current_setting('xmloption'), \
    current_setting('standard_conforming_strings'), current_setting('synchronous_commit'), current_setting('row_security'), \
    coalesce(current_setting('app.x', true), ''), coalesce(current_setting('app.MiXed', true), ''), \
    coalesce(current_setting('request.jwt.claim', true), '')";

/// The same, and all else that lives in a server's session; on the primary.
const ALL: &str = "select (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors where is_holdable), \
    (select count(*) from pg_class where relnamespace = pg_my_temp_schema()), \
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), \
    (select count(*) from pg_prepared_statements where from_sql), \
    (select coalesce(string_agg(name || '=' || setting, ' '), '') from pg_settings where source = 'session' and name not like 'transaction%')";

const SETTINGS: &[&str] = &[
    "set work_mem = '7MB'",
    "SET SESSION work_mem TO '7MB'",
    "set local work_mem to '7MB'",
    "set work_mem to default",
    "reset work_mem",
    "set work_mem from current",
    "select set_config('work_mem', '7MB', false)",
    "select pg_catalog.set_config('Work_Mem', '7MB', true)",
    "set time zone 'Asia/Tokyo'",
    "set time zone local",
    "set time zone -3",
    "set time zone interval '+02:00' hour to minute",
    "set timezone to 'Europe/Lisbon'",
    "set names 'latin1'",
    "set client_encoding to 'UTF8'",
    "set session characteristics as transaction isolation level repeatable read, read only, deferrable",
    "set default_transaction_read_only = on",
    "set search_path to pg_catalog, \"B c\", public",
    "set search_path = 'x, y'",
    "set search_path = ''",
    "select set_config('search_path', 'a, \"B c\"', false)",
    "set datestyle to german",
    "set datestyle = 'SQL, DMY'",
    "set app.x = 'it''s \"quoted\", and, commas;'",
    "set app.x = E'back\\\\slash\\nline'",
    "set app.x to 'ünïcode'",
    "set app.x to 12.5",
    "set app.\"MiXed\" = on",
    "set request.jwt.claim = '{\"a\": [1, \"b''c\"]}'",
    "select set_config('app.x', 'one', false), set_config('request.jwt.claim', 'two', true)",
    "set local app.x = 'local'",
    "reset app.x",
    "set extra_float_digits = 3",
    "set statement_timeout = '90s'",
    "set client_min_messages = error",
    "set enable_seqscan = off",
    "set application_name = 'x''y \"z\"'",
    "set bytea_output = escape",
    "set intervalstyle = iso_8601",
    "set xml option document",
    "set standard_conforming_strings = off",
    "set synchronous_commit = off",
    "set row_security to off",
    "reset all",
    // No server takes these.
    "set work_mem = 'banana'",
    "set timezone = 'Nowhere/Land'",
    "set client_encoding = 'WRONG'",
    "set datestyle = 'nonsense'",
    "set statement_timeout = -5",
    "set role nosuch",
    "set session authorization nosuch",
    "set nosuch = 1",
    "set app.x to a, b",
    "set max_connections = 5",
    "set server_version = '1'",
    "reset nosuch",
    "set transaction isolation level serializable",
    "set transaction_read_only = on",
];

const IDENTITIES: &[&str] = &[
    "set role bob",
    "set local role bob",
    "set role none",
    "reset role",
    "set role to 'bob'",
    "select set_config('role', 'bob', false)",
    "select set_config('role', 'bob', true)",
    "set session authorization bob",
    "set local session authorization bob",
    "set session authorization default",
    "reset session authorization",
    "select set_config('session_authorization', 'bob', false)",
    "set session authorization bob; set role bob",
    "set role bob; set session authorization bob",
    "set role bob; reset all",
    "set role nosuch",
];

/// `X` is the statement.
const WAYS: &[&[&str]] = &[
    &["X"],
    &["ext X"],
    &["named X"],
    &["set work_mem = '6MB'", "set app.x = 'before'", "X"],
    &["begin", "X", "mine", "commit"],
    &["begin", "ext X", "commit"],
    &["begin", "X", "rollback"],
    &["begin", "ext X", "rollback"],
    &["begin read only", "X", "mine", "commit"],
    &["begin", "set app.x = 'before'", "savepoint s", "X", "rollback to s", "mine", "commit"],
    &["begin", "set app.x = 'before'", "savepoint s", "X", "release s", "mine", "commit"],
    &["begin", "X", "select 1/0", "commit"],
    &["X; select 1"],
    &["X; select 1/0"],
    &["begin; X; commit"],
    &["begin; X; rollback"],
    &["pipeline X"],
    &["X", "begin", "reset all", "rollback"],
    &["X", "reset all"],
    &["X", "ext discard all"],
    &["X", "X"],
];

/// What one step of a script gives, without what differs from run to run.
fn step(client: &mut Client, step: &str, statement: &str) -> Reply {
    let run = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)].concat()
    };
    let (bytes, cycles) = match step.split_once(' ') {
        Some(("ext", text)) => ([run(&text.replace('X', statement)), frontend::sync()].concat(), 1),
        Some(("named", text)) => {
            let use_it =
                [frontend::bind("", "n", &Values::default()), frontend::execute("", 0), frontend::sync()].concat();
            let made = [frontend::parse("n", &text.replace('X', statement), &[]), frontend::sync()].concat();
            ([made, use_it.clone(), use_it].concat(), 3)
        }
        Some(("pipeline", text)) => {
            let text = text.replace('X', statement);
            ([run("select 1"), run(&text), run("select 2"), frontend::sync()].concat(), 1)
        }
        _ if step == "mine" => (frontend::query(MINE), 1),
        _ => (frontend::query(&step.replace('X', statement)), 1),
    };
    client.send(&bytes).expect("send");
    let (reply, trouble) = client.recv_until(b'Z', cycles);
    assert!(trouble.is_none(), "{trouble:?} at {step} with {statement}: {}", reply.render(Detail::Meaning));
    reply
}

/// Reported parameters depend on what a server had before.
fn shown(reply: &Reply) -> String {
    Reply(reply.0.iter().filter(|m| !matches!(m.tag, b'S' | b'T')).cloned().collect()).render(Detail::Meaning)
}

/// What a stranger sees in between.
fn look(other: &mut Client) -> String {
    // On the primary all of it; on whatever a read goes to, the settings.
    let all = other.query(&format!("begin; {ALL}; {MINE}; commit"));
    format!("{} | {}", shown(&all), shown(&other.query(MINE)))
}

fn check(world: &World, setup: &Setup, user: &str, statements: &[&str], ways: &[&[&str]]) {
    let proxy = world.proxy(setup);
    let login = Login::default().user(user);
    let native = || Client::login(world.cluster().primary().port(), &login).expect("log in");
    let clean = look(&mut native());
    let mut other = proxy.login_as(&login);
    for statement in statements {
        for way in ways {
            let (mut expected, mut told) = (Vec::new(), Vec::new());
            let mut client = native();
            for text in *way {
                expected.push(shown(&step(&mut client, text, statement)));
            }
            expected.push(shown(&client.query(MINE)));
            client.vanish();
            let mut client = proxy.login_as(&login);
            for text in *way {
                let reply = step(&mut client, text, statement);
                if reply.status() == Some('I') {
                    assert_eq!(look(&mut other), clean, "somebody else after {text:?} of {way:?} with {statement}");
                }
                told.push(shown(&reply));
            }
            told.push(shown(&step(&mut client, "mine", statement)));
            assert_eq!(told, expected, "{way:?} with {statement}");
            assert_eq!(
                shown(&step(&mut client, "mine", statement)),
                expected[way.len()],
                "{way:?} with {statement}, again"
            );
            client.vanish();
            assert_eq!(look(&mut other), clean, "somebody else after {way:?} with {statement}");
        }
    }
}

fn settings_follow_their_client_alone(world: &World) {
    check(world, &Setup::default(), "app", SETTINGS, WAYS);
    check(world, &Setup::default().primary_only(), "app", &SETTINGS[..40], &WAYS[..3]);
}

fn identities_follow_their_client_alone(world: &World) {
    check(world, &Setup::default(), "postgres", IDENTITIES, WAYS);
}

fn startup_settings_follow_their_client_alone(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let mut other = proxy.login();
    let clean = look(&mut direct_app(world));
    for (name, value) in [
        ("options", "-c work_mem=7MB -c app.x=a\\ b"),
        ("options", "-cwork_mem=7MB --search_path=a,b --app.x='q'"),
        ("options", "-c timezone=Asia/Seoul -c datestyle=German,DMY"),
        ("search_path", "pg_catalog, \"B c\""),
        ("work_mem", "7MB"),
        ("timezone", "America/New_York"),
        ("application_name", "it's \"mine\""),
        ("client_encoding", "latin1"),
        ("DateStyle", "SQL, DMY"),
        ("extra_float_digits", "3"),
        ("default_transaction_read_only", "on"),
        ("app.x", "1"),
        ("bytea_output", "escape"),
    ] {
        let login = Login::default().param(name, value);
        let mut native = Client::login(world.cluster().primary().port(), &login).expect("log in");
        let mut client = proxy.login_as(&login);
        for text in [
            "mine",
            "set work_mem = '6MB'",
            "mine",
            "reset work_mem",
            "mine",
            "set app.x = '2'",
            "reset app.x",
            "mine",
            "set search_path = c",
            "begin",
            "reset all",
            "mine",
            "rollback",
            "mine",
            "reset all",
            "mine",
            "set datestyle = iso",
            "ext discard all",
            "mine",
        ] {
            assert_eq!(
                shown(&step(&mut client, text, "")),
                shown(&step(&mut native, text, "")),
                "{name}={value}: {text}"
            );
            if client.query("select 1").status() == Some('I') {
                assert_eq!(look(&mut other), clean, "somebody else after {text} with {name}={value}");
            }
        }
    }
}

fn direct_app(world: &World) -> Client {
    Client::login(world.cluster().primary().port(), &Login::default()).expect("log in")
}

/// DISCARD, RESET ALL, DEALLOCATE ALL: what the other has stays.
fn whatever_ends_the_state_ends_it_for_this_client_only(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    let named = |name: &str, sql: &str| [frontend::parse(name, sql, &[]), frontend::sync()].concat();
    let use_it = |name: &str| {
        [frontend::bind("", name, &Values::default()), frontend::execute("", 0), frontend::sync()].concat()
    };
    for end in [
        "discard all",
        "ext discard all",
        "reset all",
        "deallocate all",
        "ext deallocate all",
        "discard plans",
        "discard temp",
        "discard sequences",
        "close all",
        "unlisten *",
        "select pg_advisory_unlock_all()",
    ] {
        a.query("set work_mem = '7MB'");
        a.query("set app.x = 'mine'");
        a.ask(&named("n", "select 41"));
        b.query("set work_mem = '8MB'");
        b.ask(&named("n", "select 42"));
        step(&mut b, end, "");
        assert_eq!(a.value("show work_mem"), "7MB", "{end}");
        assert_eq!(a.value("show app.x"), "mine", "{end}");
        assert_eq!(a.ask(&use_it("n")).value(), "41", "{end}");
        let all = end.ends_with("discard all");
        assert_eq!(b.value("show work_mem"), if all || end == "reset all" { "4MB" } else { "8MB" }, "{end}");
        let gone = all || end.ends_with("deallocate all");
        assert_eq!(b.ask(&use_it("n")).sqlstate().as_deref(), gone.then_some("26000"), "{end}");
        for client in [&mut a, &mut b] {
            client.query("discard all");
        }
    }
}

/// Hidden in every place where a statement does not show it.
const UNSEEN: &str = "drop schema if exists unseen cascade; create schema unseen; grant all on schema unseen to public; \
    set search_path to unseen; \
    create function sets(name text, value text) returns text language plpgsql as $$begin perform set_config(name, value, false); return value; end$$; \
    create function takes() returns int language plpgsql as $$begin perform pg_advisory_lock(77); return 1; end$$; \
    create function hears() returns int language plpgsql as $$begin execute 'listen unseen'; return 1; end$$; \
    create function makes() returns int language plpgsql as $$begin create temp table if not exists hidden(i int); return 1; end$$; \
    create function acts() returns int language plpgsql as $$begin set role bob; return 1; end$$; \
    create table plain(i int, v text); insert into plain values (1, 'a'), (2, 'b'); \
    create table noted(i int, v text); \
    create function notes() returns trigger language plpgsql as $$begin \
      if new.v like 'set:%' then perform set_config('app.x', new.v, false); perform set_config('work_mem', '9MB', false); end if; \
      if new.v = 'lock' then perform pg_advisory_lock(78); end if; \
      if new.v = 'role' then set role bob; end if; return new; end$$; \
    create trigger notes before insert or update on noted for each row execute function notes(); \
    create table parent(i int primary key); \
    create table child(i int references parent on delete cascade, v text); \
    create function gone() returns trigger language plpgsql as $$begin perform set_config('app.x', 'gone', false); return old; end$$; \
    create trigger gone after delete on child for each row execute function gone(); \
    create table defaults(i int default length(sets('app.x', 'default')), v text); \
    create view viewed as select i, sets('app.x', 'view') as v from plain; \
    create view builtin as select i, set_config('app.x', 'builtin', false) as v from plain; \
    create view deep as select * from viewed; \
    create view locked as select takes() as i; \
    create view heard as select hears() as i; \
    create table secured(i int, v text); insert into secured values (1, 'a'); alter table secured enable row level security; \
    alter table secured force row level security; \
    create policy p on secured using (sets('app.x', 'policy') is not null); \
    create table ruled(i int, v text); create rule r as on insert to ruled do also select set_config('app.x', 'rule', false); \
    create table parts(i int, v text) partition by list (i); create table part1 partition of parts for values in (1); \
    create trigger notes before insert on part1 for each row execute function notes(); \
    create function fullname(plain) returns text language sql as $$select sets('app.x', 'attribute')$$; \
    create table checked(i int, v text check (sets('app.x', 'check') is not null)); \
    create function lower(plain) returns text language sql as $$select sets('app.x', 'overload')$$; \
    create procedure proc() language plpgsql as $$begin perform set_config('app.x', 'procedure', false); end$$; \
    create function folds(state text, v text) returns text language plpgsql as $$begin return unseen.sets('app.x', 'aggregate'); end$$; \
    create aggregate folded(text) (sfunc = folds, stype = text); create aggregate sum(text) (sfunc = folds, stype = text); \
    create view folding as select folded(v) as v from plain; \
    grant all on all tables in schema unseen to public; reset search_path";

/// Each may leave a setting, a role or a lock behind.
const HIDDEN: &[&str] = &[
    "insert into noted values (1, 'set:insert')",
    "insert into noted values (1, 'nothing')",
    "insert into noted values (1, 'set:again')",
    "update noted set v = 'set:update'",
    "insert into noted values (1, 'role')",
    "copy (select * from viewed) to stdout",
    "with x as (insert into noted values (1, 'set:with') returning *) select * from x",
    "insert into parent values (1); insert into child values (1, 'x'); delete from parent",
    "insert into defaults(v) values ('x')",
    "select * from viewed",
    "select * from builtin where i = 1",
    "select count(v) from deep",
    "select * from secured",
    "select count(*) from secured where v = 'a'",
    "insert into ruled values (1, 'x')",
    "insert into parts values (1, 'set:part')",
    "insert into parts values (2, 'no partition')",
    "select p.fullname from plain p",
    "select lower(p) from plain p",
    "select * from folding",
    "select sum(v) from plain",
    "insert into checked values (1, 'x')",
    "call proc()",
    "do $$begin perform set_config('app.x', 'do', false); set work_mem = '9MB'; end$$",
    "select sets('app.x', 'function')",
    "select acts()",
    "explain analyze select * from viewed",
    "declare c cursor for select * from viewed",
    "begin; declare c cursor for select * from viewed; fetch c; commit",
    "select 1; select * from viewed",
    "prepare p as select * from viewed; execute p; deallocate p",
    "select * from plain",
    "update plain set v = v",
];

/// The next client finds nothing of it, be it by a statement that was never seen or one that was always harmless.
fn unseen_code_leaves_nothing(world: &World) {
    world.superuser(UNSEEN);
    world.settle();
    for (setup, user) in [
        (Setup::default(), "app"),
        (Setup::default().primary_only(), "app"),
        (Setup::default().primary_only(), "postgres"),
    ] {
        let proxy = world.proxy(&setup);
        let clean = look(&mut direct_as(world, user));
        let login = Login::default().user(user);
        let mut other = proxy.login_as(&login);
        for round in ["simple", "extended", "simple"] {
            for sql in HIDDEN {
                let mut client = proxy.login_as(&login);
                client.query("set search_path to unseen, public");
                if round == "extended" {
                    client.extended(sql, &[]);
                } else {
                    client.query(sql);
                }
                assert_eq!(look(&mut other), clean, "somebody else after {sql}, {round}");
                client.vanish();
                assert_eq!(look(&mut other), clean, "somebody else after {sql}, {round}, when its client has left");
            }
        }
        // What would pin the session: its client leaves.
        for sql in
            ["select * from locked", "select * from heard", "insert into noted values (1, 'lock')", "select makes()"]
        {
            for _ in 0..2 {
                let mut client = proxy.login_as(&login);
                client.query("set search_path to unseen, public");
                client.query(sql);
                client.vanish();
                assert_eq!(look(&mut other), clean, "somebody else after {sql}");
            }
        }
    }
}

fn direct_as(world: &World, user: &str) -> Client {
    Client::login(world.cluster().primary().port(), &Login::default().user(user)).expect("log in")
}

/// And its own client keeps it, wherever it goes.
fn what_unseen_code_sets_stays_with_its_client(world: &World) {
    world.superuser(UNSEEN);
    world.settle();
    let proxy = world.proxy(&Setup::default().primary_only());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    a.query("set search_path to unseen, public");
    for (sql, value) in [
        ("select sets('app.x', 'function')", "function"),
        ("do $$begin perform set_config('app.x', 'do', false); end$$", "do"),
        ("do $$begin set app.x = 'do set'; end$$", "do set"),
        ("call proc()", "procedure"),
        ("select * from viewed", "view"),
        ("insert into noted values (1, 'set:trigger')", "set:trigger"),
        ("insert into defaults(v) values ('x')", "default"),
        ("insert into noted values (1, 'set:trigger again')", "set:trigger again"),
        ("select * from secured", "policy"),
    ] {
        a.query(sql);
        assert_eq!(b.value("select coalesce(current_setting('app.x', true), '')"), "", "{sql}");
        assert_eq!(a.value("show app.x"), value, "{sql}");
        let name = format!("app.n{}", value.len());
        let reply = a.extended("select sets($1, $2)", &[&name, value]);
        assert_eq!(reply.sqlstate(), None, "{sql}");
        assert_eq!(b.value(&format!("select coalesce(current_setting('{name}', true), '')")), "", "{sql}");
        assert_eq!(a.value(&format!("show {name}")), value, "{sql}");
    }
    a.query("begin");
    a.query("select sets('app.x', 'undone')");
    a.query("rollback");
    b.query("select 1");
    assert_eq!(a.value("show app.x"), "policy");
}

/// A role that is gone can be left; until then every statement says so.
fn a_dropped_role_can_be_left(world: &World) {
    for (leave, identity) in [
        ("reset role", "set role doomed"),
        ("ext reset role", "set role doomed"),
        ("set role none", "set role doomed"),
        ("set role bob", "set role doomed"),
        ("discard all", "set role doomed"),
        ("ext discard all", "set role doomed"),
        ("reset session authorization", "set role doomed"),
        ("reset session authorization", "set session authorization doomed"),
        ("set session authorization default", "set session authorization doomed"),
        ("discard all", "set session authorization doomed"),
        ("begin", "set role doomed"),
    ] {
        world.superuser("drop role if exists doomed");
        world.superuser("create role doomed");
        world.settle();
        let mut client = world.proxy(&Setup::default().primary_only()).login_as(&Login::default().user("postgres"));
        client.query(identity);
        assert_eq!(client.value("select current_user"), "doomed");
        world.superuser("drop role doomed");
        // Another client's use of the connection takes the role back.
        let mut other = world.proxy(&Setup::default().primary_only()).login_as(&Login::default().user("postgres"));
        assert_eq!(other.value("select current_user"), "postgres");
        if leave == "begin" {
            client.query("begin");
            client.query("reset role");
            client.query("commit");
        } else {
            let reply = step(&mut client, leave, "");
            assert_eq!(reply.sqlstate(), None, "{leave} after {identity}: {}", reply.letters());
        }
        let whom = if leave == "set role bob" { "bob" } else { "postgres" };
        assert_eq!(client.value("select current_user"), whom, "{leave} after {identity}");
        other.query("select 1");
        assert_eq!(client.value("select current_user"), whom, "{leave} after {identity}");
    }
    drop(direct(world.cluster().primary(), "app"));
}
