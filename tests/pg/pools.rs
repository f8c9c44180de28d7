//! Server connections: how many there are, how long they live, what carries them; and whether the counters say so.

use std::collections::BTreeMap;

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend,
    lifecycle::http,
    prepared::{parse, run},
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("pools", Pgsluice:
        counters_tell_the_truth, idle_connections_are_closed, old_connections_are_not_lent, servers_over_unix_sockets,
        a_query_in_a_pipeline_leaves_a_sound_server, new_sessions_have_new_defaults))
}

/// Counters and gauges whose name begins like this, those at zero left out, by their text in the page.
fn counted(proxy: &Proxy, family: &str) -> BTreeMap<String, u64> {
    let (status, body) = http(proxy.admin, "/metrics");
    assert_eq!(status, "200");
    let samples = body.lines().filter(|line| line.starts_with(family)).filter_map(|line| line.rsplit_once(' '));
    samples
        .map(|(name, value)| (name[family.len()..].to_owned(), value.parse::<f64>().expect("a number") as u64))
        .filter(|(_, value)| *value > 0)
        .collect()
}

fn expect(proxy: &Proxy, family: &str, wanted: &[(&str, u64)]) {
    let wanted: BTreeMap<String, u64> = wanted.iter().map(|(labels, n)| ((*labels).to_owned(), *n)).collect();
    // The client has its answer a moment before the counters have it.
    eventually(family, || counted(proxy, family) == wanted);
}

fn counters_tell_the_truth(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let proxy = world.start_proxy(&Setup::default().size(2), world.cluster());
    let mut client = proxy.login();
    for statement in ["select v from t", "select v from t where id = 1", "select v from t where id = 2"] {
        client.query(statement);
    }
    client.query("insert into t values (1, 'x')");
    client.query("selec");
    for statement in ["begin", "select v from t", "update t set v = 'y'", "commit"] {
        client.query(statement);
    }
    client.query("listen news");
    expect(
        &proxy,
        "pgsluice_statements_total",
        &[
            // A transaction's first statement is counted with its BEGIN's reason, which decided for both.
            ("{database=\"app\",route=\"held\",reason=\"in-transaction\"}", 2),
            ("{database=\"app\",route=\"replica\",reason=\"proven-read\"}", 3),
            ("{database=\"app\",route=\"primary\",reason=\"session-state\"}", 1),
            ("{database=\"app\",route=\"answered\",reason=\"transaction-control\"}", 1),
            ("{database=\"app\",route=\"primary\",reason=\"transaction-control\"}", 1),
            ("{database=\"app\",route=\"primary\",reason=\"unparsable\"}", 1),
            ("{database=\"app\",route=\"primary\",reason=\"writes\"}", 1),
        ],
    );
    expect(&proxy, "pgsluice_pins_total", &[("{reason=\"listen\"}", 1)]);
    expect(&proxy, "pgsluice_clients", &[("{database=\"app\",state=\"idle\"}", 1)]);
    let seconds = counted(&proxy, "pgsluice_statement_seconds_count");
    assert_eq!(seconds.values().sum::<u64>(), 9, "every statement a server answered was timed: {seconds:?}");
    let classified = counted(&proxy, "pgsluice_classify_total");
    assert_eq!(classified.values().sum::<u64>(), 10, "{classified:?}");
    assert_eq!(classified.get("{path=\"unparsable\"}"), Some(&1));
    // Pinned to the primary: one connection there is in use, and whatever served the reads is idle.
    let servers = counted(&proxy, "pgsluice_servers");
    let active: Vec<_> = servers.iter().filter(|(labels, _)| labels.contains("active")).collect();
    assert_eq!(active.len(), 1, "{servers:?}");
    assert_eq!(counted(&proxy, "pgsluice_node_up").len(), 3);
    drop(client);
    eventually("the client to be counted out", || counted(&proxy, "pgsluice_clients").is_empty());
}

/// Backends of the application on the primary that are the proxy's.
fn backends(world: &World) -> Vec<String> {
    let sql = "select coalesce(string_agg(pid::text, ' ' order by pid), '') from pg_stat_activity \
               where usename = 'app' and datname = 'app' and application_name not in ('keep', 'pgsluice')";
    world.superuser(sql).split_whitespace().map(str::to_owned).collect()
}

fn pooled(pool: &str) -> Setup {
    let entry = format!("  own: {{ dbname: app, nodes: [{{nodes}}], pool: {{ size: 3, {pool} }} }}\n");
    Setup::default().primary_only().databases(&entry)
}

fn idle_connections_are_closed(world: &World) {
    let before = backends(world);
    let own = |world: &World| backends(world).into_iter().filter(|pid| !before.contains(pid)).count();
    let proxy = world.start_proxy(&pooled("idle_timeout: 1s"), world.cluster());
    let login = crate::client::Login::default().database("own");
    let mut clients: Vec<_> = (0..3).map(|_| proxy.login_as(&login)).collect();
    for client in &mut clients {
        client.query("begin; insert into pg_temp_none values (1)");
        client.query("rollback");
    }
    assert!(own(world) >= 1);
    // Its client is still there and notices nothing.
    eventually("idle connections to be closed", || own(world) == 0);
    assert_eq!(clients[0].value("select 7"), "7");
}

