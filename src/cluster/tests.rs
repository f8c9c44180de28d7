//! The state with scripted events in place of probes; `fake` has the tasks talk to a scripted server.

mod fake;

use std::time::Duration;

use crate::{
    base::{Lsn, NodeId},
    config::{
        Auth, AuthMethod, Balance, Config, Consistency, Database, GuardMode, Limits, Log, LogFormat, MaxLag, Node,
        OnNoReplica, OnTimeout, Pool, PoolMode, Reads, RoleSetting, Routing, Secret, SessionGuard, UnknownFunctions,
        User,
    },
    route::{ClusterView, Role},
};

use super::{
    probe::Sample,
    state::{Host, State, Summary},
    track::Event,
};

fn node(id: u32, name: &str) -> Node {
    Node {
        id: NodeId(id),
        name: name.to_owned(),
        host: name.to_owned(),
        port: 5432,
        role: RoleSetting::Auto,
        weight: 1,
        tags: Vec::new(),
    }
}

fn database(name: &str, nodes: Vec<Node>) -> Database {
    let second = Duration::from_secs(1);
    Database {
        name: name.to_owned(),
        dbname: None,
        nodes,
        server_user: None,
        server_password: None,
        pool: Pool {
            mode: PoolMode::Transaction,
            size: 20,
            min_idle: 0,
            checkout_timeout: second,
            idle_timeout: second,
            max_lifetime: second,
            max_prepared: 500,
        },
        routing: Routing {
            reads: Reads::Replica,
            consistency: Consistency::Session,
            wait: Duration::ZERO,
            on_timeout: OnTimeout::Primary,
            max_lag: MaxLag::Time(second),
            on_no_replica: OnNoReplica::Primary,
            unknown_functions: UnknownFunctions::Primary,
            balance: Balance::LeastLatency,
            defer_begin: true,
        },
    }
}

fn user(name: &str, secret: Secret, databases: Option<&[&str]>) -> User {
    let databases = databases.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    User {
        name: name.to_owned(),
        secret,
        databases,
        pool_size: None,
        max_clients: None,
        statement_timeout: Duration::ZERO,
        rate: None,
        hints: None,
    }
}

fn config(databases: Vec<Database>, users: Vec<User>) -> std::sync::Arc<Config> {
    let zero = Duration::ZERO;
    std::sync::Arc::new(Config {
        tls: Default::default(),
        listen: Vec::new(),
        workers: 2,
        databases: databases.into_iter().map(Into::into).collect(),
        users: users.into_iter().map(Into::into).collect(),
        auth: Auth { method: AuthMethod::Trust, hba: None, query: None, user: None, password: None, database: None },
        limits: Limits {
            clients: 1,
            per_user: None,
            per_database: None,
            login: zero,
            idle_client: zero,
            idle_in_transaction: zero,
            query: zero,
            shutdown: zero,
            message: 1,
            parse: 1,
        },
        admin: None,
        log: Log { level: "info".to_owned(), format: LogFormat::Text },
        firewall: Default::default(),
        session_guard: SessionGuard { mode: GuardMode::Pin, features: Vec::new(), max_pinned: None },
        rules: Vec::new(),
    })
}

fn host(name: &str) -> Host {
    Host { name: name.to_owned(), port: 5432 }
}

/// `a primary 100 tl=2`, `b replica 90`, `b fail`, `b doubt`, `b crowded`; the clock moves 100 ms with each line.
fn step(state: &mut State, clock: &mut u64, line: &str) -> Summary {
    *clock += 100;
    let words: Vec<&str> = line.split_whitespace().collect();
    let event = match words[1..] {
        ["fail"] => Event::Failed,
        ["doubt"] => Event::Doubted,
        ["crowded"] => Event::Crowded,
        [role, lsn, ref rest @ ..] => {
            let option = |key: &str| rest.iter().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
            let lsn = Lsn(lsn.parse().unwrap());
            Event::Answered(Sample {
                in_recovery: role == "replica",
                lsn: Some(lsn),
                insert: Some(lsn),
                timeline: option("tl=").map(|text| text.parse().unwrap()),
                started: option("start=").unwrap_or_default(),
                wal_segment: 16 << 20,
                system: Some(option("system=").unwrap_or("7".to_owned())),
                begun: Duration::from_millis(*clock - 10),
                ended: Duration::from_millis(*clock - 5),
            })
        }
        _ => panic!("{line}"),
    };
    state.observe(&host(words[0]), event, Duration::from_millis(*clock))
}

