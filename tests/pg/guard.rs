//! `session_guard`: what may pin, what is refused, and that a refusal is like any error of a server at the same place.

use std::fs;

use crate::{
    Case, cases,
    client::Client,
    frontend::{self, Values},
    lifecycle::{http, rewrite},
    world::{Proxy, Setup, World, direct, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("guard", Pgsluice:
        a_refusal_is_like_an_error_of_the_server, a_denial_is_like_an_error_of_the_server, every_feature_is_blocked_in_every_spelling, what_is_prepared_is_judged_when_it_runs,
        a_number_is_a_name_for_a_function, state_that_is_allowed_reaches_nobody, a_library_is_not_left_to_others, a_warning_is_said_once,
        pins_have_a_limit, pins_end_with_what_they_are_for, notifications_arrive))
}

const TABLE: &str =
    "drop table if exists t cascade; create table t(id int primary key, v text); insert into t values (1, 'a')";

/// One message, or several in one write.
enum Say {
    /// A simple Query.
    Q(&'static str),
    /// Parse, Bind, Describe, Execute, Sync.
    X(&'static str),
    /// Several texts, each Parse, Bind, Execute; one Sync at the end.
    Batch(&'static [&'static str]),
    /// The same with a Flush after each.
    Flushed(&'static [&'static str]),
    /// Each with its own Sync, in one write.
    Pipeline(&'static [&'static str]),
    /// Parse of a name, then its use.
    Named(&'static str),
    /// Queries in one write.
    Queries(&'static [&'static str]),
}
use Say::{Batch, Flushed, Named, Pipeline, Q, Queries, X};

impl Say {
    fn bytes(&self, offence: &str) -> (Vec<u8>, usize) {
        let text = |sql: &str| sql.replace("$X", offence);
        let run = |sql: &str| {
            [frontend::parse("", &text(sql), &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)]
                .concat()
        };
        match self {
            Q(sql) => (frontend::query(&text(sql)), 1),
            X(sql) => (frontend::extended(&text(sql), &Values::default()), 1),
            Batch(texts) => {
                let all: Vec<u8> = texts.iter().flat_map(|sql| run(sql)).collect();
                ([all, frontend::sync()].concat(), 1)
            }
            Flushed(texts) => {
                let all: Vec<u8> = texts.iter().flat_map(|sql| [run(sql), frontend::flush()].concat()).collect();
                ([all, frontend::sync()].concat(), 1)
            }
            Pipeline(texts) => {
                (texts.iter().flat_map(|sql| [run(sql), frontend::sync()].concat()).collect(), texts.len())
            }
            Named(sql) => {
                let use_it =
                    [frontend::bind("", "n", &Values::default()), frontend::execute("", 0), frontend::sync()].concat();
                ([frontend::parse("n", &text(sql), &[]), frontend::sync(), use_it].concat(), 2)
            }
            Queries(texts) => (texts.iter().flat_map(|sql| frontend::query(&text(sql))).collect(), texts.len()),
        }
    }
}

