//! How clients leave, and what that costs: nothing, if their server is in step.

use crate::{
    Case, cases,
    client::Client,
    frontend::{self, Values},
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(
        cases!("leaving", Pgsluice: a_reset_costs_no_server, what_runs_for_nobody_is_ended, what_has_not_begun_does_not_run_for_nobody, what_has_no_sync_is_undone, settings_that_cannot_be_restored_are_one_error),
    )
}

/// In a transaction, in a failed one, pinned, with settings: the same server process serves the next client, and finds nothing of it.
fn a_reset_costs_no_server(world: &World) {
    world.prepare(
        "drop table if exists t cascade; create table t(id int primary key, v text); insert into t values (1, 'a')",
    );
    let proxy = world.start_proxy(&Setup::default().primary_only(), world.cluster());
    let pid = || proxy.login().value("select pg_backend_pid() from pg_class limit 1");
    let before = pid();
    type Leaves = fn(Client);
    let ways: [(&str, Leaves); 3] = [
        ("reset", Client::reset),
        ("closed", Client::vanish),
        ("said goodbye", |mut client| client.send(&frontend::terminate()).expect("send")),
    ];
    let states: [&[&str]; 5] = [
        &["begin", "update t set v = 'lost'"],
        &["begin", "update t set v = 'lost'", "select 1/0"],
        &["select pg_advisory_lock(77)", "set work_mem = '9MB'"],
        &["create temp table gone()", "begin", "listen c"],
        &["set application_name = 'x'"],
    ];
    for (what, leave) in ways {
        for state in states {
            let mut client = proxy.login();
            for sql in state {
                client.query(sql);
            }
            // Something it will not read.
            client.send(&frontend::extended("select 'unread'", &Values::default())).expect("send");
            assert!(client.has_something(crate::client::PATIENCE) || state.contains(&"select 1/0"));
            client.send(&frontend::extended("select 'unread'", &Values::default())).expect("send");
            if what == "reset" {
                client.reset();
            } else {
                let _ = client.recv_until(b'Z', 2);
                leave(client);
            }
            let open =
                "select count(*) from pg_stat_activity where usename = 'app' and state like 'idle in transaction%'";
            eventually("the transaction to end", || world.superuser(open) == "0");
            let mut next = proxy.login();
            assert_eq!(next.value("select pg_backend_pid() from pg_class limit 1"), before, "{what} after {state:?}");
            assert_eq!(next.query("update t set v = 'kept'").letters(), "C(UPDATE 1) Z(I)", "{what} after {state:?}");
            let left = "select current_setting('work_mem') || current_setting('application_name') || \
                (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) || \
                (select count(*) from pg_listening_channels()) || coalesce(to_regclass('pg_temp.gone')::text, '')";
            assert_eq!(next.value(left), "4MB00", "{what} after {state:?}");
        }
    }
}

/// B120, B230: something is under way. It is cancelled and rolled back, and the same server process serves the next client.
fn what_runs_for_nobody_is_ended(world: &World) {
    world.prepare(
        "drop table if exists t cascade; create table t(id int primary key, v text); insert into t values (1, 'a')",
    );
    let proxy = world.start_proxy(&Setup::default().primary_only(), world.cluster());
    let before = proxy.login().value("select pg_backend_pid() from pg_class limit 1");
    let update = "update t set v = 'lost'";
    let group =
        [frontend::parse("", update, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)];
    let states: [(&str, Vec<u8>); 6] = [
        ("a statement", frontend::query(&format!("{update}; select pg_sleep(30)"))),
        (
            "a statement of a transaction",
            [frontend::query("begin"), frontend::query(update), frontend::query("select pg_sleep(30)")].concat(),
        ),
        ("a batch without Sync", [group.concat(), frontend::flush()].concat()),
        (
            "two batches",
            [group.concat(), frontend::sync(), frontend::extended("select pg_sleep(30)", &Values::default())].concat(),
        ),
        (
            "a COPY",
            [
                frontend::query("begin"),
                frontend::query(update),
                frontend::query("copy t from stdin"),
                frontend::copy_data(b"7\tx\n"),
            ]
            .concat(),
        ),
        ("a large result", frontend::query("select generate_series(1, 10000000), repeat('x', 10000) from t")),
    ];
    for (what, bytes) in states {
        for reset in [true, false] {
            let mut client = proxy.login();
            // An answer to leave unread.
            client.send(&frontend::query("select 'unread'")).expect("send");
            let unread = client.has_something(crate::client::PATIENCE);
            client.send(&[frontend::query("select 'unread'"), bytes.clone()].concat()).expect("send");
            let busy = "select count(*) from pg_stat_activity where usename = 'app' and backend_type = 'client backend' and \
                application_name <> 'keep' and (wait_event in ('PgSleep', 'ClientWrite') or state = 'active' and wait_event = 'ClientRead')";
            eventually("the server to be busy", || world.superuser(busy) == "1");
            if reset && unread {
                client.reset()
            } else {
                client.vanish()
            }
            let mut next = proxy.login();
            let pid = next.value("select pg_backend_pid() from pg_class limit 1");
            assert_eq!(pid, before, "{what}, reset: {reset}");
            assert_eq!(next.query("update t set v = 'kept' where id = 1").letters(), "C(UPDATE 1) Z(I)", "{what}");
        }
    }
}

