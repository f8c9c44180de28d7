//! Every limit: what the client hears, what is counted, and that a reload changes it. And clients that never finish their login.

use std::time::{Duration, Instant};

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    identity::words,
    lifecycle::{http, rewrite},
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("limits", Pgsluice:
        clients_of_a_user_and_of_a_database, half_open_logins_keep_nobody_out, a_login_has_one_deadline_for_all_of_it,
        a_drain_does_not_wait_for_half_open_logins, wishes_need_no_free_server, an_outage_does_not_flood_the_log,
        statements_take_no_longer_than_allowed, a_copy_takes_no_longer_than_allowed, idle_clients_are_cut))
}

/// The value of a metric, by its name with labels.
pub fn metric(proxy: &Proxy, name: &str) -> f64 {
    let (_, body) = http(proxy.admin, "/metrics");
    let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no metric {name}")).parse().expect("a number")
}

fn hits(proxy: &Proxy, limit: &str) -> f64 {
    metric(proxy, &format!("pgsluice_limits_total{{limit=\"{limit}\"}}"))
}

/// D95, D98: places are taken by those who have proved who they are, and come back.
fn clients_of_a_user_and_of_a_database(world: &World) {
    let users = "{ name: app, password: secret }, { name: bob, password: secret, max_clients: 1 }, { name: postgres, password: secret }";
    let setup = Setup::default()
        .users(users)
        .databases("  other: { dbname: app, nodes: [{nodes}] }\n")
        .top("limits: { per_user: 2, per_database: 3 }");
    let proxy = world.start_proxy(&setup, world.cluster());
    let login = |user: &str, database: &str| Login::default().user(user).database(database);
    let (app, bob) = (login("app", "app"), login("bob", "app"));
    let mut held = vec![proxy.login_as(&app), proxy.login_as(&app)];
    assert_eq!(words(proxy.port, &app), "FATAL 53300 too many connections for role \"app\"");
    assert_eq!(words(proxy.port, &login("app", "other")), "FATAL 53300 too many connections for role \"app\"");
    held.push(proxy.login_as(&bob));
    assert_eq!(words(proxy.port, &bob), "FATAL 53300 too many connections for role \"bob\"");
    let postgres = login("postgres", "app");
    assert_eq!(words(proxy.port, &postgres), "FATAL 53300 too many connections for database \"app\"");
    assert_eq!(words(proxy.port, &login("postgres", "other")), "let in");
    // Nobody fills the places of somebody whose password it does not know.
    assert_eq!(
        words(proxy.port, &app.clone().password("wrong")),
        "FATAL 28P01 password authentication failed for user \"app\""
    );
    assert_eq!((hits(&proxy, "per_user"), hits(&proxy, "per_database")), (3.0, 1.0));
    assert_eq!(metric(&proxy, "pgsluice_logins_total{outcome=\"limited\"}"), 4.0);
    assert_eq!(metric(&proxy, "pgsluice_logins_total{outcome=\"refused\"}"), 1.0);
    held.remove(0).vanish();
    eventually("a place to become free", || words(proxy.port, &app) == "let in");
    rewrite(&proxy, "per_user: 2, per_database: 3", "per_user: 5");
    eventually("the new limits", || words(proxy.port, &app) == "let in" && words(proxy.port, &postgres) == "let in");
    assert_eq!(words(proxy.port, &bob), "FATAL 53300 too many connections for role \"bob\"");
    rewrite(&proxy, "max_clients: 1", "max_clients: 9");
    eventually("the user's new limit", || words(proxy.port, &bob) == "let in");
    held.iter_mut().for_each(|client| assert_eq!(client.value("select 1"), "1"));
}

/// Beginnings of a login that go no further.
fn stalled(port: u16, how: usize) -> Client {
    let mut client = Client::dial(port).expect("connect");
    let packet = Login::default().packet();
    let said: &[u8] = match how % 4 {
        0 => b"",
        1 => &packet[..7],
        _ => &packet,
    };
    let _ = client.send(said);
    if how % 4 == 3 {
        let _ = client.recv();
        let _ = client.send(&frontend::sasl_initial("SCRAM-SHA-256", b"n,,n=,r=abcdefgh"));
    }
    client
}