/// `$X` is what is refused, or for the server what it cannot even parse: of a message with a syntax error nothing is carried out either.
const LIKE_A_SYNTAX_ERROR: &[&[Say]] = &[
    &[Q("$X"), Q("select 1")],
    &[Q("select 1; $X; select 2"), Q("select 1")],
    &[Q("begin; $X; commit"), Q("select 1")],
    &[Q("begin"), Q("$X"), Q("select 1"), Q("commit"), Q("select 2")],
    &[Q("begin"), Q("select 1"), Q("$X"), Q("select 1"), Q("commit"), Q("select 2")],
    &[Q("begin"), Q("select 1"), Q("$X; select 1"), Q("rollback")],
    &[Q("begin"), Q("select 1"), Q("commit; $X"), Q("select 1"), Q("rollback")],
    &[
        Q("begin"),
        Q("insert into t values (5, 'x')"),
        Q("savepoint s"),
        Q("insert into t values (6, 'y')"),
        Q("$X"),
        Q("select 1"),
        Q("rollback to s"),
        Q("select id from t where id > 1"),
        Q("commit"),
        Q("select id from t where id > 1"),
    ],
    &[Q("begin"), Q("$X"), Q("rollback to s"), Q("rollback")],
    &[Q("begin"), Q("$X"), Q("rollback to s; select 1"), Q("rollback")],
    &[Q("begin"), Q("$X"), X("rollback to s"), Q("rollback")],
    &[Q("begin read only"), Q("$X"), Q("commit and chain"), Q("show transaction_read_only"), Q("rollback")],
    &[Q("begin"), Q("$X"), Q("rollback and chain"), Q("select 1"), Q("commit")],
    &[Q("begin"), Q("$X"), Q("prepare transaction 'x'"), Q("select 1")],
    &[Q("begin"), Q("$X"), Q("commit; select 1"), Q("select 2")],
    &[Q("begin"), Q("$X"), Q("rollback; select 1"), Q("select 2")],
    &[Q("begin"), Q("$X"), Q("nonsense"), X("nonsense"), Q("end")],
    &[Q("begin"), Q("$X"), Q("begin"), Q("savepoint s"), Q("abort")],
    &[Q("start transaction"), X("$X"), X("select 1"), X("commit"), X("select 1")],
    &[Q("begin"), Q("select 1"), X("$X"), X("select 1"), X("commit")],
    &[Q("begin"), Q("savepoint s"), X("$X"), X("rollback to s"), X("select 1"), Q("rollback")],
    &[X("$X"), X("select 1")],
    &[Batch(&["$X"]), Q("select 1")],
    &[Batch(&["select 1", "$X", "select 2"]), Q("select 1")],
    &[Batch(&["insert into t values (5, 'x')", "$X"]), Q("select id from t where id > 1")],
    &[Batch(&["begin", "$X", "commit"]), Q("select 1"), Q("rollback")],
    &[Batch(&["begin", "insert into t values (5, 'x')", "$X", "commit"]), Q("select 1"), Q("commit"), Q("select 1")],
    &[Batch(&["begin", "insert into t values (5, 'x')", "commit", "$X"]), Q("select id from t where id > 1")],
    &[Q("begin"), Batch(&["select 1", "$X"]), Batch(&["rollback", "select 1"])],
    &[Flushed(&["select 1", "$X", "select 2"]), Q("select 1")],
    &[Flushed(&["begin", "$X", "select 2"]), Q("rollback")],
    &[Pipeline(&["select 1", "$X", "select 2"]), Q("select 1")],
    &[Pipeline(&["begin", "$X", "select 1", "commit", "select 2"])],
    &[Pipeline(&["begin", "select 1", "savepoint s", "$X", "rollback to s", "select 2", "commit"])],
    &[Named("$X"), Q("select 1")],
    &[Q("begin"), Named("$X"), Q("rollback")],
    &[Queries(&["select 1", "$X", "select 2"])],
    &[Queries(&["begin", "$X", "select 1", "rollback", "select 2"])],
];

/// The same where the server comes so far as to carry the statement out: a failed transaction hides what else there is to say.
const LIKE_A_DIVISION_BY_ZERO: &[&[Say]] = &[
    &[Q("begin"), Q("select 1/0"), Q("$X"), Q("rollback")],
    &[Q("begin"), Q("select 1/0"), X("$X"), Q("rollback")],
    &[Q("begin"), Q("select 1"), Q("select 1/0"), Batch(&["$X", "select 1"]), Q("rollback")],
    &[Q("begin"), Q("$X"), Q("$X"), X("$X"), Q("rollback")],
];

fn say(client: &mut Client, script: &[Say], offence: &str) -> Vec<String> {
    let one = |step: &Say| {
        let (bytes, cycles) = step.bytes(offence);
        client.send(&bytes).expect("send");
        let (reply, trouble) = client.recv_until(b'Z', cycles);
        assert!(trouble.is_none(), "{trouble:?} after {}", reply.letters());
        ["0A000", "42501", "42601", "22012"]
            .iter()
            .fold(reply.letters(), |letters, code| letters.replace(code, "error"))
    };
    script.iter().map(one).collect()
}

