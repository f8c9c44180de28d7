//! A cancel hits the statement it was meant for, or nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Case, cases,
    client::{Client, Login, V3},
    frontend::{self, Values},
    gate::Gate,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(
        cases!("cancel", Nothing: a_cancel_hits_nobody_else, settings_outlive_a_cancel, a_copy_from_a_client_is_cancelled),
    );
    all.extend(cases!("cancel", Pgsluice:
        a_late_cancel_holds_the_server_back, a_cancel_ends_the_wait_for_a_server, a_cancel_ends_the_wait_for_a_replica,
        only_the_whole_key_will_do, whatever_follows_a_cancel_request_is_ignored));
    all
}

const V3_2: u32 = V3 + 2;

/// A small generator, so that a run can be told from another by nothing but its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// B233, B234, B236, B239: twenty clients, two servers, and cancels at any moment for ten of them. The others never hear of it; nobody gets
/// what is not theirs; and there are no more errors than there were cancels.
fn a_cancel_hits_nobody_else(world: &World) {
    let port = world.proxy(&Setup::default().size(2).primary_only().checkout_timeout("30s")).port;
    let until = Instant::now() + Duration::from_secs(5);
    let ended = Arc::new(AtomicBool::new(false));
    let cancelled = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..20u64)
        .map(|id| {
            let version = if id % 2 == 0 { V3_2 } else { V3 };
            let client = Client::login(port, &Login::default().version(version)).expect("login");
            let key = (client.pid, client.key.clone());
            let cancelled = Arc::clone(&cancelled);
            let busy = thread::spawn(move || talk(client, id, until, &cancelled));
            (id, key, busy)
        })
        .collect();
    let victims: Vec<_> = clients.iter().filter(|(id, ..)| id % 4 < 2).map(|(_, key, _)| key.clone()).collect();
    let sent = Arc::new(AtomicUsize::new(0));
    let cancellers: Vec<_> = (0..3)
        .map(|seed| {
            let (victims, ended, sent) = (victims.clone(), Arc::clone(&ended), Arc::clone(&sent));
            thread::spawn(move || {
                let mut dice = Dice(seed + 1);
                while !ended.load(Ordering::Relaxed) {
                    let (pid, key) = &victims[dice.roll(victims.len() as u64) as usize];
                    let Ok(mut other) = Client::dial(port) else { continue };
                    sent.fetch_add(1, Ordering::Relaxed);
                    if other.send(&frontend::cancel_request(*pid, key)).is_ok() && dice.roll(2) == 0 {
                        let _ = other.recv_within(Duration::from_secs(5));
                    }
                    thread::sleep(Duration::from_micros(dice.roll(4000)));
                }
            })
        })
        .collect();
    for (id, _, busy) in clients {
        busy.join().unwrap_or_else(|_| panic!("client {id}"));
    }
    ended.store(true, Ordering::Relaxed);
    for canceller in cancellers {
        canceller.join().expect("a canceller");
    }
    let (cancelled, sent) = (cancelled.load(Ordering::Relaxed), sent.load(Ordering::Relaxed));
    assert!(cancelled > 0 && cancelled <= sent, "{cancelled} statements were cancelled by {sent} cancels");
    let mut after = Client::login(port, &Login::default()).expect("login");
    assert_eq!(after.value("select pg_sleep(0.3)::text || 'undisturbed'"), "undisturbed");
}