/// Statements that have not begun when their client leaves, and whose one cancel would come too early, do not run for nobody.
fn what_has_not_begun_does_not_run_for_nobody(world: &World) {
    world.prepare(
        "drop table if exists t cascade; create table t(id int primary key, v text); insert into t values (1, 'a')",
    );
    let proxy = world.start_proxy(&Setup::default().primary_only().checkout_timeout("3s"), world.cluster());
    let before = proxy.login().value("select pg_backend_pid() from pg_class limit 1");
    let sleep = "select pg_sleep(60) from t";
    let long = Values::text(&[&"x".repeat(1 << 20)]);
    let half = [frontend::parse("", "insert into t values (2, $1)", &[]), frontend::bind("", "", &long)].concat();
    let states: [(&str, Vec<u8>, bool); 4] = [
        ("just sent", frontend::query(sleep), true),
        (
            "one behind another",
            [
                frontend::parse("", sleep, &[]),
                frontend::bind("", "", &Values::default()),
                frontend::execute("", 0),
                frontend::sync(),
            ]
            .concat()
            .repeat(3),
            true,
        ),
        ("a transaction", frontend::query(&format!("begin; update t set v = 'lost'; {sleep}; {sleep}")), true),
        ("half of a message", half[..500_000].to_vec(), false),
    ];
    for (what, bytes, same) in states {
        for reset in [true, false] {
            let mut client = proxy.login();
            // An answer to leave unread, without which there is no reset.
            client.send(&frontend::query("select 'unread'")).expect("send");
            let unread = client.has_something(crate::client::PATIENCE);
            client.send(&[frontend::query("select 'unread'"), bytes.clone()].concat()).expect("send");
            if reset && unread {
                client.reset()
            } else {
                client.vanish()
            }
            let mut next = proxy.login();
            let pid = next.value("select pg_backend_pid() from pg_class limit 1");
            assert!(pid == before || !same, "{what}, reset: {reset}: {pid}");
            assert_eq!(next.query("update t set v = 'kept' where id = 1").letters(), "C(UPDATE 1) Z(I)", "{what}");
        }
    }
    let left = "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' and pid <> pg_backend_pid()";
    assert_eq!(world.superuser(left), "0");
}