fn blocking(world: &World) -> std::rc::Rc<Proxy> {
    world.proxy(&Setup::default().top("session_guard: { mode: block }"))
}

fn a_refusal_is_like_an_error_of_the_server(world: &World) {
    let settings = [
        (LIKE_A_SYNTAX_ERROR, "selec", ["listen c", "select pg_advisory_lock(1)", "create temp table x(i int)"]),
        (LIKE_A_DIVISION_BY_ZERO, "select 1/0", ["listen c", "select pg_advisory_lock(1)", "load 'plpgsql'"]),
    ];
    are_alike(world, &blocking(world), settings);
}

/// What the firewall denies is refused at the same doors, in the same way.
fn a_denial_is_like_an_error_of_the_server(world: &World) {
    let rules = "firewall:\n  - { name: x, when: { tables: [secret] }, deny: {} }\n  - { name: y, when: { functions: [pg_sleep] }, deny: {} }\n";
    let proxy = world.proxy(&Setup::default().top(&crate::firewall::rules(world, "alike", rules)));
    let offences = ["select * from secret", "select pg_sleep(1)", "insert into secret values (1)"];
    let settings = [(LIKE_A_SYNTAX_ERROR, "selec", offences), (LIKE_A_DIVISION_BY_ZERO, "select 1/0", offences)];
    are_alike(world, &proxy, settings);
}

/// Scripts, what the server fails at, and what we refuse.
type Alike = (&'static [&'static [Say]], &'static str, [&'static str; 3]);

fn are_alike(world: &World, proxy: &Proxy, settings: [Alike; 2]) {
    for (scripts, fault, offences) in settings {
        for script in scripts {
            world.prepare(TABLE);
            let expected = say(&mut direct(world.cluster().primary(), "app"), script, fault);
            for offence in offences {
                world.prepare(TABLE);
                let said = say(&mut proxy.login(), script, offence);
                let steps = script.iter().map(|step| String::from_utf8_lossy(&step.bytes(offence).0).into_owned());
                let steps: Vec<String> = steps.map(|bytes| bytes.replace('\0', " ")).collect();
                assert_eq!(said, expected, "{steps:#?}");
            }
        }
    }
    let open = "select count(*) from pg_stat_activity where usename = 'app' and state like 'idle in transaction%' and application_name <> 'keep'";
    eventually("no transaction to be left", || world.superuser(open) == "0");
}

/// Feature, statement.
const SPELLINGS: &[(&str, &str)] = &[
    ("listen", "listen c"),
    ("listen", "/* a */ LISTEN \"C d\""),
    ("listen", "do $$ begin listen c; end $$"),
    ("listen", "do $$ begin if true then execute 'listen c'; end if; end $$"),
    ("temp_table", "create temp table x(i int)"),
    ("temp_table", "create temporary view x as select 1"),
    ("temp_table", "create temp sequence x"),
    ("temp_table", "create temp table x as select 1"),
    ("temp_table", "select 1 as a into temp x"),
    ("temp_table", "create table pg_temp.x(i int)"),
    ("temp_table", "do 'begin create temp table x(i int); end'"),
    ("advisory_lock", "select pg_advisory_lock(1)"),
    ("advisory_lock", "select pg_catalog.pg_try_advisory_lock_shared(1, 2)"),
    ("advisory_lock", "with l as materialized (select pg_advisory_lock(6)) select 1 from l"),
    ("advisory_lock", "copy (select pg_advisory_lock(1)) to stdout"),
    ("advisory_lock", "explain analyze select pg_advisory_lock(1)"),
    ("advisory_lock", "insert into t values (pg_try_advisory_lock(1)::int, 'x')"),
    ("advisory_lock", "prepare p as select pg_advisory_lock(1)"),
    ("advisory_lock", "declare c cursor with hold for select pg_advisory_lock(1)"),
    ("advisory_lock", "do $$ begin perform pg_advisory_lock(1); end $$"),
    ("advisory_lock", "do $$ declare b bool; begin b := pg_try_advisory_lock(1); end $$"),
    ("with_hold_cursor", "declare c cursor with hold for select 1"),
    ("prepare", "prepare p as select 1"),
    ("set", "select set_config('app.' || 'x', 'y', false)"),
    ("load", "load 'plpgsql'"),
];

