//! Start, reload and end of the process, with clients at work.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use pgsluice::cli::demo::Tethered;

use crate::{
    Case, cases,
    client::{Client, Login, Trouble},
    frontend,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("lifecycle", Pgsluice:
        a_drain_lets_transactions_end, a_drain_that_takes_too_long_is_said, a_drain_with_a_unix_socket, a_reload_drops_nobody, a_bad_reload_changes_nothing,
        a_reload_adds_and_removes_nodes, a_reload_right_after_the_start_is_a_reload, a_session_pool_returns_what_was_used,
        a_statement_pool_has_no_transactions,
        idle_in_transaction_is_cut, a_client_that_stops_anywhere_is_cut, a_port_in_use_is_said, metrics_and_health_are_served, secrets_are_not_logged))
}

fn own(world: &World, setup: &Setup) -> Proxy {
    world.start_proxy(setup, world.cluster())
}

fn signal(proxy: &Proxy, name: &str) {
    proxy.process().expect("a process").signal(name).expect("signal");
}

/// Changes the configuration and has it read anew.
pub fn rewrite(proxy: &Proxy, from: &str, to: &str) {
    let text = fs::read_to_string(&proxy.config).expect("the configuration");
    assert!(text.contains(from), "{from} is not in the configuration");
    fs::write(&proxy.config, text.replace(from, to)).expect("write the configuration");
    signal(proxy, "HUP");
}

/// B130, D23: idle clients hear 57P01, those in a transaction may finish it.
fn a_drain_lets_transactions_end(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let proxy = own(world, &Setup::default().size(3));
    let (mut idle, mut busy) = (proxy.login(), proxy.login());
    busy.query("begin");
    busy.query("insert into t values (1, 'x')");
    signal(&proxy, "TERM");
    let farewell = idle.recv().expect("a farewell");
    assert_eq!((farewell.tag, farewell.sqlstate().as_deref()), (b'E', Some("57P01")));
    assert!(idle.closed());
    assert_eq!(busy.query("insert into t values (2, 'x')").letters(), "C(INSERT 0 1) Z(T)");
    assert_eq!(busy.query("commit").sqlstate(), None);
    eventually("the process to end", || proxy.process().expect("a process").ended());
    assert_eq!(world.superuser("select count(*) from t"), "2");
}

/// Whoever has not ended in time hears why, as from a server, wherever it is; and nothing of it goes on.
fn a_drain_that_takes_too_long_is_said(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let row = [frontend::query("copy t from stdin"), frontend::copy_data(b"1\tx")].concat();
    let group = [
        frontend::parse("", "insert into t values (2, 'x')", &[]),
        frontend::bind("", "", &frontend::Values::default()),
        frontend::execute("", 0),
        frontend::flush(),
    ];
    // What it has sent, and what it hears of that before.
    let states: [(&str, &str, &[u8], &str); 9] = [
        ("a deferred transaction", "begin", b"", ""),
        ("a transaction", "begin; insert into t values (3, 'x')", b"", ""),
        ("a failed transaction", "begin; select 1/0", b"", ""),
        ("a statement", "", &frontend::query("select pg_sleep(60)"), ""),
        ("a group without Sync", "", &group.concat(), "1 2 C(INSERT 0 1) "),
        ("a COPY", "", &row, "G "),
        ("half of a message in a transaction", "begin", &frontend::query("select 1")[..7], ""),
        ("half of a row", "begin", &row[..row.len() - 1], "G "),
        (
            "a result it does not read",
            "",
            &frontend::query("select repeat('x', 1000) from generate_series(1, 100000)"),
            "T ",
        ),
    ];
    let proxy = own(world, &Setup::default().primary_only().size(12).top("limits: { shutdown: 300ms }"));
    let mut clients: Vec<Client> = states
        .iter()
        .map(|(_, first, bytes, _)| {
            let mut client = proxy.login();
            client.query(first);
            client.send(bytes).expect("send");
            client
        })
        .collect();
    eventually("the statement to run", || {
        world.superuser("select count(*) from pg_stat_activity where query = 'select pg_sleep(60)'") == "1"
    });
    eventually("the result to be under way", || {
        let sql =
            "select count(*) from pg_stat_activity where query like 'select repeat%' and wait_event = 'ClientWrite'";
        world.superuser(sql) == "1"
    });
    signal(&proxy, "TERM");
    for ((what, _, _, before), client) in states.iter().zip(&mut clients) {
        let (reply, _) = client.recv_until(b'E', 1);
        let rows = reply.letters().contains(" D");
        let letters = reply.letters();
        // Whoever had half of a row can not be told.
        assert!(letters == format!("{before}E(57P01)") || *before == "T " && rows, "{what}: {letters}");
        assert!(client.closed(), "{what}");
    }
    eventually("the process to end", || proxy.process().expect("a process").ended());
    let left = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'";
    eventually("the statement to end", || world.superuser(left) == "0");
    assert_eq!(world.superuser("select count(*) from t"), "0");
}