/// A group of messages is committed by its Sync, and by nothing that comes instead of it.
fn what_has_no_sync_is_undone(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let limits = "limits: { idle_in_transaction: 300ms }";
    let proxy = world.start_proxy(&Setup::default().primary_only().top(limits), world.cluster());
    let group = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)].concat()
    };
    let insert = group("insert into t values (1, 'lost')");
    let copy = [frontend::copy_data(b"2\tlost\n"), frontend::copy_done()].concat();
    let states: [(&str, Vec<u8>, u8); 5] = [
        ("answered", [insert.clone(), frontend::flush()].concat(), b'C'),
        ("answered, with more behind", [insert.clone(), frontend::flush(), group("select 1")].concat(), b'C'),
        ("a COPY", [group("copy t from stdin"), copy.clone(), frontend::flush()].concat(), b'C'),
        (
            "a COPY with a Sync in it",
            [group("copy t from stdin"), frontend::sync(), copy, frontend::flush()].concat(),
            b'C',
        ),
        ("an open portal", [insert, frontend::parse("", "select 1", &[]), frontend::flush()].concat(), b'1'),
    ];
    type Leaves = fn(Client);
    let ways: [(&str, Leaves); 3] = [
        ("closed", Client::vanish),
        ("said goodbye", |mut client| client.send(&frontend::terminate()).expect("send")),
        ("idle", |mut client| assert_eq!(client.recv_until(b'E', 1).0.sqlstate().as_deref(), Some("25P03"))),
    ];
    for (what, bytes, until) in &states {
        for (way, leave) in ways {
            let mut client = proxy.login();
            client.send(bytes).expect("send");
            let (_, trouble) = client.recv_until(*until, 1);
            assert!(trouble.is_none(), "{what}: {trouble:?}");
            leave(client);
            // The only connection: it is given back when all is settled.
            assert_eq!(proxy.login().value("select count(*) from t"), "0", "{what}, {way}");
        }
    }
}

/// The role that a client has set is gone when the next server is to be given it: one error per request, and the session goes on.
fn settings_that_cannot_be_restored_are_one_error(world: &World) {
    let proxy = world.start_proxy(&Setup::default().primary_only(), world.cluster());
    let batch = |sql: &str| frontend::extended(sql, &Values::default());
    let table: [(&str, Vec<u8>, usize, &str); 9] = [
        ("a Query", frontend::query("select 1"), 1, "E(22023) Z(I)"),
        ("two", [frontend::query("select 1"), frontend::query("select 2")].concat(), 2, "E(22023) Z(I) E(22023) Z(I)"),
        ("a batch", batch("select 1"), 1, "E(22023) Z(I)"),
        ("two batches", [batch("select 1"), batch("select 2")].concat(), 2, "E(22023) Z(I) E(22023) Z(I)"),
        (
            "a batch, flushed",
            [frontend::parse("", "select 1", &[]), frontend::flush(), batch("select 2")].concat(),
            1,
            "E(22023) Z(I)",
        ),
        (
            "a transaction",
            [frontend::query("begin"), frontend::query("select 1")].concat(),
            2,
            "C(BEGIN) Z(T) E(22023) Z(E)",
        ),
        ("a call", frontend::function_call(2026, &[]), 1, "E(22023) Z(I)"),
        (
            "a COPY",
            [frontend::query("copy pg_class from stdin"), frontend::copy_data(b"x"), frontend::copy_done()].concat(),
            1,
            "E(22023) Z(I)",
        ),
        ("a long Query", frontend::query(&format!("select '{}'", "x".repeat(3 << 20))), 1, "E(22023) Z(I)"),
    ];
    for (what, message, cycles, letters) in table {
        world.superuser("drop role if exists r_gone");
        world.superuser("create role r_gone");
        world.superuser("grant r_gone to app");
        let mut client = proxy.login();
        assert_eq!(client.query("set role r_gone").letters(), "C(SET) Z(I)");
        // The server is somebody else's in between, and the role is dropped.
        assert_eq!(proxy.login().value("select current_user"), "app");
        world.superuser("drop role r_gone");
        client.send(&message).expect("send");
        let (reply, trouble) = client.recv_until(b'Z', cycles);
        assert!(trouble.is_none(), "{what}: {trouble:?} after {}", reply.letters());
        assert_eq!(reply.letters(), letters, "{what}");
        client.query("rollback");
        // As on a server whose session has this role: only a change of role helps. Nothing may be in between.
        client.send(&frontend::query("select 'behind'")).expect("send");
        let (reply, trouble) = client.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{what}: {trouble:?}");
        assert_eq!(reply.letters(), "E(22023) Z(I)", "{what}, behind");
        assert!(!client.has_something(std::time::Duration::from_millis(50)), "{what}: something more");
    }
}