/// One client's conversation. Clients 2 and 3 of every four are never cancelled.
fn talk(mut client: Client, id: u64, until: Instant, cancelled: &AtomicUsize) {
    let mut dice = Dice(id);
    let may_be_cancelled = id % 4 < 2;
    let parse = [frontend::parse("s", "select $1::text, pg_sleep($2::float8)", &[]), frontend::sync()].concat();
    while client.ask(&parse).sqlstate().is_some_and(|code| code == "57014") {
        cancelled.fetch_add(1, Ordering::Relaxed);
        assert!(may_be_cancelled, "client {id}");
    }
    for round in 0.. {
        if Instant::now() > until {
            return;
        }
        let mine = format!("{id}-{round}");
        let pause = (dice.roll(20) as f64 / 1000.0).to_string();
        let values = Values::text(&[&mine, &pause]);
        let simple = frontend::query(&format!("select '{mine}', pg_sleep({pause})"));
        let named = [frontend::bind("", "s", &values), frontend::execute("", 0), frontend::sync()].concat();
        let unnamed = frontend::extended("select $1::text, pg_sleep($2::float8)", &values);
        let (before, message) = match dice.roll(6) {
            0 => (None, named),
            1 => (None, unnamed),
            // A setting travels in front of the next one, and is read back behind this one.
            2 => (Some(format!("set application_name = 'c{id}'")), simple),
            3 => (Some(format!("set statement_timeout = '{}s'", 20 + dice.roll(5))), named),
            4 => (Some("begin".to_owned()), simple),
            _ => (None, simple),
        };
        let begun = before.as_deref() == Some("begin");
        let hit = |code: Option<String>| match code.as_deref() {
            None => false,
            Some("57014") if may_be_cancelled => {
                cancelled.fetch_add(1, Ordering::Relaxed);
                true
            }
            Some(other) => panic!("client {id}, round {round}: {other}"),
        };
        if let Some(before) = before {
            hit(client.query(&before).sqlstate());
        }
        let reply = client.ask(&message);
        if !hit(reply.sqlstate()) {
            assert_eq!(reply.rows().concat().first(), Some(&mine), "client {id}: {}", reply.letters());
        }
        if begun {
            hit(client.query("rollback").sqlstate());
        }
    }
}

/// B144, B236: whatever a cancel does to a SET, what the client was told is so.
fn settings_outlive_a_cancel(world: &World) {
    let port = world.proxy(&Setup::default().size(2)).port;
    let mut client = Client::login(port, &Login::default()).expect("login");
    let mut expected = client.value("show lock_timeout");
    for round in 1..150 {
        // Shown as it stands, and one of those settings that are awaited before anything else is sent.
        let wanted = format!("{}ms", 100_000 + round * 10 + 1);
        client.send(&frontend::query(&format!("set lock_timeout = '{wanted}'"))).expect("send");
        let mut other = Client::dial(port).expect("connect");
        other.send(&frontend::cancel_request(client.pid, &client.key)).expect("send");
        let (reply, trouble) = client.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{trouble:?} after {}", reply.letters());
        match reply.sqlstate().as_deref() {
            None => expected = wanted,
            Some("57014") => {}
            Some(other) => panic!("{other}"),
        }
        let _ = other.recv_within(Duration::from_secs(5));
        // Perhaps on another server, which is given the setting first.
        let reply = client.query("select current_setting('lock_timeout')");
        if reply.sqlstate().as_deref() != Some("57014") {
            assert_eq!(reply.value(), expected, "round {round}");
        }
    }
}

/// B234: a cancel is on its way to the server when the statement ends. The server waits for it and nobody else is hit.
fn a_late_cancel_holds_the_server_back(world: &World) {
    let gate = Gate::before(world.cluster().primary().port());
    let proxy = world.start_proxy(&Setup::default().only_node(gate.port()), world.cluster());
    let mut first = proxy.login();
    assert_eq!(first.value("select 1"), "1");
    for lets_through in [true, false] {
        first
            .send(&frontend::query("select pg_sleep(0.5), 'ended by itself' from (select 1 for update) x"))
            .expect("send");
        eventually("the statement to run", || running(world) == "1");
        gate.shut();
        first.cancel(proxy.port).expect("cancel");
        let (reply, trouble) = first.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{trouble:?}");
        assert_eq!(reply.letters(), "T D C(SELECT 1) Z(I)");
        let mut second = proxy.login();
        second.send(&frontend::query("select pg_sleep(0.2), 'mine' from (select 1 for update) x")).expect("send");
        assert!(second.recv_within(Duration::from_millis(300)).is_err(), "the server may still be hit");
        if lets_through {
            gate.open();
        } else {
            // Nobody knows whether it was delivered, so the server must not be used any more.
            gate.turn_away();
        }
        let (reply, trouble) = second.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{trouble:?}");
        assert_eq!(reply.letters(), "T D C(SELECT 1) Z(I)", "let through: {lets_through}");
    }
}