/// Statements near to them that need no server of their own.
const HARMLESS: &[&str] = &[
    "notify c",
    "unlisten *",
    "create table y(i int)",
    "drop table y",
    "explain select pg_advisory_lock(1)",
    "select pg_advisory_xact_lock(1)",
    "select pg_advisory_unlock_all()",
    "set app.x = '1'",
    "set work_mem = '5MB'",
    "select set_config('app.x', '2', false)",
    "reset all",
    "discard all",
    "do $$ begin perform pg_advisory_xact_lock(1); end $$",
    "begin; create temp table x(i int) on commit drop; insert into x values (1); commit",
    "begin; declare c cursor for select 1; fetch c; commit",
];

fn every_feature_is_blocked_in_every_spelling(world: &World) {
    world.prepare(TABLE);
    let features: std::collections::BTreeSet<&str> = SPELLINGS.iter().map(|(feature, _)| *feature).collect();
    for feature in features {
        let top = format!("session_guard: {{ mode: pin, features: {{ {feature}: block }} }}");
        let proxy = world.proxy(&Setup::default().size(3).top(&top));
        for (whose, sql) in SPELLINGS.iter().filter(|(whose, _)| *whose == feature) {
            let mut client = proxy.login();
            let refused = |reply: &crate::client::Reply| {
                let message = reply.0.iter().find(|m| m.tag == b'E').and_then(|m| m.field(b'M')).unwrap_or_default();
                assert_eq!(reply.sqlstate().as_deref(), Some("0A000"), "{sql}: {}", reply.letters());
                assert!(message.contains(whose), "{sql}: {message}");
            };
            refused(&client.query(sql));
            refused(&client.extended(sql, &[]));
            refused(&client.query(&format!("select 1; {sql}")));
            assert_eq!(client.value("select 1"), "1", "{sql}");
            assert_eq!(client.route().pinned, "∅", "{sql}");
        }
    }
    let mut client = blocking(world).login();
    for sql in HARMLESS {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
    }
}

/// Parsed, or prepared by SQL, while it was allowed; run when it is no longer.
fn what_is_prepared_is_judged_when_it_runs(world: &World) {
    world.prepare(TABLE);
    let proxy = world.start_proxy(&Setup::default().size(3).top("session_guard: { mode: pin }"), world.cluster());
    let (mut plain, mut pinned) = (proxy.login(), proxy.login());
    plain.ask(&[frontend::parse("n", "select pg_advisory_lock(1)", &[]), frontend::sync()].concat());
    plain.ask(&[frontend::parse("m", "select 7", &[]), frontend::sync()].concat());
    assert_eq!(pinned.query("prepare p as select pg_advisory_lock(1)").letters(), "C(PREPARE) Z(I)");
    let before = proxy.log();
    rewrite(&proxy, "session_guard: { mode: pin }", "session_guard: { mode: pin, features: { advisory_lock: block } }");
    eventually("the reload", || proxy.log()[before.len()..].contains("reload"));
    let use_it = |name: &str| {
        [frontend::bind("", name, &Values::default()), frontend::execute("", 0), frontend::sync()].concat()
    };
    assert_eq!(plain.ask(&use_it("n")).letters(), "2 E(0A000) Z(I)");
    assert_eq!(plain.ask(&use_it("m")).letters(), "2 D C(SELECT 1) Z(I)");
    plain.query("begin");
    assert_eq!(plain.ask(&use_it("n")).letters(), "2 E(0A000) Z(E)");
    assert_eq!(plain.query("execute n").letters(), "E(25P02) Z(E)");
    plain.query("rollback");
    assert_eq!(plain.query("execute n").letters(), "E(0A000) Z(I)");
    for sql in ["execute p", "explain analyze execute p", "create table z_p as execute p"] {
        assert_eq!(pinned.query(sql).letters(), "E(0A000) Z(I)", "{sql}");
        assert_eq!(pinned.extended(sql, &[]).letters(), "E(0A000) Z(I)", "{sql}");
    }
    assert_eq!(pinned.query("deallocate p").letters(), "C(DEALLOCATE) Z(I)");
}