/// `primary a term 1 · b replica lag 0ms 0B · …`
fn say(view: &ClusterView) -> String {
    let primary = view.primary().map_or("none", |node| &node.name);
    let mut text = format!("primary {primary} term {}", view.term);
    for node in view.nodes.iter().filter(|node| node.role != Role::Primary || node.health.as_str() != "up") {
        text += &format!(" · {} {} {}", node.name, node.role.as_str(), node.health.as_str());
        if let (Some(time), Some(bytes)) = (node.lag_time, node.lag_bytes) {
            text += &format!(" lag {}ms {bytes}B", time.as_millis());
        }
    }
    text
}

fn check(script: &str, expected: &str) {
    let mut state = State::new(2);
    state.reload(config(vec![database("app", vec![node(0, "a"), node(1, "b")])], Vec::new()), Duration::ZERO);
    let mut clock = 0;
    for line in script.split(',') {
        step(&mut state, &mut clock, line);
    }
    let view = state.view(0).unwrap().load_full();
    assert_eq!(say(&view), expected, "{script}");
}

#[test]
fn views_follow_the_nodes() {
    let cases = [
        ("a primary 100, b replica 100", "primary a term 1 · b replica up lag 0ms 0B"),
        ("b replica 100, a primary 100", "primary a term 1 · b replica up lag 0ms 0B"),
        ("a primary 50, a primary 100, b replica 60", "primary a term 1 · b replica up lag 210ms 40B"),
        ("a primary 100, b replica 60", "primary a term 1 · b replica up"),
        ("b replica 100", "primary none term 0 · a unknown unknown · b replica up"),
        // The primary dies: what the replica has is all that is known to exist.
        ("a primary 9, b replica 9, a fail", "primary none term 1 · a unknown down · b replica up lag 0ms 0B"),
        ("a primary 9, b replica 9, a doubt", "primary a term 1 · b replica up lag 0ms 0B"),
        ("a primary 9, b replica 9, a crowded", "primary a term 1 · b replica up lag 0ms 0B"),
        ("a primary 9, b replica 9, b fail", "primary a term 1 · b unknown down"),
        // Failover, and the old primary's return in each of its guises.
        ("a primary 9 tl=1, b replica 9, a fail, b primary 12 tl=2", "primary b term 2 · a unknown down"),
        ("a primary 9 tl=1, a fail, b primary 12 tl=2, a primary 15 tl=1", "primary b term 2 · a unknown up"),
        (
            "a primary 9 tl=1, a fail, b primary 12 tl=2, b fail, a primary 15 tl=1",
            "primary none term 2 · a unknown up · b unknown down",
        ),
        (
            "a primary 9 tl=1, a fail, b primary 12 tl=2, a replica 12 tl=2",
            "primary b term 2 · a replica up lag 0ms 0B",
        ),
        // Two writers of one timeline: the present one keeps it; nobody, if there was none.
        ("a primary 9 tl=1, b primary 9 tl=1", "primary a term 1 · b unknown up"),
        // A restart of the same primary is another term: positions after a crash are asked anew.
        ("a primary 9 start=x, a primary 9 start=y, b replica 9", "primary a term 2 · b replica up lag 0ms 0B"),
        // Another history: other timeline, other system, or ahead of what the primary flushed later.
        ("a primary 9 tl=2, b replica 9 tl=1", "primary a term 1 · b unknown up"),
        ("a primary 9, b replica 9 system=8", "primary a term 1 · b unknown up"),
        ("b replica 20, a primary 9, a primary 30", "primary a term 1 · b unknown up"),
        ("b replica 20, a primary 9, b replica 9 start=z", "primary a term 1 · b replica up lag 0ms 0B"),
    ];
    for (script, expected) in cases {
        check(script, expected);
    }
}