/// A server that waits for data does not look at cancels; with the next row it does. What the client still sends is for nobody.
fn a_copy_from_a_client_is_cancelled(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int, v text)");
    let proxy = world.proxy(&Setup::default());
    let simple = vec![frontend::query("copy t from stdin")];
    let extended = vec![
        frontend::parse("", "copy t from stdin", &[]),
        frontend::bind("", "", &Values::default()),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    let in_transaction = [vec![frontend::query("begin")], simple.clone()].concat();
    for (what, said, ends) in [
        ("simple", simple, [frontend::copy_done(), frontend::query("rollback")].concat()),
        ("extended", extended, [frontend::copy_fail("late"), frontend::sync(), frontend::query("rollback")].concat()),
        ("in a transaction", in_transaction, [frontend::copy_done(), frontend::query("rollback")].concat()),
    ] {
        let mut client = proxy.login();
        client.send(&said.concat()).expect("send");
        let (started, trouble) = client.recv_until(b'G', 1);
        assert!(trouble.is_none(), "{what}: {trouble:?} after {}", started.letters());
        client.cancel(proxy.port).expect("cancel");
        eventually("the COPY to end", || {
            client.send(&frontend::copy_data(b"1\tx\n")).expect("send");
            client.has_something(Duration::from_millis(10))
        });
        client.send(&ends).expect("send");
        let (reply, trouble) = client.recv_until(b'C', 1);
        assert!(trouble.is_none(), "{what}: {trouble:?}");
        let reply = reply.letters();
        assert!(reply.starts_with("E(57014)") && reply.ends_with("C(ROLLBACK)"), "{what}: {reply}");
        drop(client);
        let mut next = proxy.login();
        assert_eq!(next.value("select count(*) from t"), "0", "{what}");
        assert_eq!(next.query("insert into t values (1, 'x')").letters(), "C(INSERT 0 1) Z(I)");
        next.query("delete from t");
    }
}

fn running(world: &World) -> String {
    world.superuser("select count(*) from pg_stat_activity where usename = 'app' and wait_event = 'PgSleep'")
}

/// B226, B235, B237: nothing runs yet, so the wait itself ends; once per Sync, and in a transaction as an error of it.
fn a_cancel_ends_the_wait_for_a_server(world: &World) {
    let proxy = world.proxy(&Setup::default().checkout_timeout("30s"));
    let batch = frontend::extended("select 2 for update", &Values::default());
    type Said = Vec<Vec<u8>>;
    let table: [(&str, Said, &str); 5] = [
        ("a Query", vec![frontend::query("select 2 for update")], "E(57014) Z(I)"),
        ("a batch", vec![batch.clone()], "E(57014) Z(I)"),
        (
            "a batch and a Query",
            vec![[batch.clone(), frontend::query("select 3 for update")].concat()],
            "E(57014) Z(I)",
        ),
        ("in a transaction", vec![frontend::query("begin"), frontend::query("select 2 for update")], "E(57014) Z(E)"),
        ("a write", vec![frontend::query("create temp table w()")], "E(57014) Z(I)"),
    ];
    for (what, said, letters) in table {
        let mut holder = proxy.login();
        holder.query("begin");
        holder.query("select 1 for update");
        let mut client = proxy.login();
        let (last, before) = said.split_last().expect("something is said");
        for message in before {
            client.ask(message);
        }
        client.send(last).expect("send");
        eventually("the client to wait", || waiting(&proxy) == 1);
        client.cancel(proxy.port).expect("cancel");
        let (reply, trouble) = client.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{what}: {trouble:?}");
        assert_eq!(reply.letters(), letters, "{what}");
        holder.query("rollback");
        if what == "a batch and a Query" {
            // That one waits for itself.
            assert_eq!(client.recv_until(b'Z', 1).0.letters(), "T D C(SELECT 1) Z(I)");
        }
        client.query("rollback");
        assert_eq!(client.query("select 1 for update").letters(), "T D C(SELECT 1) Z(I)", "{what}: afterwards");
    }
}

