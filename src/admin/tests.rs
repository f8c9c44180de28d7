//! The API over a real socket.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    time::timeout,
};

use super::*;
use crate::{
    base::{Generation, Lsn, NodeId},
    route::{Health, NodeLoad, NodeView, Position, Role, Suspicion},
};

fn view(role: Role, health: Health) -> Arc<ClusterView> {
    let node = NodeView {
        id: NodeId(3),
        name: "n".into(),
        role,
        health,
        suspicion: Suspicion::Clear,
        position: Some(Position { lsn: Lsn(0x1_0000_0010), insert: Lsn(0), begun: Duration::ZERO }),
        lag_bytes: Some(5),
        lag_time: Some(Duration::from_millis(7)),
        weight: 1,
        tags: Arc::new(["reports".to_owned()]),
        epoch: 4,
        load: Arc::new(NodeLoad::new(1)),
    };
    let primary = (role == Role::Primary).then_some(0);
    Arc::new(ClusterView { generation: Generation(2), nodes: Box::new([node]), primary, term: 6, wal_segment: 0 })
}

/// Sends each `METHOD path [token]` on a connection of its own; gives `status body` per request.
async fn ask(state: AdminState, requests: &[&str]) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, state, async {
        let _ = stopped.await;
    }));
    let mut answers = Vec::new();
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        let token = words.get(2).map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let text = format!("{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}\r\n", words[0], words[1]);
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(Duration::from_secs(10), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        answers.push(format!("{} {body}", head.split(' ').nth(1).unwrap()));
    }
    stop.send(()).unwrap();
    timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener outlived the shutdown");
    answers
}

/// A database with one node.
type Listed<'a> = (&'a str, Role, Health);

fn state(views: &[Listed<'_>], tokens: &[&str]) -> AdminState {
    let views: Views = views.iter().map(|&(name, role, health)| (name.into(), view(role, health))).collect();
    let tokens: Arc<[String]> = tokens.iter().map(|&token| token.to_owned()).collect();
    let fine = AtomicBool::new(true);
    AdminState {
        views: Arc::new(move || views.clone()),
        metrics: Arc::new(|| Ok("pgsluice_node_up 1\n".to_owned())),
        reload: Arc::new(move || {
            // Good the first time, bad the second.
            if fine.swap(false, Ordering::Relaxed) { Ok(()) } else { Err("pgsluice.yaml:3:1: unknown key".to_owned()) }
        }),
        looked: Arc::new(|| Box::pin(std::future::ready(()))),
        tokens: Arc::new(move || Arc::clone(&tokens)),
    }
}

#[tokio::test]
async fn ready_means_that_every_database_is_served() {
    let down = Health::Down { since: Duration::ZERO };
    let cases: [(&[Listed], &str); 6] = [
        (&[("app", Role::Primary, Health::Up)], "200 ready\n"),
        (&[("app", Role::Replica, Health::Up)], "200 ready\n"),
        (&[("app", Role::Replica, down)], "503 database app: neither a primary nor a replica answers\n"),
        (&[("app", Role::Unknown, Health::Up)], "503 database app: neither a primary nor a replica answers\n"),
        (&[("app", Role::Primary, Health::Unknown)], "503 database app: neither a primary nor a replica answers\n"),
        (
            &[("app", Role::Primary, Health::Up), ("web", Role::Replica, down)],
            "503 database web: neither a primary nor a replica answers\n",
        ),
    ];
    for (views, expected) in cases {
        assert_eq!(ask(state(views, &["secret"]), &["GET /readyz"]).await, [expected]);
    }
}

#[tokio::test]
async fn tokens_guard_what_is_not_a_probe() {
    let requests = [
        "GET /metrics",
        "GET /healthz",
        "GET /version",
        "GET /nodes wrong",
        "POST /reload",
        "POST /reload secret",
        "POST /reload secret",
        "GET /reload secret",
        "GET /nowhere secret",
    ];
    let needed = "401 a bearer token of admin.tokens is needed\n";
    let answers = ask(state(&[("app", Role::Primary, Health::Up)], &["secret"]), &requests).await;
    assert_eq!(
        answers,
        [
            "200 pgsluice_node_up 1\n",
            "200 ok\n",
            needed,
            needed,
            needed,
            "200 reloaded\n",
            "400 pgsluice.yaml:3:1: unknown key",
            "405 ",
            "404 ",
        ]
    );
}

#[tokio::test]
async fn nodes_are_told_as_json() {
    let answers = ask(state(&[("app", Role::Replica, Health::Up)], &[]), &["GET /nodes", "GET /version"]).await;
    let json: serde_json::Value = serde_json::from_str(answers[0].strip_prefix("200 ").unwrap()).unwrap();
    let expected = serde_json::json!({ "databases": [{
        "database": "app", "generation": 2, "term": 6, "primary": null,
        "nodes": [{
            "id": 3, "name": "n", "role": "replica", "health": "up", "suspect": false, "lsn": "1/10", "lag_ms": 7,
            "lag_bytes": 5, "weight": 1, "tags": ["reports"], "epoch": 4, "in_flight": 0, "failures": 0,
        }],
    }] });
    assert_eq!(json, expected);
    assert_eq!(answers[1], format!("200 {{\"version\":\"{}\"}}", env!("CARGO_PKG_VERSION")));
}