fn a_drain_with_a_unix_socket(world: &World) {
    let proxy = own(world, &Setup::default());
    signal(&proxy, "TERM");
    eventually("the process to end", || proxy.process().expect("a process").ended());
    let dir = proxy.config.with_extension("sockets");
    fs::create_dir(&dir).expect("a directory");
    let text = fs::read_to_string(&proxy.config).expect("the configuration");
    let tcp = format!("127.0.0.1:{}", proxy.port);
    let both = format!("listen: [\"{tcp}\", \"{}\"]", dir.display());
    fs::write(&proxy.config, text.replace(&format!("listen: {tcp}\n"), &format!("{both}\n"))).expect("write");
    let arguments = ["run".as_ref(), "-c".as_ref(), proxy.config.as_os_str()];
    let log = proxy.config.with_extension("again");
    let again = Tethered::start(Path::new(env!("CARGO_BIN_EXE_pgsluice")), &arguments, &log).expect("start");
    eventually("the port to be bound", || TcpStream::connect(("127.0.0.1", proxy.port)).is_ok());
    let socket = dir.join(format!(".s.PGSQL.{}", proxy.port));
    // The listeners are bound one after the other.
    eventually("the socket to be bound", || socket.exists());
    let mut idle: Vec<Client> = (0..4).map(|_| proxy.login()).collect();
    again.signal("TERM").expect("signal");
    for client in &mut idle {
        assert_eq!(
            client.recv_within(Duration::from_secs(2)).expect("a farewell").sqlstate().as_deref(),
            Some("57P01")
        );
    }
    eventually("the process to end", || again.ended());
    assert!(!socket.exists());
}

/// B306: logins and statements during many reloads.
fn a_reload_drops_nobody(world: &World) {
    let proxy = own(world, &Setup::default().size(3));
    let mut steady = proxy.login();
    steady.query("begin");
    let mut sizes = ["size: 3", "size: 4"];
    for _ in 0..10 {
        rewrite(&proxy, sizes[0], sizes[1]);
        sizes.reverse();
        for _ in 0..10 {
            assert_eq!(proxy.login().value("select 1"), "1");
        }
        assert_eq!(steady.query("select 2").value(), "2");
    }
    assert_eq!(steady.query("commit").letters(), "C(COMMIT) Z(I)");
    rewrite(&proxy, "name: bob, password: secret", "name: bob, password: other");
    eventually("the new password to hold", || {
        Client::login(proxy.port, &Login::default().user("bob").password("other")).is_ok()
            || matches!(Client::login(proxy.port, &Login::default().user("bob")), Err(Trouble::Refused(_)))
    });
}

fn a_bad_reload_changes_nothing(world: &World) {
    let proxy = own(world, &Setup::default());
    let before = proxy.log();
    rewrite(&proxy, "pool: {", "pool: { no_such_key: 1,");
    eventually("the fault to be said", || {
        proxy.log().strip_prefix(before.as_str()).is_some_and(|new| new.contains("no_such_key"))
    });
    assert_eq!(proxy.login().value("select 1"), "1");
}

