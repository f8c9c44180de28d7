//! Many clients, few server connections: everybody gets their own answers, and nothing stays behind of those who leave.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    world::{Setup, World, direct, eventually},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(cases!("clients", Nothing:
        everybody_gets_their_own_answer, leaving_in_any_state_leaves_nothing, half_closed_clients_get_their_answer,
        cancel_reaches_the_statement, cancel_reaches_a_statement_the_server_had_to_learn, cancel_of_an_idle_client_hurts_nobody, terminated_server_is_one_error,
        a_large_result_streams, a_large_parameter_arrives, a_slow_reader_holds_up_nobody));
    all.extend(cases!("clients", Pgsluice:
        no_free_connection_is_one_error_per_sync, a_login_does_not_wait_for_a_busy_server, waiting_is_in_turn, servers_never_exceed_the_pool, an_old_cancel_key_is_worthless));
    all
}

/// B115: pool sizes one to three, twenty clients, both protocols, some leave at any moment.
fn everybody_gets_their_own_answer(world: &World) {
    for size in 1..=3 {
        let port = world.proxy(&Setup::default().size(size).checkout_timeout("30s")).port;
        let threads: Vec<_> = (0..20).map(|id| thread::spawn(move || converse(port, id))).collect();
        for thread in threads {
            thread.join().expect("a client saw what was not its own");
        }
    }
    eventually("all transactions to end", || open_transactions(world) == "0");
}

/// All a login needs of a server is known after the first one.
fn a_login_does_not_wait_for_a_busy_server(world: &World) {
    let proxy = world.proxy(&Setup::default().primary_only().checkout_timeout("9s"));
    let mut holder = proxy.login();
    assert_eq!(holder.query("begin; select 1").status(), Some('T'));
    let started = Instant::now();
    let plain = proxy.login();
    let mut named = proxy.login_as(&Login::default().param("application_name", "a name nobody had before"));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(plain);
    holder.query("commit");
    assert_eq!(named.value("show application_name"), "a name nobody had before");
}

fn converse(port: u16, id: u32) {
    let login = Login::default();
    let mut client = Client::login(port, &login).unwrap_or_else(|t| panic!("client {id}: {t}"));
    for round in 0..20u32 {
        let mine = format!("{id}-{round}");
        let dice = (id * 7 + round * 13) % 10;
        match dice {
            0 => {
                // Leaves with an answer under way.
                client.send(&frontend::query(&format!("select '{mine}', pg_sleep(0.01)"))).expect("send");
                client.vanish();
                client = Client::login(port, &login).unwrap_or_else(|t| panic!("client {id}: {t}"));
            }
            1 => {
                client.send(&frontend::parse("", "select 'nobody reads this'", &[])).expect("send");
                client.vanish();
                client = Client::login(port, &login).unwrap_or_else(|t| panic!("client {id}: {t}"));
            }
            2 | 3 => assert_eq!(client.query(&format!("select '{mine}'")).value(), mine),
            4 => {
                assert_eq!(client.query("begin").letters(), "C(BEGIN) Z(T)");
                assert_eq!(client.query(&format!("select '{mine}'")).value(), mine);
                assert_eq!(client.query("select 1/0").letters(), "E(22012) Z(E)");
                assert_eq!(client.query("rollback").letters(), "C(ROLLBACK) Z(I)");
            }
            5 => {
                let (a, b) = (format!("{mine}a"), format!("{mine}b"));
                let text = |t: &str| frontend::extended("select $1::text", &Values::text(&[t]));
                client.send(&[text(&a), text(&b)].concat()).expect("send");
                let (reply, trouble) = client.recv_until(b'Z', 2);
                assert!(trouble.is_none(), "client {id}: {trouble:?}");
                assert_eq!(reply.rows(), [[a], [b]]);
            }
            _ => assert_eq!(client.extended("select $1::text", &[&mine]).value(), mine),
        }
    }
}