/// Clients that wait for a server connection.
fn waiting(proxy: &Proxy) -> usize {
    let (_, page) = crate::lifecycle::http(proxy.admin, "/metrics");
    let line = page.lines().find(|line| line.starts_with("pgsluice_clients{") && line.contains("state=\"waiting\""));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|n| n.parse().ok()).unwrap_or_default()
}

fn a_cancel_ends_the_wait_for_a_replica(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let proxy = world.proxy(&Setup::default().routing("wait: 60s, on_timeout: error"));
    let mut client = proxy.login();
    for replica in world.cluster().replicas() {
        replica.pause_replay().expect("pause");
    }
    client.query("insert into t values (1, 'x')");
    client.send(&frontend::query("select count(*) from t")).expect("send");
    let began = Instant::now();
    let first = loop {
        client.cancel(proxy.port).expect("cancel");
        match client.recv_within(Duration::from_millis(20)) {
            Ok(first) => break Some(first),
            Err(_) if began.elapsed() > Duration::from_secs(10) => break None,
            Err(_) => {}
        }
    };
    for replica in world.cluster().replicas() {
        replica.resume_replay().expect("resume");
    }
    assert_eq!(first.expect("an answer").sqlstate().as_deref(), Some("57014"));
    assert_eq!(client.recv_until(b'Z', 1).0.letters(), "Z(I)");
    assert_eq!(client.value("select count(*) from t"), "1");
}

/// B231, B232: four bytes in protocol 3.0, more in 3.2; nothing but the whole of it will do.
fn only_the_whole_key_will_do(world: &World) {
    let proxy = world.proxy(&Setup::default().size(3));
    for (version, length) in [(V3, 4), (V3_2, 32)] {
        let login = Login::default().version(version);
        let (mut client, other) = (proxy.login_as(&login), proxy.login_as(&login));
        assert_eq!((client.key.len(), other.key.len()), (length, length));
        let mut changed = client.key.clone();
        changed[length - 1] ^= 1;
        let wrong: Vec<Vec<u8>> = vec![
            changed,
            other.key.clone(),
            client.key[..length - 1].to_vec(),
            client.key[..4.min(length - 1)].to_vec(),
            [client.key.as_slice(), &[0]].concat(),
            Vec::new(),
            vec![0; 256],
            vec![0; 300],
        ];
        client.send(&frontend::query("select pg_sleep(60)")).expect("send");
        let nodes = world.cluster().nodes();
        let sleeping = "select count(*) from pg_stat_activity where usename = 'app' and wait_event = 'PgSleep'";
        eventually("the statement to run", || nodes.iter().any(|node| world.ask(node, "postgres", sleeping) == "1"));
        for key in wrong {
            let mut knocking = Client::dial(proxy.port).expect("connect");
            knocking.send(&frontend::cancel_request(client.pid, &key)).expect("send");
            assert!(knocking.closed(), "a key of {} bytes", key.len());
        }
        assert!(client.recv_within(Duration::from_millis(100)).is_err(), "a wrong key has cancelled");
        client.cancel(proxy.port).expect("cancel");
        assert_eq!(client.recv_until(b'Z', 1).0.letters(), "T E(57014) Z(I)");
    }
}

/// B227, B228: a Terminate, rubbish, or nothing and gone.
fn whatever_follows_a_cancel_request_is_ignored(world: &World) {
    let proxy = world.proxy(&Setup::default().size(3));
    let mut client = proxy.login();
    for round in 0..200 {
        let mut other = Client::dial(proxy.port).expect("connect");
        let request = frontend::cancel_request(client.pid, &client.key);
        match round % 4 {
            0 => other.send(&[request, frontend::terminate()].concat()).expect("send"),
            1 => other.send(&[request, vec![0xff; 1024]].concat()).expect("send"),
            2 => other.send(&request[..9]).expect("send"),
            _ => other.send(&request).expect("send"),
        }
        if round % 8 < 2 {
            assert!(other.closed(), "round {round}");
        }
    }
    // The last ones may still be under way.
    eventually("the cancels to end", || client.query("select 'alive'").value() == "alive");
}