fn a_number_is_a_name_for_a_function(world: &World) {
    let mut client = blocking(world).login();
    for oid in [2880, 2882] {
        assert_eq!(client.ask(&frontend::function_call(oid, &["1"])).letters(), "E(0A000) Z(I)", "{oid}");
    }
    client.query("begin");
    client.query("select 1");
    assert_eq!(client.ask(&frontend::function_call(2880, &["1"])).letters(), "E(0A000) Z(E)");
    assert_eq!(client.ask(&frontend::function_call(2880, &["1"])).letters(), "E(25P02) Z(E)");
    client.query("rollback");
    // pg_advisory_unlock
    assert_eq!(client.ask(&frontend::function_call(2884, &["1"])).letters(), "N V Z(I)");
}

/// Whatever was let in without a pin: the next client on that server finds nothing of it.
fn state_that_is_allowed_reaches_nobody(world: &World) {
    world.prepare(TABLE);
    let proxy = world.proxy(&Setup::default().primary_only().top("session_guard: { mode: allow }"));
    let (mut a, mut b) = (proxy.login(), proxy.login());
    let state = "select (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors), \
        (select count(*) from pg_class where relnamespace = pg_my_temp_schema()), \
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), \
        (select count(*) from pg_prepared_statements where from_sql), coalesce(current_setting('app.x', true), '')";
    for sql in [
        "listen c",
        "create temp table x(i int)",
        "select pg_advisory_lock(1)",
        "declare c cursor with hold for select 1",
        "prepare p as select 1",
        "select set_config('app.' || 'x', 'y', false)",
    ] {
        for ext in [false, true] {
            let reply = if ext { a.extended(sql, &[]) } else { a.query(sql) };
            assert_eq!(reply.sqlstate(), None, "{sql}");
            assert_eq!(a.route().pinned, "∅", "{sql}");
            // Nobody else was there in between: it is still where it was.
            assert_ne!(a.query(state).rows(), [["0", "0", "0", "0", "0", ""]], "{sql}");
            assert_eq!(b.query(state).rows(), [["0", "0", "0", "0", "0", ""]], "{sql}");
            assert_eq!(a.query(state).rows(), [["0", "0", "0", "0", "0", ""]], "{sql}");
        }
    }
    b.ask(&[frontend::parse("mine", "select 5", &[]), frontend::sync()].concat());
    a.query("prepare p as select 1");
    let use_it = [frontend::bind("", "mine", &Values::default()), frontend::execute("", 0), frontend::sync()].concat();
    assert_eq!(b.ask(&use_it).letters(), "2 D C(SELECT 1) Z(I)");
    assert_eq!(b.query("prepare p as select 2").letters(), "C(PREPARE) Z(I)");
}

fn a_library_is_not_left_to_others(world: &World) {
    let proxy = world.proxy(&Setup::default().primary_only().top("session_guard: { mode: allow }"));
    let superuser = crate::client::Login::default().user("postgres");
    let (mut a, mut b) = (proxy.login_as(&superuser), proxy.login_as(&superuser));
    let before = b.value("select pg_backend_pid()");
    assert_eq!(a.query("load 'plpgsql'").letters(), "C(LOAD) Z(I)");
    assert_ne!(b.value("select pg_backend_pid()"), before);
}

fn a_warning_is_said_once(world: &World) {
    let proxy = world.start_proxy(&Setup::default().size(3).top("session_guard: { mode: warn }"), world.cluster());
    let mut client = proxy.login();
    for _ in 0..3 {
        client.query("listen c");
        assert_eq!(client.route().pinned, "∅");
        client.query("select 1");
        assert_eq!(client.route().pinned, "listen");
        client.query("unlisten c");
        client.query("select 1");
        assert_eq!(client.route().pinned, "∅");
    }
    client.query("select pg_advisory_lock(1)");
    client.query("select 1");
    let log = proxy.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("keeps its server connection")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("listen") && lines[1].contains("advisory_lock"), "{lines:?}");
    let (_, metrics) = http(proxy.admin, "/metrics");
    for line in ["pgsluice_pins_total{reason=\"listen\"} 3", "pgsluice_pins_total{reason=\"advisory_lock\"} 1"] {
        assert!(metrics.contains(line), "{line}");
    }
}