fn open_transactions(world: &World) -> String {
    world.superuser("select count(*) from pg_stat_activity where usename = 'app' and (state like 'idle in transaction%' or state = 'active')")
}

/// D1, B034, B116: whatever a client was doing when it died, its row lock is free at once.
fn leaving_in_any_state_leaves_nothing(world: &World) {
    world.prepare(
        "drop table if exists t cascade; create table t(id int primary key, v text); insert into t values (1, 'a')",
    );
    let port = world.proxy(&Setup::default()).port;
    let update = "update t set v = 'lost' where id = 1";
    let batch =
        [frontend::parse("", update, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)]
            .concat();
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("in a transaction", [frontend::query("begin"), frontend::query(update)].concat()),
        (
            "in a failed transaction",
            [frontend::query("begin"), frontend::query(update), frontend::query("select 1/0")].concat(),
        ),
        ("in a batch without Sync", [batch.clone(), frontend::flush()].concat()),
        ("in a batch never flushed", batch.clone()),
        ("with a statement running", frontend::query(&format!("{update}; select pg_sleep(0.2)"))),
        ("with answers unread", [frontend::query(update), frontend::query("select repeat('x', 1000000)")].concat()),
        ("in COPY in", frontend::query("copy t from stdin")),
        ("in a message", b"Q\0\0\x03\xe8update".to_vec()),
        ("with a portal open", [frontend::query("begin"), batch].concat()),
    ];
    for (what, bytes) in table {
        let mut client = Client::login(port, &Login::default()).unwrap_or_else(|t| panic!("{what}: {t}"));
        client.send(&bytes).expect("send");
        // Give it the chance to be under way: the first byte of an answer, if any comes.
        let _ = client.recv_within(Duration::from_millis(50));
        client.vanish();
        let mut next = Client::login(port, &Login::default()).unwrap_or_else(|t| panic!("after {what}: {t}"));
        assert_eq!(next.query("update t set v = 'kept' where id = 1").letters(), "C(UPDATE 1) Z(I)", "{what}");
        eventually("the transaction to end", || open_transactions(world) == "0");
        assert_eq!(world.superuser("select v from t where id = 1"), "kept", "{what}");
    }
}

/// B342: FIN after the question; PostgreSQL still answers.
fn half_closed_clients_get_their_answer(world: &World) {
    let mut client = world.proxy(&Setup::default()).login();
    client.send(&frontend::query("select 42")).expect("send");
    client.half_close().expect("half close");
    let (reply, trouble) = client.recv_until(b'Z', 1);
    assert!(trouble.is_none(), "{trouble:?} after {}", reply.letters());
    assert_eq!(reply.value(), "42");
    assert!(client.closed());
}

fn cancel_reaches_the_statement(world: &World) {
    let proxy = world.proxy(&Setup::default().size(3));
    for sql in ["select pg_sleep(10)", "begin; update t_cancel set id = id; select pg_sleep(10)"] {
        world.prepare("drop table if exists t_cancel; create table t_cancel(id int)");
        let mut client = proxy.login();
        client.send(&frontend::query(sql)).expect("send");
        let running = "select count(*) from pg_stat_activity where usename = 'app' and wait_event = 'PgSleep'";
        let nodes = world.cluster().nodes();
        eventually("the statement to run", || nodes.iter().any(|node| world.ask(node, "postgres", running) != "0"));
        let began = Instant::now();
        client.cancel(proxy.port).expect("cancel");
        let (reply, trouble) = client.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{trouble:?}");
        assert_eq!(reply.sqlstate().as_deref(), Some("57014"), "{}", reply.letters());
        assert!(began.elapsed() < Duration::from_secs(5));
        client.query("rollback");
        assert_eq!(client.value("select 1"), "1");
    }
}

