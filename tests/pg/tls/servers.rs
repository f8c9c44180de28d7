//! Towards servers: pools, probes and cancels by libpq's modes, and connections that live on.

use super::{both_sides, login, papers::Hello, tls, towards_servers};
use crate::{
    Case, cases,
    client::{Client, Login, Trouble},
    frontend,
    tls::Door,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("tls", Pgsluice:
        servers_by_every_mode, prefer_comes_in_the_clear_where_it_must, a_server_of_another_name_is_refused,
        an_old_certificate_is_good_enough_for_require, a_session_moves_between_workers_over_tls,
        cancel_reaches_a_server_over_tls, idle_servers_stay_over_tls))
}

/// What a client meets behind a proxy of this mode, and whether its server is reached over TLS.
fn behind(proxy: &Proxy) -> String {
    let login = Login::default();
    let refused = |msg: crate::backend::Msg| msg.sqlstate().unwrap_or_default();
    match Client::login(proxy.port, &login) {
        Ok(mut client) => {
            let reply = client.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
            reply.sqlstate().unwrap_or_else(|| reply.value())
        }
        Err(Trouble::Refused(msg)) => refused(msg),
        Err(other) => other.to_string(),
    }
}

fn said(proxy: &Proxy, words: &str) {
    eventually(words, || proxy.log().contains(words));
}

fn servers_by_every_mode(world: &World) {
    let papers = world.papers();
    let (strict, plain) = (world.tls_cluster(), world.cluster());
    let (right, wrong) = (Some(&papers.ca), Some(&papers.other));
    for (mode, ca, in_front_of, expected, words) in [
        ("disable", None, strict, "57P03", "no pg_hba.conf entry"),
        ("disable", None, plain, "f", ""),
        ("prefer", None, strict, "t", ""),
        ("prefer", None, plain, "f", ""),
        ("require", None, strict, "t", ""),
        ("require", None, plain, "57P03", "the server does not offer TLS"),
        ("require", right, strict, "t", ""),
        ("require", wrong, strict, "57P03", "UnknownIssuer"),
        ("verify-ca", right, strict, "t", ""),
        ("verify-ca", wrong, strict, "57P03", "UnknownIssuer"),
        ("verify-full", right, strict, "t", ""),
        ("verify-full", wrong, strict, "57P03", "UnknownIssuer"),
        ("verify-full", None, strict, "57P03", "UnknownIssuer"),
        ("verify-full", right, plain, "57P03", "the server does not offer TLS"),
    ] {
        let setup = Setup::default().size(2).checkout_timeout("1s").top(&tls(&[towards_servers(mode, ca)]));
        let proxy = world.start_proxy(&setup, in_front_of);
        let got = behind(&proxy);
        let fits = match expected {
            // Whether a login or its first statement fails, and by whose word, is not the point here.
            "57P03" => !["t", "f"].contains(&got.as_str()),
            expected => got == expected,
        };
        assert!(fits, "{mode} {:?}: {got}\n{}", ca.map(|pair| &pair.cert), proxy.log());
        // The probes go the same way, so the reason stands in the log without any client.
        said(&proxy, words);
        if expected == "t" {
            assert!(!proxy.log().contains("does not answer"), "{}", proxy.log());
        }
    }
}

/// libpq's prefer: TLS first, but a pg_hba.conf that lets in only what is not encrypted is no obstacle.
fn prefer_comes_in_the_clear_where_it_must(world: &World) {
    let papers = world.papers();
    let cluster = world.own_cluster(0);
    papers.arm(&cluster, &papers.server, "hostnossl all all 127.0.0.1/32 scram-sha-256");
    for (mode, expected) in [("prefer", "f"), ("disable", "f")] {
        let setup = Setup::default().top(&tls(&[towards_servers(mode, None)]));
        assert_eq!(behind(&world.start_proxy(&setup, &cluster)), expected, "{mode}");
    }
    let setup = Setup::default().checkout_timeout("1s").top(&tls(&[towards_servers("require", None)]));
    let proxy = world.start_proxy(&setup, &cluster);
    assert_ne!(behind(&proxy), "f", "in the clear though TLS is required");
    said(&proxy, "no pg_hba.conf entry");
}