fn pins_have_a_limit(world: &World) {
    world.prepare(TABLE);
    let setup = Setup::default().size(3).top("session_guard: { mode: pin, max_pinned: 2 }");
    let proxy = world.start_proxy(&setup, world.cluster());
    let mut clients: Vec<Client> = (0..4).map(|_| proxy.login()).collect();
    assert_eq!(clients[0].query("listen c").sqlstate(), None);
    // A second feature of the same session is not another server.
    assert_eq!(clients[0].query("create temp table x(i int)").sqlstate(), None);
    assert_eq!(clients[1].query("select pg_advisory_lock(1)").sqlstate(), None);
    for sql in ["listen c", "prepare p as select 1"] {
        let reply = clients[2].query(sql);
        assert_eq!(reply.letters(), "E(53400) Z(I)", "{sql}");
        let detail = reply.0[0].field(b'D').unwrap_or_default();
        assert!(detail.contains("max_pinned"), "{detail}");
        assert_eq!(clients[2].extended(sql, &[]).letters(), "E(53400) Z(I)", "{sql}");
    }
    clients[2].query("begin");
    clients[2].query("insert into t values (5, 'x')");
    assert_eq!(clients[2].query("listen c").letters(), "E(53400) Z(E)");
    assert_eq!(clients[2].query("commit").letters(), "C(ROLLBACK) Z(I)");
    // What cannot be seen beforehand is not refused, but counts.
    assert_eq!(clients[3].query("do $$ begin execute 'lis' || 'ten c'; end $$").sqlstate(), None);
    assert_eq!(clients[3].query("select 1").sqlstate(), None);
    clients[3].query("unlisten *");
    clients[1].query("select pg_advisory_unlock(1)");
    // The answer comes before the pin is gone.
    clients[1].query("select 1");
    clients[3].query("select 1");
    assert_eq!(clients[2].query("listen c").sqlstate(), None);
    assert_eq!(clients[3].query("listen c").letters(), "E(53400) Z(I)");
    // One that leaves makes room.
    clients.remove(0).vanish();
    eventually("room for another", || clients[2].query("listen c").sqlstate().is_none());
    // A statement that failed has taken no place.
    for _ in 0..3 {
        clients[1].query("prepare p as select nosuch");
    }
    assert_eq!(clients[1].query("select 1").sqlstate(), None);
    let text = fs::read_to_string(&proxy.config).expect("the configuration");
    assert!(text.contains("max_pinned: 2"));
    let before = proxy.log();
    rewrite(&proxy, "max_pinned: 2", "max_pinned: 3");
    eventually("the reload", || proxy.log()[before.len()..].contains("reload"));
    assert_eq!(clients[2].query("create temp table y(i int)").sqlstate(), None);
}