/// A server connection that lacks the client's statement is told it in the same write, and says so only when all is done.
fn cancel_reaches_a_statement_the_server_had_to_learn(world: &World) {
    let proxy = world.proxy(&Setup::default().primary_only());
    let mut client = proxy.login();
    let asleep = "select pg_sleep(10), 1 for update";
    assert_eq!(client.ask(&[frontend::parse("s", asleep, &[]), frontend::sync()].concat()).letters(), "1 Z(I)");
    let mut other = proxy.login();
    assert_eq!(other.query("deallocate all").letters(), "C(DEALLOCATE ALL) Z(I)");
    let run = [frontend::bind("", "s", &Values::default()), frontend::execute("", 0), frontend::sync()].concat();
    client.send(&run).expect("send");
    let running = "select count(*) from pg_stat_activity where usename = 'app' and wait_event = 'PgSleep'";
    eventually("the statement to run", || world.superuser(running) != "0");
    client.cancel(proxy.port).expect("cancel");
    let (reply, trouble) = client.recv_until(b'Z', 1);
    assert!(trouble.is_none(), "{trouble:?}");
    assert_eq!(reply.sqlstate().as_deref(), Some("57014"), "{}", reply.letters());
    assert_eq!(client.value("select 1"), "1");
}

/// B-cancel: a key whose owner runs nothing must not stop whoever has the server connection now.
fn cancel_of_an_idle_client_hurts_nobody(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let mut idle = proxy.login();
    assert_eq!(idle.value("select 1"), "1");
    let mut busy = proxy.login();
    busy.send(&frontend::query("select pg_sleep(0.5), 'done'")).expect("send");
    for _ in 0..5 {
        idle.cancel(proxy.port).expect("cancel");
    }
    let (reply, trouble) = busy.recv_until(b'Z', 1);
    assert!(trouble.is_none(), "{trouble:?}");
    assert_eq!(reply.letters(), "T D C(SELECT 1) Z(I)");
}

fn an_old_cancel_key_is_worthless(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let gone = proxy.login();
    let (pid, key) = (gone.pid, gone.key.clone());
    gone.vanish();
    let mut busy = proxy.login();
    assert_ne!((busy.pid, &busy.key), (pid, &key));
    busy.send(&frontend::query("select pg_sleep(0.3)")).expect("send");
    for (pid, key) in [(pid, key), (busy.pid, vec![0; 4]), (0, vec![0; 4]), (busy.pid, vec![])] {
        let mut other = Client::dial(proxy.port).expect("connect");
        other.send(&frontend::cancel_request(pid, &key)).expect("send");
        let _ = other.recv_within(Duration::from_secs(2));
    }
    let (reply, _) = busy.recv_until(b'Z', 1);
    assert_eq!(reply.letters(), "T D C(SELECT 1) Z(I)");
}

/// B070, D115: a server connection that dies under a statement is one error; one that died idle is none.
fn terminated_server_is_one_error(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'app' and pid <> pg_backend_pid() and \
        backend_type = 'client backend' and application_name <> 'keep'";
    let mut client = proxy.login();
    client.query("begin");
    client.query("select 1 for update");
    // Everything of the application's, except the tests' own standing connections: those are superuser's or named.
    world.superuser(kill);
    client.send(&frontend::extended("select 2", &Values::default())).expect("send");
    let (reply, trouble) = client.recv_until(b'Z', 1);
    assert_eq!(reply.0.iter().filter(|m| m.tag == b'E').count(), 1, "{} {trouble:?}", reply.letters());
    let class = reply.sqlstate().unwrap_or_default();
    assert!(class.starts_with("57P0") || class.starts_with("08"), "{class}");
}

fn a_large_result_streams(world: &World) {
    let mut client = world.proxy(&Setup::default()).login();
    let reply = client.query("select g, repeat(chr(65 + g % 26), 1000) from generate_series(1, 20000) g");
    assert_eq!(reply.0.iter().filter(|m| m.tag == b'D').count(), 20_000);
    let reply = client.query("select repeat('z', 20000000)");
    assert_eq!(reply.value().len(), 20_000_000);
}