/// New nodes are watched, and nodes that are gone are not used.
fn a_reload_adds_and_removes_nodes(world: &World) {
    let proxy = own(world, &Setup::default().primary_only());
    let mut client = proxy.login();
    client.query("select 1");
    assert_eq!(client.route().node, "primary");
    let [primary, replica] = [world.cluster().primary(), &world.cluster().replicas()[0]]
        .map(|n| format!("{{ name: {}, host: 127.0.0.1, port: {} }}", n.name(), n.port()));
    rewrite(&proxy, &primary, &format!("{primary}, {replica}"));
    eventually("the new replica to be used", || {
        client.query("select 1");
        client.route().node == replica_name(world)
    });
    rewrite(&proxy, &format!("{primary}, {replica}"), &primary);
    eventually("the old state", || {
        assert_eq!(client.value("select 1"), "1");
        client.route().node == "primary"
    });
}

fn replica_name(world: &World) -> &str {
    world.cluster().replicas()[0].name()
}

/// While the nodes have not answered yet, the process is not killed by what is no more than a request.
fn a_reload_right_after_the_start_is_a_reload(world: &World) {
    let cluster = world.own_cluster(1);
    let proxy = world.start_proxy(&Setup::default(), &cluster);
    signal(&proxy, "TERM");
    eventually("the process to end", || proxy.process().expect("a process").ended());
    // A node that does not answer keeps the start waiting.
    cluster.replicas()[0].freeze().expect("freeze");
    let log = proxy.config.with_extension("again");
    let arguments = ["run".as_ref(), "-c".as_ref(), proxy.config.as_os_str()];
    let again = Tethered::start(Path::new(env!("CARGO_BIN_EXE_pgsluice")), &arguments, &log).expect("start");
    eventually("the port to be bound", || TcpStream::connect(("127.0.0.1", proxy.port)).is_ok());
    again.signal("HUP").expect("signal");
    eventually("a client to be served", || {
        assert!(!again.ended(), "the signal has ended the process");
        Client::login(proxy.port, &Login::default()).is_ok_and(|mut c| c.value("select 1") == "1")
    });
    eventually("the reload", || fs::read_to_string(&log).is_ok_and(|log| log.contains("configuration reloaded")));
    cluster.replicas()[0].thaw().expect("thaw");
}

fn a_session_pool_returns_what_was_used(world: &World) {
    let proxy = world.proxy(&Setup::default().mode("session").size(1));
    for i in 0..5 {
        let mut client = proxy.login();
        assert_eq!(client.query("create temp table mine(id int)").letters(), "C(CREATE TABLE) Z(I)", "round {i}");
        client.query("set work_mem = '9MB'");
        client.vanish();
    }
    assert_eq!(proxy.login().value("show work_mem"), "4MB");
}

fn a_statement_pool_has_no_transactions(world: &World) {
    let mut client = world.proxy(&Setup::default().mode("statement").size(1)).login();
    for sql in ["begin", "start transaction read only", "begin; select 1; commit"] {
        assert_eq!(client.query(sql).letters(), "E(0A000) Z(I)", "{sql}");
        let reply = client.extended(sql, &[]).letters();
        // Two statements in one Parse are refused by any server.
        assert!(reply == "E(0A000) Z(I)" || sql.contains(';'), "{sql}: {reply}");
    }
    assert_eq!(client.extended("select 1", &[]).value(), "1");
}

/// B188: the rest of the transaction must never run outside of it.
fn idle_in_transaction_is_cut(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let proxy = own(world, &Setup::default().top("limits: { idle_in_transaction: 300ms }"));
    let mut client = proxy.login();
    client.query("begin");
    client.query("insert into t values (1, 'x')");
    let message = client.recv_within(Duration::from_secs(5)).expect("a farewell");
    assert_eq!(message.sqlstate().as_deref(), Some("25P03"));
    assert!(client.closed());
    eventually("the row to be gone", || world.superuser("select count(*) from t") == "0");
}