/// What begins it, what ends it; in between the server is the client's own.
const PINS: &[(&str, &[&str], &[&str])] = &[
    ("listen", &["listen c"], &["unlisten c"]),
    ("listen", &["listen c", "listen d"], &["unlisten *"]),
    ("listen", &["begin", "listen c", "commit"], &["begin", "unlisten c", "commit"]),
    ("listen", &["listen c"], &["discard all"]),
    ("temp_table", &["create temp table x(i int)"], &["drop table x"]),
    ("temp_table", &["create temp table x(i int)", "begin", "drop table x", "rollback"], &["drop table pg_temp.x"]),
    ("temp_table", &["select 1 as a into temp x"], &["discard temp"]),
    ("temp_table", &["create temp view x as select 1"], &["discard all"]),
    ("temp_table", &["do 'begin create temp table x(i int); end'"], &["do 'begin drop table x; end'"]),
    (
        "advisory_lock",
        &["select pg_advisory_lock(1)", "select pg_advisory_lock(1)", "select pg_advisory_unlock(1)"],
        &["select pg_advisory_unlock(1)"],
    ),
    (
        "advisory_lock",
        &["select pg_advisory_lock(1)", "select pg_advisory_lock_shared(2)"],
        &["select pg_advisory_unlock_all()"],
    ),
    ("advisory_lock", &["begin", "select pg_advisory_lock(1)", "rollback"], &["select pg_advisory_unlock(1)"]),
    ("advisory_lock", &["begin", "select pg_advisory_lock(1)", "select 1/0", "rollback"], &["discard all"]),
    (
        "advisory_lock",
        &["select pg_advisory_lock(1) from (values (1), (2)) v"],
        &["select pg_advisory_unlock(1) from (values (1), (2)) v"],
    ),
    ("with_hold_cursor", &["declare c cursor with hold for select 1"], &["close c"]),
    ("with_hold_cursor", &["begin", "declare c cursor with hold for select 1", "commit", "fetch c"], &["close all"]),
    ("prepare", &["prepare p as select 1", "execute p"], &["deallocate p"]),
    ("prepare", &["prepare p as select 1"], &["deallocate all"]),
    ("prepare", &["begin", "prepare p as select 1", "rollback"], &["discard all"]),
    ("set", &["select set_config('app.' || 'x', '1', false)"], &["reset all"]),
    ("set", &["select set_config('app.' || 'x', '1', false)"], &["discard all"]),
];

fn pins_end_with_what_they_are_for(world: &World) {
    world.prepare(TABLE);
    let proxy = world.proxy(&Setup::default().primary_only().size(2));
    for extended in [false, true] {
        for (feature, begin, end) in PINS {
            let (mut a, mut b) = (proxy.login(), proxy.login());
            let run = |client: &mut Client, texts: &[&str]| {
                for sql in texts {
                    if extended {
                        client.extended(sql, &[])
                    } else {
                        client.query(sql)
                    };
                }
            };
            run(&mut a, begin);
            let mine = a.value("select pg_backend_pid()");
            assert_eq!(a.route().pinned, *feature, "{begin:?}");
            b.query("begin");
            assert_ne!(b.value("select pg_backend_pid()"), mine, "{begin:?}");
            b.query("commit");
            assert_eq!(a.value("select pg_backend_pid()"), mine, "{begin:?}");
            run(&mut a, end);
            a.value("select pg_backend_pid()");
            assert_eq!(a.route().pinned, "∅", "{begin:?}, then {end:?}");
        }
    }
}

/// While idle, many at once, and not before a transaction's end.
fn notifications_arrive(world: &World) {
    let proxy = world.proxy(&Setup::default().primary_only().size(2));
    let (mut a, mut b) = (proxy.login(), proxy.login());
    assert_eq!(a.query("listen c").letters(), "C(LISTEN) Z(I)");
    assert_eq!(b.query("notify c, 'one'").letters(), "C(NOTIFY) Z(I)");
    let heard = |a: &mut Client| {
        let message = a.recv().expect("a notification");
        assert_eq!(message.tag, b'A');
        let text: Vec<String> =
            message.body[4..].split(|b| *b == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        (text[0].clone(), text[1].clone())
    };
    assert_eq!(heard(&mut a), ("c".to_owned(), "one".to_owned()));
    b.query("select count(pg_notify('c', i::text)) from generate_series(1, 5000) i");
    for i in 1..=5000 {
        assert_eq!(heard(&mut a).1, i.to_string());
    }
    a.query("begin");
    assert_eq!(a.value("select 1"), "1");
    b.query("notify c, 'in between'");
    assert_eq!(a.query("select 2").letters(), "T D C(SELECT 1) Z(T)");
    assert_eq!(a.query("commit").letters(), "C(COMMIT) A Z(I)");
    assert_eq!(a.query("unlisten *").letters(), "C(UNLISTEN) Z(I)");
    b.query("notify c, 'nobody'");
    assert_eq!(a.query("select 1").letters(), "T D C(SELECT 1) Z(I)");
    assert_eq!(a.route().pinned, "∅");
}