/// D95: a flood of those who never finish takes nobody's place, and is bounded itself.
fn half_open_logins_keep_nobody_out(world: &World) {
    let proxy = world.start_proxy(&Setup::default().top("limits: { clients: 20 }"), world.cluster());
    let mut held: Vec<Client> = (0..19).map(|_| proxy.login()).collect();
    let mut flood = Vec::new();
    for how in 0..300 {
        flood.push(stalled(proxy.port, how));
        if how % 20 == 0 {
            assert_eq!(words(proxy.port, &Login::default()), "let in", "after {how}");
        }
    }
    let open = metric(&proxy, "pgsluice_half_open_logins");
    assert!(open <= 32.0, "{open} half-open logins");
    assert!(hits(&proxy, "half_open") >= 250.0, "{}", hits(&proxy, "half_open"));
    held.push(proxy.login());
    assert_eq!(words(proxy.port, &Login::default()), "FATAL 53300 sorry, too many clients already");
    assert!(hits(&proxy, "clients") >= 1.0);
    held.iter_mut().for_each(|client| assert_eq!(client.value("select 1"), "1"));
    drop(flood);
    eventually("the flood to be over", || metric(&proxy, "pgsluice_half_open_logins") == 0.0);
    rewrite(&proxy, "clients: 20", "clients: 30");
    eventually("the new limit", || words(proxy.port, &Login::default()) == "let in");
}

/// D124: the deadline is for the whole, so that nobody stretches it by a byte now and then.
fn a_login_has_one_deadline_for_all_of_it(world: &World) {
    let proxy = world.start_proxy(&Setup::default().top("limits: { login: 1s }"), world.cluster());
    for how in 0..4 {
        let began = Instant::now();
        let mut client = stalled(proxy.port, how);
        let (_, trouble) = client.recv_until(b'\0', 1);
        assert_eq!(trouble.expect("an end").to_string(), "EOF", "stalled at {how}");
        assert!(began.elapsed() < Duration::from_secs(5), "{how}: {:?}", began.elapsed());
    }
    let began = Instant::now();
    let mut client = Client::dial(proxy.port).expect("connect");
    let packet = Login::default().packet();
    let mut sent = 0;
    eventually("the slow client to be cut", || {
        sent += 1;
        let next = packet.get(sent - 1..sent).unwrap_or_default();
        // The first write after the end is still taken.
        client.send(next).is_err()
            || client.recv_within(Duration::from_millis(90)).is_err_and(|t| t.to_string() == "EOF")
    });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(hits(&proxy, "login"), 5.0);
}

fn a_drain_does_not_wait_for_half_open_logins(world: &World) {
    let proxy = world.start_proxy(&Setup::default(), world.cluster());
    let mut stalled: Vec<Client> = (0..8).map(|how| stalled(proxy.port, how)).collect();
    eventually("all of them", || metric(&proxy, "pgsluice_half_open_logins") == 8.0);
    proxy.process().expect("a process").signal("TERM").expect("signal");
    let began = Instant::now();
    eventually("the process to end", || proxy.process().expect("a process").ended());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let (reply, _) = stalled[2].recv_until(b'E', 1);
    assert_eq!(reply.sqlstate().as_deref(), Some("57P03"));
}