fn old_connections_are_not_lent(world: &World) {
    let proxy = world.start_proxy(&pooled("max_lifetime: 1s"), world.cluster());
    let mut client = proxy.login_as(&crate::client::Login::default().database("own"));
    let first = client.value("select pg_backend_pid()");
    eventually("another connection to be lent", || client.value("select pg_backend_pid()") != first);
}

/// A node whose host is a directory is reached by the Unix socket in it: probes, pools and cancels.
fn servers_over_unix_sockets(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let dir = world.cluster().dir().display().to_string();
    let nodes: Vec<String> =
        world.cluster().nodes().iter().map(|n| format!("{{ host: {dir}, port: {} }}", n.port())).collect();
    let entry = format!("  sockets: {{ dbname: app, nodes: [{}], pool: {{ size: 1 }} }}\n", nodes.join(", "));
    let proxy = world.start_proxy(&Setup::default().databases(&entry), world.cluster());
    let mut client = proxy.login_as(&crate::client::Login::default().database("sockets"));
    client.query("insert into t values (1, 'x')");
    assert_eq!(client.value("select inet_server_addr() is null"), "t");
    assert_eq!(client.value("select v from t where id = 1"), "x");
    eventually("reads to go to a replica", || {
        client.query("select v from t where id = 1");
        client.route().role == "replica"
    });
}

/// A Query may come behind extended messages without their Sync. PostgreSQL 18 does not commit at a Sync that follows, and gives an error
/// to whoever comes next; here that would be another client.
fn a_query_in_a_pipeline_leaves_a_sound_server(world: &World) {
    world.prepare("create table piped(i int)");
    let port = world.proxy(&Setup::default().size(1).primary_only()).port;
    let login = || Client::login(port, &Login::default()).unwrap_or_else(|trouble| panic!("login: {trouble}"));
    let (mut client, mut next) = (login(), login());
    let (query, sync) = (frontend::query("select 1"), frontend::sync());
    let ends: [(usize, Vec<Vec<u8>>); 4] = [
        (2, vec![[query.clone(), sync.clone()].concat()]),
        (2, vec![query.clone(), sync.clone()]),
        (2, vec![query.clone(), [frontend::close(b'S', "nosuch"), sync.clone()].concat()]),
        (3, vec![query.clone(), query.clone(), sync.clone()]),
    ];
    for (n, (answers, writes)) in ends.into_iter().enumerate() {
        let insert = [parse("", "insert into piped values (1)"), run("")].concat();
        client.send(&[insert, writes[0].clone()].concat()).expect("sent");
        let (mut reply, mut trouble) = client.recv_until(b'Z', answers + 1 - writes.len());
        for write in &writes[1..] {
            assert!(trouble.is_none(), "{n}: {}", reply.letters());
            client.send(write).expect("sent");
            (reply, trouble) = client.recv_until(b'Z', 1);
        }
        assert_eq!((reply.status(), trouble.is_none()), (Some('I'), true), "{n}: {}", reply.letters());
        assert_eq!(next.value("select count(*) from piped"), (n + 1).to_string(), "{n}");
        assert_eq!(client.value("select count(*) from piped"), (n + 1).to_string(), "{n}");
    }
    let steady = frontend::query("begin; insert into piped values (2)");
    assert_eq!(client.ask(&steady).status(), Some('T'));
    assert_eq!(client.ask(&sync).status(), Some('T'));
    assert_eq!(client.status_after("rollback"), 'I');
    assert_eq!(next.value("select count(*) from piped where i = 2"), "0");
}

/// What ALTER ROLE and ALTER DATABASE set is a connection's from its beginning, and those of a pool have begun long ago.
fn new_sessions_have_new_defaults(world: &World) {
    let proxy = world.start_proxy(&Setup::default().primary_only().size(2), world.cluster());
    let mut admin = proxy.login_as(&Login::default().user("postgres"));
    let begin = || {
        let mut client = proxy.login();
        let reported = client.greeting.iter().find(|m| m.tag == b'S' && m.body.starts_with(b"DateStyle\0"));
        let reported = reported.map(|m| String::from_utf8_lossy(&m.body[10..m.body.len() - 1]).into_owned());
        (client.value("show work_mem"), client.value("show datestyle"), reported.expect("a DateStyle"))
    };
    let all = |memory: &str, style: &str| (memory.to_owned(), style.to_owned(), style.to_owned());
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        assert_eq!(begin(), all("4MB", "ISO, MDY"));
        for whose in ["role app", "database app", "role app in database app", "user app", "role all"] {
            admin.query(&format!("alter {whose} set work_mem = '7MB'"));
            admin.query(&format!("alter {whose} set datestyle = 'German, DMY'"));
            // Its next answer says that the last request is settled.
            admin.query("select 1");
            assert_eq!(begin(), all("7MB", "German, DMY"), "{whose}");
            admin.query("begin");
            admin.query(&format!("alter {whose} reset all"));
            assert_eq!(begin(), all("7MB", "German, DMY"), "{whose}");
            admin.query("commit");
            admin.query("select 1");
            assert_eq!(begin(), all("4MB", "ISO, MDY"), "{whose}");
        }
        // Without us.
        world.superuser("alter role app set work_mem = '7MB'");
        eventually("the change to be seen", || begin() == all("7MB", "ISO, MDY"));
    }));
    for whose in ["role app", "database app", "role app in database app", "role all"] {
        world.superuser(&format!("alter {whose} reset all"));
    }
    verdict.unwrap_or_else(|what| std::panic::resume_unwind(what));
}