#[test]
fn a_reload_keeps_what_stays() {
    let mut state = State::new(1);
    let app = || database("app", vec![node(0, "a"), node(1, "b")]);
    let started = |changes: super::state::Changes| -> Vec<String> {
        changes.started.into_iter().map(|(host, login, _)| format!("{} {}", host.name, login.dbname)).collect()
    };
    assert_eq!(started(state.reload(config(vec![app()], vec![]), Duration::ZERO)), ["a app", "b app"]);
    let mut clock = 0;
    assert_eq!(step(&mut state, &mut clock, "a primary 9"), Summary::SomeUnprobed);
    assert_eq!(step(&mut state, &mut clock, "b replica 9"), Summary::AllProbed);
    let view = state.view(0).unwrap();
    // Another database comes first, ids move, node c is new: a and b keep their state, the handle stays good.
    let moved = database("app", vec![node(7, "a"), node(8, "b"), node(9, "c")]);
    let changes = state.reload(config(vec![database("web", vec![node(7, "a")]), moved], vec![]), Duration::ZERO);
    // The login of `a` is now that of the database named first.
    assert_eq!(started(changes), ["a web", "c app"]);
    assert_eq!(say(&view.load()), "primary a term 1 · b replica up lag 0ms 0B · c unknown unknown");
    assert_eq!(view.load().nodes[0].id, NodeId(7));
    assert_eq!(say(&state.view(0).unwrap().load()), "primary a term 1");
    assert!(state.host_of(NodeId(8)).is_some_and(|(host, _)| host.name == "b"));
    // And without b.
    let last = config(vec![database("app", vec![node(0, "a")])], vec![]);
    assert_eq!(started(state.reload(last, Duration::ZERO)), ["a app"]);
    assert_eq!(say(&view.load()), "primary a term 1");
    assert!(state.view(1).is_none() && state.host_of(NodeId(8)).is_none());
}

#[test]
fn the_probe_logs_in_as_somebody_it_can_be() {
    let password = || Secret::Password("pw".to_owned());
    let verifier = || Secret::Verifier("SCRAM-SHA-256$1:a$b:c".to_owned());
    let server_user = Database {
        server_user: Some("proxy".to_owned()),
        dbname: Some("real".to_owned()),
        ..database("app", vec![node(0, "a")])
    };
    let plain = || database("app", vec![node(0, "a")]);
    let cases = [
        (server_user, vec![user("u", password(), None)], "proxy None real"),
        (plain(), vec![user("v", verifier(), None), user("u", password(), None)], "u Some(\"pw\") app"),
        (plain(), vec![user("x", password(), Some(&["web"])), user("v", verifier(), None)], "v None app"),
        (plain(), vec![], "postgres None app"),
        (database("*", vec![node(0, "a")]), vec![], "postgres None postgres"),
    ];
    let probe = |config| {
        let changes = State::new(1).reload(std::sync::Arc::new(config), Duration::ZERO);
        let (_, login, _) = &changes.started[0];
        format!("{} {:?} {}", login.user, login.password, login.dbname)
    };
    for (database, users, expected) in cases {
        assert_eq!(probe((*config(vec![database], users)).clone()), expected);
    }
    let mut asked = (*config(vec![plain()], vec![user("u", password(), None)])).clone();
    (asked.auth.user, asked.auth.password) = (Some("asker".to_owned()), Some("geheim".to_owned()));
    assert_eq!(probe(asked), "asker Some(\"geheim\") app");
}