/// What is certain about a parameter is not asked of a server; what is not certain is a server's to say, in its words.
fn wishes_need_no_free_server(world: &World) {
    let proxy = world.start_proxy(&Setup::default().primary_only().checkout_timeout("1s"), world.cluster());
    let server = world.cluster().primary().port();
    // Seen once, each of them alone.
    drop(proxy.login_as(&Login::default().param("TimeZone", "Europe/Berlin")));
    drop(proxy.login_as(&Login::default().param("work_mem", "5MB")));
    let mut holder = proxy.login();
    assert_eq!(holder.query("begin; select 1").status(), Some('T'));
    let table: &[&[(&str, &str)]] = &[
        &[],
        &[("client_encoding", "utf-8"), ("DateStyle", "ISO"), ("extra_float_digits", "2")],
        &[
            ("client_encoding", "UTF8"),
            ("datestyle", "iso, dmy"),
            ("TimeZone", "UTC"),
            ("search_path", "pg_catalog, \"$user\""),
        ],
        &[("options", "-c statement_timeout=90000 -c lock_timeout=0 -c intervalstyle=iso_8601")],
        &[("standard_conforming_strings", "off"), ("bytea_output", "escape"), ("client_min_messages", "warning")],
        &[("default_transaction_isolation", "repeatable read"), ("default_transaction_read_only", "on")],
        &[("TimeZone", "Europe/Berlin"), ("work_mem", "5MB"), ("synchronous_commit", "off")],
    ];
    let mut waiting = Vec::new();
    for wishes in table {
        let login = wishes.iter().fold(Login::default(), |login, (name, value)| login.param(name, value));
        let began = Instant::now();
        let proxied = proxy.login_as(&login);
        assert!(began.elapsed() < Duration::from_millis(900), "{wishes:?}: {:?}", began.elapsed());
        let native = Client::login(server, &login).expect("login");
        let sorted = |client: &Client| {
            let mut all = client.parameters.clone();
            all.sort();
            all
        };
        assert_eq!(sorted(&proxied), sorted(&native), "{wishes:?}");
        waiting.push((proxied, native, wishes));
    }
    // Who wishes for what nobody knows waits, as for any server.
    let unknown = Login::default().param("TimeZone", "Europe/Paris");
    assert_eq!(words(proxy.port, &unknown), "FATAL 53300 no server connection became free in time");
    holder.query("commit");
    for (mut proxied, mut native, wishes) in waiting {
        for name in [
            "client_encoding",
            "datestyle",
            "extra_float_digits",
            "timezone",
            "search_path",
            "statement_timeout",
            "lock_timeout",
            "intervalstyle",
            "bytea_output",
            "client_min_messages",
            "default_transaction_isolation",
            "transaction_read_only",
            "work_mem",
            "synchronous_commit",
            "standard_conforming_strings",
        ] {
            let sql = format!("show {name}");
            assert_eq!(proxied.value(&sql), native.value(&sql), "{name} of {wishes:?}");
        }
    }
    for wish in
        [("datestyle", "nonsense"), ("no_such_parameter", "1"), ("statement_timeout", "-1"), ("search_path", "a b")]
    {
        let login = Login::default().param(wish.0, wish.1);
        assert_eq!(words(proxy.port, &login), words(server, &login), "{wish:?}");
    }
}

fn an_outage_does_not_flood_the_log(world: &World) {
    let cluster = world.own_cluster(0);
    let proxy = world.start_proxy(&Setup::default().size(5), &cluster);
    let mut clients: Vec<Client> = (0..5).map(|_| proxy.login()).collect();
    for client in &mut clients {
        client.send(&frontend::query("select pg_sleep(60)")).expect("send");
    }
    let asleep = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'";
    eventually("all of them to sleep", || cluster.primary().psql(asleep).is_ok_and(|n| n == "5"));
    cluster.primary().stop(pgsluice::cli::demo::Stop::Immediate).expect("stop");
    for client in &mut clients {
        assert!(client.recv_until(b'Z', 1).0.sqlstate().is_some());
    }
    for _ in 0..40 {
        for client in &mut clients {
            assert!(client.query("select 1").sqlstate().is_some());
        }
    }
    let lines = |what: &str| proxy.log().lines().filter(|line| line.contains(what)).count();
    let told = (lines("no connection to node"), lines("a server connection was lost"));
    assert!(told.0 <= 2 && told.1 <= 1, "{told:?}\n{}", proxy.log());
    eventually("the rest as a number", || lines("more server connections were lost") == 1);
}