fn a_server_of_another_name_is_refused(world: &World) {
    let papers = world.papers();
    let cluster = world.own_cluster(0);
    papers.arm(&cluster, &papers.elsewhere, "hostssl all all 127.0.0.1/32 scram-sha-256");
    for (mode, expected) in [("verify-ca", "t"), ("verify-full", "")] {
        let top = tls(&[towards_servers(mode, Some(&papers.ca))]);
        let proxy = world.start_proxy(&Setup::default().checkout_timeout("1s").top(&top), &cluster);
        match expected {
            "" => {
                assert_ne!(behind(&proxy), "t");
                said(&proxy, "not valid for name");
            }
            expected => assert_eq!(behind(&proxy), expected, "{mode}"),
        }
    }
}

/// The commands in PostgreSQL's documentation make such ones with OpenSSL 3.0.
fn an_old_certificate_is_good_enough_for_require(world: &World) {
    let papers = world.papers();
    let cluster = world.own_cluster(0);
    let old = crate::certs::version_1(&papers.dir, "old");
    papers.arm(&cluster, &old, "hostssl all all 127.0.0.1/32 scram-sha-256");
    for (mode, ca) in [("require", None), ("verify-ca", Some(&old))] {
        let proxy = world.start_proxy(&Setup::default().top(&tls(&[towards_servers(mode, ca)])), &cluster);
        assert_eq!(behind(&proxy), "t", "{mode}\n{}", proxy.log());
    }
    let top = tls(&[towards_servers("verify-ca", Some(&papers.ca))]);
    let proxy = world.start_proxy(&Setup::default().checkout_timeout("1s").top(&top), &cluster);
    said(&proxy, "X.509 version 1");
}

/// One server connection for two clients, each on a worker of its own.
fn a_session_moves_between_workers_over_tls(world: &World) {
    let proxy = both_sides(world, Setup::default().size(1).primary_only());
    let config = Hello::default().config(world.papers());
    let mut clients: Vec<Client> =
        (0..2).map(|_| login(proxy.port, Door::Asked, &config, &Login::default()).expect("login")).collect();
    let mut backends = Vec::new();
    for round in 0..100 {
        for (i, client) in clients.iter_mut().enumerate() {
            let sql = format!("select pg_backend_pid(), repeat('{i}', {})", round * 100);
            let reply = client.query(&sql);
            let row = reply.rows().into_iter().next().unwrap_or_default();
            assert_eq!(row.get(1).map(String::len), Some(round * 100), "{}", reply.letters());
            backends.push(row[0].clone());
        }
    }
    backends.dedup();
    assert_eq!(backends.len(), 1, "the connection did not live on: {backends:?}");
}

fn cancel_reaches_a_server_over_tls(world: &World) {
    let proxy = both_sides(world, Setup::default().size(1).primary_only());
    let config = Hello::default().config(world.papers());
    let mut client = login(proxy.port, Door::Asked, &config, &Login::default()).expect("login");
    client.send(&frontend::query("select pg_sleep(30)")).expect("send");
    let running = "select count(*) from pg_stat_activity where query = 'select pg_sleep(30)' and state = 'active'";
    eventually("it to sleep", || world.tls_cluster().primary().psql(running).is_ok_and(|n| n == "1"));
    client.cancel(proxy.port).expect("cancel");
    assert_eq!(client.recv_until(b'Z', 1).0.sqlstate().as_deref(), Some("57014"));
    assert_eq!(client.value("select 1"), "1");
}

/// A connection that was idle is lent again and not dialled anew.
fn idle_servers_stay_over_tls(world: &World) {
    let proxy = both_sides(world, Setup::default().size(3).primary_only());
    let config = Hello::default().config(world.papers());
    let backend = || {
        let mut client = login(proxy.port, Door::Asked, &config, &Login::default()).expect("login");
        client.value("select pg_backend_pid()")
    };
    let first = backend();
    for _ in 0..20 {
        assert_eq!(backend(), first);
    }
    // And one that the server has ended meanwhile is not lent.
    world.tls_cluster().primary().psql(&format!("select pg_terminate_backend({first})")).expect("terminate");
    let gone = format!("select count(*) from pg_stat_activity where pid = {first}");
    eventually("it to be gone", || world.tls_cluster().primary().psql(&gone).is_ok_and(|n| n == "0"));
    assert_ne!(backend(), first);
}
