//! The real tasks against a scripted server on a loopback port.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

use super::*;
use crate::{base::Clock, cluster::Cluster, route::Health};

/// A server that is a primary whose position grows with each question.
#[derive(Default)]
struct Fake {
    asked: AtomicU64,
    connections: AtomicU64,
    /// Ends the connection that is open.
    cut: Notify,
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

/// RowDescription and DataRow of text columns, CommandComplete, ReadyForQuery.
fn rows(columns: &[(&str, &str)]) -> Vec<u8> {
    let count = u16::try_from(columns.len()).unwrap().to_be_bytes();
    let (mut names, mut values) = (count.to_vec(), count.to_vec());
    for (name, value) in columns {
        names.extend([name.as_bytes(), &[0; 7], &25u32.to_be_bytes(), &[0xff; 6], &[0; 2]].concat());
        let length = if *value == "NULL" { u32::MAX } else { u32::try_from(value.len()).unwrap() };
        values.extend(length.to_be_bytes());
        values.extend(if *value == "NULL" { b"" } else { value.as_bytes() });
    }
    [message(b'T', &names), message(b'D', &values), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()
}

async fn talk(fake: &Fake, stream: &mut TcpStream) -> std::io::Result<()> {
    let length = stream.read_u32().await?;
    stream.read_exact(&mut vec![0; length as usize - 4]).await?;
    stream.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat()).await?;
    loop {
        stream.read_u8().await?;
        let length = stream.read_u32().await?;
        let mut text = vec![0; length as usize - 4];
        stream.read_exact(&mut text).await?;
        let answer = if text.starts_with(b"SELECT pg_catalog.has_function_privilege") {
            rows(&[("system", "f"), ("kept", "f")])
        } else {
            let lsn = format!("0/{:X}", 0x1000 + fake.asked.fetch_add(1, Relaxed));
            rows(&[
                ("in_recovery", "f"),
                ("flush", &lsn),
                ("insert", &lsn),
                ("replay", "NULL"),
                ("walfile", "000000020000000000000001"),
                ("received_tli", "NULL"),
                ("kept_tli", "NULL"),
                ("started", "2026-11-30 12:00:00+00"),
                ("synchronous_commit", "on"),
                ("wal_segment", "16777216"),
            ])
        };
        stream.write_all(&answer).await?;
    }
}

async fn serve(fake: Arc<Fake>, listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        fake.connections.fetch_add(1, Relaxed);
        tokio::select! {
            _ = talk(&fake, &mut stream) => {}
            () = fake.cut.notified() => {}
        }
    }
}

async fn start() -> (Arc<Fake>, Cluster, Clock) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut node = node(5, "127.0.0.1");
    node.port = listener.local_addr().unwrap().port();
    let fake = Arc::new(Fake::default());
    tokio::spawn(serve(Arc::clone(&fake), listener));
    let clock = Clock::start();
    let cluster = Cluster::start(
        config(vec![database("app", vec![node])], vec![]),
        clock,
        std::sync::Arc::new(crate::sql::Functions::built_in().unwrap()),
    );
    timeout(Duration::from_secs(20), cluster.ready()).await.unwrap();
    (fake, cluster, clock)
}

/// Waits for a view that fits, seeing every view on the way.
async fn until(cluster: &Cluster, mut fits: impl FnMut(&ClusterView) -> bool) {
    let mut published = cluster.published();
    let look = async {
        loop {
            published.borrow_and_update();
            if fits(&cluster.view(0).unwrap().load()) {
                return;
            }
            published.changed().await.unwrap();
        }
    };
    timeout(Duration::from_secs(20), look).await.unwrap();
}

#[tokio::test]
async fn one_lost_connection_is_not_a_lost_server() {
    let (fake, cluster, _) = start().await;
    let first = cluster.view(0).unwrap().load().primary().unwrap().clone();
    assert_eq!((first.health, first.epoch, first.id), (Health::Up, 1, NodeId(5)));
    fake.cut.notify_one();
    until(&cluster, |view| {
        let primary = view.primary().expect("the primary stays while its probe reconnects");
        assert_eq!(primary.health, Health::Up);
        primary.epoch == 2
    })
    .await;
    assert_eq!(fake.connections.load(Relaxed), 2);
    cluster.shutdown();
}

#[tokio::test]
async fn doubt_and_haste_bring_samples_early() {
    let (fake, cluster, clock) = start().await;
    // At the idle pace 20 samples would take 2 s.
    let (begun, asked) = (clock.now(), fake.asked.load(Relaxed));
    cluster.hasten(begun + Duration::from_secs(30));
    until(&cluster, |_| fake.asked.load(Relaxed) >= asked + 20).await;
    assert!(clock.now() - begun < Duration::from_millis(1500), "{:?}", clock.now() - begun);
    let before = cluster.view(0).unwrap().load().primary().unwrap().position.unwrap();
    cluster.suspect(NodeId(5));
    cluster.suspect(NodeId(99));
    until(&cluster, |view| view.primary().unwrap().suspicion == crate::route::Suspicion::Suspect).await;
    until(&cluster, |view| {
        let primary = view.primary().unwrap();
        primary.suspicion == crate::route::Suspicion::Clear && primary.position.unwrap().lsn > before.lsn
    })
    .await;
    cluster.shutdown();
}