/// D123: whoever stops in the middle of something holds no server for ever, and its place is free as soon as the server is.
fn a_client_that_stops_anywhere_is_cut(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let limits = "limits: { idle_client: 700ms, idle_in_transaction: 300ms, query: 300ms }";
    let proxy = own(world, &Setup::default().primary_only().checkout_timeout("3s").top(limits));
    let half = &frontend::query("select 1")[..7];
    let open = [
        frontend::parse("", "insert into t values (1, 'x')", &[]),
        frontend::bind("", "", &frontend::Values::default()),
        frontend::execute("", 0),
        frontend::flush(),
    ];
    let long = frontend::Values::text(&[&"x".repeat(1 << 20)]);
    let bind = [frontend::parse("", "insert into t values (1, $1)", &[]), frontend::bind("", "", &long)].concat();
    let row = [frontend::query("copy t from stdin"), frontend::copy_data(b"1\tx")].concat();
    let large = frontend::query("select repeat('x', 1000) from generate_series(1, 1000000)");
    let cases: [(&str, &[u8], Option<&str>); 6] = [
        ("", half, Some("57P05")),
        ("begin", half, Some("25P03")),
        ("", &open.concat(), Some("25P03")),
        ("", &bind[..100_000], None),
        ("", &row[..row.len() - 2], None),
        ("", &large, None),
    ];
    for (i, (first, bytes, code)) in cases.into_iter().enumerate() {
        let mut client = proxy.login();
        client.query(first);
        client.send(bytes).expect("send");
        if let Some(code) = code {
            let (reply, _) = client.recv_until(b'E', 1);
            assert_eq!(reply.sqlstate().as_deref(), Some(code), "case {i}");
            assert!(client.closed());
        } else {
            eventually("the statement to run", || busy(world) == 1);
        }
        eventually("the server to be free", || busy(world) == 0);
        // A connection that was thrown away keeps its place until its backend has ended; on a busy machine that takes a while.
        eventually("the place to be free", || proxy.login().query("select 1").sqlstate().is_none());
    }
}

/// Backends of the application, on all nodes, that are doing something.
fn busy(world: &World) -> usize {
    let sql = "select count(*) from pg_stat_activity where usename = 'app' and state <> 'idle' and application_name <> 'keep'";
    world
        .cluster()
        .nodes()
        .iter()
        .map(|node| world.ask(node, "postgres", sql).parse::<usize>().expect("a number"))
        .sum()
}

fn a_port_in_use_is_said(world: &World) {
    let proxy = own(world, &Setup::default());
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_pgsluice"))
        .args(["run", "-c"])
        .arg(&proxy.config)
        .output()
        .expect("run");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned() + &String::from_utf8_lossy(&second.stdout);
    assert!(said.contains(&proxy.port.to_string()), "{said}");
}

fn metrics_and_health_are_served(world: &World) {
    let proxy = world.proxy(&Setup::default().size(3));
    proxy.login().query("select 1");
    for name in ["pgsluice_statements_total", "pgsluice_node_up", "pgsluice_clients", "pgsluice_servers"] {
        // A statement is counted after its answer has left.
        eventually(name, || {
            let (status, body) = http(proxy.admin, "/metrics");
            status == "200" && body.contains(name)
        });
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(http(proxy.admin, path).0, "200", "{path}");
    }
}

pub fn http(port: u16, path: &str) -> (String, String) {
    request(port, "GET", path)
}

/// A request in its simplest form: status and body.
pub fn request(port: u16, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin interface");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("send");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

fn secrets_are_not_logged(world: &World) {
    let proxy = own(world, &Setup::default().top("log: { level: debug }"));
    let mut client = proxy.login();
    client.query("select 'a literal nobody may see'");
    client.query("create role r_secret password 'hunter2'");
    drop(Client::login(proxy.port, &Login::default().password("mistyped-secret")));
    client.query("select 1");
    let log = proxy.log();
    for secret in ["a literal nobody may see", "hunter2", "mistyped-secret", "password: secret"] {
        assert!(!log.contains(secret), "{secret} stands in the log");
    }
}