/// D118: PostgreSQL takes messages up to a gigabyte.
fn a_large_parameter_arrives(world: &World) {
    let mut client = world.proxy(&Setup::default()).login();
    let large = "x".repeat(20_000_000);
    assert_eq!(client.extended("select length($1::text)", &[&large]).value(), "20000000");
    assert_eq!(client.query(&format!("select length('{large}')")).value(), "20000000");
}

fn a_slow_reader_holds_up_nobody(world: &World) {
    let proxy = world.proxy(&Setup::default().size(3));
    let mut slow = proxy.login();
    slow.send(&frontend::query("select repeat('x', 1000) from generate_series(1, 50000)")).expect("send");
    let mut other = proxy.login();
    for i in 0..50 {
        assert_eq!(other.value(&format!("select {i}")), i.to_string());
    }
    let (reply, trouble) = slow.recv_until(b'Z', 1);
    assert!(trouble.is_none(), "{trouble:?}");
    assert_eq!(reply.0.iter().filter(|m| m.tag == b'D').count(), 50_000);
}

/// B069, D117: waiting in vain is an error of that batch, and the client lives on.
fn no_free_connection_is_one_error_per_sync(world: &World) {
    let proxy = world.proxy(&Setup::default().checkout_timeout("300ms"));
    let mut holder = proxy.login();
    holder.query("begin");
    holder.query("select 1 for update");
    let mut client = proxy.login();
    let write = frontend::extended("select 1 for update", &Values::default());
    client.send(&[write.clone(), write].concat()).expect("send");
    let (reply, trouble) = client.recv_until(b'Z', 2);
    assert!(trouble.is_none(), "{trouble:?}");
    assert_eq!(reply.letters(), "E(53300) Z(I) E(53300) Z(I)");
    assert_eq!(client.query("select 1 for update").letters(), "E(53300) Z(I)");
    holder.query("rollback");
    assert_eq!(client.query("select 1 for update").letters(), "T D C(SELECT 1) Z(I)");
}

/// B122: first come, first served.
fn waiting_is_in_turn(world: &World) {
    let proxy = world.proxy(&Setup::default().checkout_timeout("30s"));
    world.prepare("drop table if exists turns; create table turns(n serial, who int)");
    let mut holder = proxy.login();
    holder.query("begin");
    holder.query("lock table turns in share mode");
    let mut waiting = Vec::new();
    for who in 0..5 {
        let mut client = proxy.login();
        client.send(&frontend::query(&format!("insert into turns(who) values ({who})"))).expect("send");
        waiting.push(client);
        // Nothing tells from outside when the request has been read; the order of arrival is what the pause makes.
        thread::sleep(Duration::from_millis(30));
    }
    holder.query("commit");
    for client in &mut waiting {
        let (reply, trouble) = client.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{trouble:?} {}", reply.letters());
    }
    assert_eq!(world.superuser("select string_agg(who::text, ',' order by n) from turns"), "0,1,2,3,4");
}

/// B120: leaving clients must not make the pool dial more than it may.
fn servers_never_exceed_the_pool(world: &World) {
    let proxy = world.start_proxy(&Setup::default().size(2), world.cluster());
    let mut most = 0;
    for _ in 0..20 {
        let mut client = proxy.login_as(&Login::default().user("bob"));
        client.send(&frontend::query("select pg_sleep(0.5), 1 for update")).expect("send");
        let _ = client.recv_within(Duration::from_millis(20));
        client.vanish();
        let count = "select count(*) from pg_stat_activity where usename = 'bob' and backend_type = 'client backend'";
        most = most.max(world.superuser(count).parse::<u32>().expect("a count"));
    }
    assert!(most <= 3, "{most} server connections of a pool of two");
    let mut other = direct(world.cluster().primary(), "bob");
    assert_eq!(other.value("select 1"), "1");
}