/// D119, D121: a statement's own error says that it took too long, whoever set the limit.
fn statements_take_no_longer_than_allowed(world: &World) {
    let users = "{ name: app, password: secret }, { name: bob, password: secret, statement_timeout: 300ms }, { name: postgres, password: secret, statement_timeout: 1h }";
    let proxy =
        world.start_proxy(&Setup::default().size(2).users(users).top("limits: { query: 700ms }"), world.cluster());
    for (user, least, most) in [("app", 700, 5000), ("bob", 300, 690), ("postgres", 700, 5000)] {
        let mut client = proxy.login_as(&Login::default().user(user));
        for extended in [false, true] {
            let began = Instant::now();
            let sql = "select pg_sleep(8)";
            let reply = if extended { client.extended(sql, &[]) } else { client.query(sql) };
            let took = began.elapsed().as_millis();
            assert_eq!(reply.sqlstate().as_deref(), Some("57014"), "{user}");
            let message = reply.0.iter().find(|m| m.tag == b'E').and_then(|m| m.field(b'M'));
            assert_eq!(message.as_deref(), Some("canceling statement due to statement timeout"), "{user}");
            assert!((least..most).contains(&took), "{user}: {took} ms");
            assert_eq!(client.value("select 1"), "1");
        }
        // Inside a transaction it fails as any statement does, and an old limit hits nobody later.
        client.query("begin");
        assert_eq!(client.query("select pg_sleep(8)").letters(), "T E(57014) Z(E)", "{user}");
        assert_eq!(client.query("rollback").status(), Some('I'));
        assert_eq!(client.query("select pg_sleep(0.1)").sqlstate(), None);
    }
    assert_eq!(hits(&proxy, "query"), 9.0);
    // A client's own cancel has its own words.
    let mut client = proxy.login();
    client.send(&frontend::query("select pg_sleep(0.6)")).expect("send");
    let sleeping = "select count(*) from pg_stat_activity where query = 'select pg_sleep(0.6)' and state = 'active'";
    eventually("the statement to run", || {
        world.cluster().nodes().iter().any(|node| world.ask(node, "postgres", sleeping) == "1")
    });
    client.cancel(proxy.port).expect("cancel");
    let (reply, _) = client.recv_until(b'Z', 1);
    let message = reply.0.iter().find(|m| m.tag == b'E').and_then(|m| m.field(b'M'));
    assert_eq!(message.as_deref(), Some("canceling statement due to user request"));
    rewrite(&proxy, "statement_timeout: 300ms", "statement_timeout: 100ms");
    let mut bob = proxy.login_as(&Login::default().user("bob"));
    eventually("the new limit", || bob.query("select pg_sleep(0.2)").sqlstate().as_deref() == Some("57014"));
    rewrite(&proxy, "statement_timeout: 100ms", "statement_timeout: 0");
    rewrite(&proxy, "query: 700ms", "query: 0");
    eventually("no limit", || bob.query("select pg_sleep(0.8)").sqlstate().is_none());
}

/// A server that waits for data hears no cancel: its COPY is failed.
fn a_copy_takes_no_longer_than_allowed(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let setup = Setup::default().primary_only().top("limits: { query: 300ms }");
    let proxy = world.start_proxy(&setup, world.cluster());
    let mut client = proxy.login();
    let copy = "copy t from stdin";
    let extended =
        [frontend::parse("", copy, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)];
    for (begin, status) in [(false, 'I'), (true, 'E')] {
        for (message, end) in [(frontend::query(copy), false), ([extended.concat(), frontend::sync()].concat(), true)] {
            if begin {
                client.query("begin");
            }
            let began = Instant::now();
            client.send(&[message, frontend::copy_data(b"1\tx\n")].concat()).expect("send");
            let (reply, _) = client.recv_until(b'E', 1);
            let error = reply.0.last().expect("an error");
            assert_eq!(error.sqlstate().as_deref(), Some("57014"));
            assert_eq!(error.field(b'M').as_deref(), Some("canceling statement due to statement timeout"));
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            // What it sends before it has heard of that is ignored, as by any server.
            let mut rest = [frontend::copy_data(b"2\tx\n"), frontend::copy_done()].concat();
            if end {
                rest.extend(frontend::sync());
            }
            client.send(&rest).expect("send");
            assert_eq!(client.recv_until(b'Z', 1).0.letters(), format!("Z({status})"));
            assert_eq!(client.query("rollback").status(), Some('I'));
            assert_eq!(client.value("select count(*) from t"), "0");
        }
    }
    assert_eq!(hits(&proxy, "query"), 4.0);
}

fn idle_clients_are_cut(world: &World) {
    let proxy = world.start_proxy(&Setup::default().top("limits: { idle_client: 400ms }"), world.cluster());
    let mut client = proxy.login();
    let farewell = client.recv_within(Duration::from_secs(5)).expect("a farewell");
    assert_eq!(farewell.sqlstate().as_deref(), Some("57P05"));
    assert_eq!(hits(&proxy, "idle_client"), 1.0);
    // Work is not idleness (B131, D122).
    let mut busy = proxy.login();
    assert_eq!(busy.query("select pg_sleep(0.9)").sqlstate(), None);
    rewrite(&proxy, "idle_client: 400ms", "idle_in_transaction: 400ms");
    eventually("the new limit", || {
        let mut client = proxy.login();
        client.query("begin; select 1");
        client.recv_within(Duration::from_millis(800)).is_ok_and(|m| m.sqlstate().as_deref() == Some("25P03"))
    });
    assert!(hits(&proxy, "idle_in_transaction") >= 1.0);
}
