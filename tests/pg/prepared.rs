//! Prepared statements in great numbers and of great length.

use std::{thread, time::Instant};

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("prepared", Pgsluice:
        thousands_of_statements_over_ten_servers, the_servers_keep_no_more_than_they_may,
        texts_that_nobody_holds_are_forgotten, names_have_a_limit, a_text_too_long_is_an_error, half_a_message_is_not_taken_for_the_next))
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    frontend::parse(name, sql, &[])
}

pub fn run(name: &str) -> Vec<u8> {
    [frontend::bind("", name, &Values::default()), frontend::execute("", 0)].concat()
}

pub fn and_sync(messages: &[Vec<u8>]) -> Vec<u8> {
    [messages.concat(), frontend::sync()].concat()
}

/// 1,000 clients with 100 statements each over ten server connections that keep 20: everybody gets their own.
fn thousands_of_statements_over_ten_servers(world: &World) {
    let port = {
        let setup = Setup::default().size(10).checkout_timeout("60s").pool("max_prepared: 20").primary_only();
        world.proxy(&setup).port
    };
    const THREADS: usize = 20;
    const CLIENTS: usize = 50;
    const STATEMENTS: usize = 100;
    let began = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            thread::spawn(move || {
                let mut clients: Vec<Client> = (0..CLIENTS)
                    .map(|_| Client::login(port, &Login::default()).unwrap_or_else(|t| panic!("login: {t}")))
                    .collect();
                for (c, client) in clients.iter_mut().enumerate() {
                    // Every second client has the same texts as its neighbour, under other names.
                    let texts = thread * CLIENTS + c / 2;
                    let parses: Vec<Vec<u8>> = (0..STATEMENTS)
                        .map(|s| parse(&format!("c{c}s{s}"), &format!("select {texts}, {s}, $1::int")))
                        .collect();
                    let reply = client.ask(&and_sync(&parses));
                    assert_eq!(reply.0.len(), STATEMENTS + 1, "{}", reply.letters());
                }
                for s in (0..STATEMENTS).step_by(7) {
                    for (c, client) in clients.iter_mut().enumerate() {
                        let texts = thread * CLIENTS + c / 2;
                        let name = format!("c{c}s{s}");
                        let value = (s * 31 + c).to_string();
                        let bind = frontend::bind("", &name, &Values::text(&[&value]));
                        let messages = match s % 3 {
                            0 => vec![bind, frontend::execute("", 0)],
                            1 => vec![frontend::describe(b'S', &name), bind, frontend::execute("", 0)],
                            _ => vec![bind, frontend::describe(b'P', ""), frontend::execute("", 0)],
                        };
                        let reply = client.ask(&and_sync(&messages));
                        assert_eq!(
                            reply.rows(),
                            [[texts.to_string(), s.to_string(), value]],
                            "{name}: {}",
                            reply.letters()
                        );
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a client got what was not its own");
    }
    println!("{} clients: {:?}", THREADS * CLIENTS, began.elapsed());
}

/// `max_prepared` holds whatever is made, closed, failed or skipped.
fn the_servers_keep_no_more_than_they_may(world: &World) {
    let proxy = world.start_proxy(&Setup::default().pool("max_prepared: 3").primary_only(), world.cluster());
    let mut client = proxy.login();
    let count = |client: &mut Client| -> usize {
        client
            .value("select count(*) from pg_prepared_statements where name like 'pgsluice\\_%'")
            .parse()
            .expect("a count")
    };
    let mut most = 0;
    for round in 0..30 {
        let names: Vec<String> = (0..5).map(|i| format!("r{round}n{i}")).collect();
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for (i, name) in names.iter().enumerate() {
            messages.push(parse(name, &format!("select {round} + {i}")));
            messages.push(run(name));
            if round % 3 == 1 && i == round % 5 {
                messages.push(parse("", "select 1/0"));
                messages.push(run(""));
            }
        }
        client.ask(&and_sync(&messages));
        most = most.max(count(&mut client));
        for name in &names {
            client.ask(&and_sync(&[run(name)]));
        }
        most = most.max(count(&mut client));
    }
    assert_eq!(most, 3);
}

/// B087, B350: what is parsed and closed leaves nothing behind.
fn texts_that_nobody_holds_are_forgotten(world: &World) {
    let proxy = world.start_proxy(&Setup::default().primary_only(), world.cluster());
    let mut client = proxy.login();
    let mut batch = Vec::new();
    for i in 0..100_000 {
        let name = if i % 10 == 0 { String::new() } else { format!("s{i}") };
        batch.extend(parse(&name, &format!("select {i} as c{i}")));
        batch.extend(frontend::close(b'S', &name));
        if i % 1000 == 999 {
            batch.extend(frontend::sync());
            let reply = client.ask(&batch);
            assert_eq!((reply.0.len(), reply.sqlstate()), (2001, None));
            batch.clear();
        }
    }
    let mut holder = proxy.login();
    holder.ask(&and_sync(&[parse("kept", "select 'kept'")]));
    eventually("the texts to be forgotten", || texts(&proxy) == 1);
    holder.vanish();
    eventually("the last one to be forgotten", || texts(&proxy) == 0);
}

/// What the proxy says of the texts it holds.
fn texts(proxy: &Proxy) -> usize {
    let (_, page) = crate::lifecycle::http(proxy.admin, "/metrics");
    let line = page.lines().find(|line| line.starts_with("pgsluice_prepared_texts ")).expect("the gauge");
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// B089: a client that never closes anything is told to, and its session goes on.
fn names_have_a_limit(world: &World) {
    let proxy = world.start_proxy(&Setup::default().primary_only(), world.cluster());
    let mut client = proxy.login();
    let mut made = 0;
    let refused = loop {
        let messages: Vec<Vec<u8>> = (0..1024).map(|i| parse(&format!("n{}", made + i), "select 1")).collect();
        let reply = client.ask(&and_sync(&messages));
        made += reply.0.iter().filter(|m| m.tag == b'1').count();
        if reply.sqlstate().is_some() {
            break reply;
        }
        assert!(made < 100_000, "there is no limit");
    };
    assert_eq!((made, refused.sqlstate().as_deref()), (65_536, Some("53400")));
    assert_eq!(client.ask(&and_sync(&[run("n0"), run("n65535")])).rows(), [["1"], ["1"]]);
    assert_eq!(client.ask(&and_sync(&[parse("more", "select 1")])).letters(), "E(53400) Z(I)");
    let reply = client.ask(&and_sync(&[frontend::close(b'S', "n7"), parse("more", "select 2"), run("more")]));
    assert_eq!(reply.rows(), [["2"]]);
    assert_eq!(proxy.login().ask(&and_sync(&[parse("n0", "select 3"), run("n0")])).rows(), [["3"]]);
}

/// Longer than anything may be that is prepared: an error where it stands, and the session goes on.
fn a_text_too_long_is_an_error(world: &World) {
    let proxy = world.proxy(&Setup::default().size(2));
    let mut client = proxy.login();
    let long = |name: &str| parse(name, &format!("select length('{}')", "x".repeat(70 << 20)));
    let behind = [run(""), frontend::sync(), frontend::query("select 5")].concat();
    let tail = |client: &mut Client| client.recv_until(b'Z', 2).0.letters();
    client.send(&[long("long"), behind.clone()].concat()).expect("send");
    assert_eq!(tail(&mut client), "E(54000) Z(I) T D C(SELECT 1) Z(I)");
    client.send(&[parse("a", "select 1"), run("a"), long(""), behind.clone()].concat()).expect("send");
    assert_eq!(tail(&mut client), "1 2 D C(SELECT 1) E(54000) Z(I) T D C(SELECT 1) Z(I)");
    // In a transaction it is an error of the transaction.
    let failed = [run(""), frontend::sync(), frontend::query("rollback")].concat();
    for first in ["select 1", "set transaction read only"] {
        client.query("begin");
        client.query(first);
        client.send(&[long("long"), failed.clone()].concat()).expect("send");
        assert_eq!(tail(&mut client), "E(54000) Z(E) C(ROLLBACK) Z(I)", "{first}");
    }
    assert_eq!(client.ask(&and_sync(&[run("a")])).letters(), "2 D C(SELECT 1) Z(I)");
}

/// An error comes while a long message is still arriving: the rest of it is not the next message.
fn half_a_message_is_not_taken_for_the_next(world: &World) {
    let proxy = world.proxy(&Setup::default().checkout_timeout("200ms"));
    let mut client = proxy.login();
    let text = "x".repeat(3 << 20);
    let bind = frontend::bind("", "s", &Values::text(&[&text]));
    assert_eq!(client.ask(&and_sync(&[parse("s", "select $1::text for update")])).letters(), "1 Z(I)");
    let mut holder = proxy.login();
    holder.query("begin");
    holder.query("lock table pg_catalog.pg_class in access share mode");
    let table: [(&str, Vec<u8>, &str); 3] = [
        ("a query", frontend::query(&format!("select '{text}' for update")), "E(53300) Z(I)"),
        ("a Bind", and_sync(&[bind.clone(), frontend::execute("", 0)]), "E(53300) Z(I)"),
        (
            "a Bind behind an error",
            and_sync(&[parse("s", "select 1"), bind, frontend::execute("", 0)]),
            "E(53300) Z(I)",
        ),
    ];
    for (what, message, letters) in &table {
        client
            .send(&[message.as_slice(), &frontend::query("select 'next' from pg_class limit 1")].concat())
            .expect("send");
        let (reply, trouble) = client.recv_until(b'Z', 2);
        assert!(trouble.is_none(), "{what}: {trouble:?} after {}", reply.letters());
        assert_eq!(reply.letters(), format!("{letters} T D C(SELECT 1) Z(I)"), "{what}");
    }
    holder.query("rollback");
    // The same where the error is the proxy's own, in the middle of a batch that has a server.
    let (_, message, _) = &table[2];
    client.send(&[message.as_slice(), &frontend::query("select 'next'")].concat()).expect("send");
    let (reply, trouble) = client.recv_until(b'Z', 2);
    assert!(trouble.is_none(), "{trouble:?} after {}", reply.letters());
    assert_eq!(reply.letters(), "E(42P05) Z(I) T D C(SELECT 1) Z(I)");
}
