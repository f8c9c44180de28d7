//! Somebody between pgsluice and the servers, with a TLS channel of its own to each: found out by channel binding.

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use pgsluice::tls::{ClientMode, TowardsClients};
use rustls::{ClientConnection, ServerConnection, StreamOwned, pki_types::ServerName};

use super::{papers::Hello, tls, towards_servers};
use crate::{
    Case,
    backend::Detail,
    cases,
    certs::Pair,
    client::Login,
    frontend,
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("tls", Pgsluice: whoever_stands_between_is_found_out))
}

/// What the one in between does with new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// Shows the server's own certificate: it has stolen the key, and only listens.
    Unnoticed,
    /// Shows another certificate.
    Listens,
    /// And takes SCRAM-SHA-256-PLUS out of the server's offer.
    HidesTheOffer,
}

/// Listens on a port of its own and passes everything on to `server`.
struct Between {
    port: u16,
    deed: Arc<Mutex<Deed>>,
    ended: Arc<AtomicBool>,
}

impl Drop for Between {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        // Wakes it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn stand_between(world: &World, server: u16) -> Between {
    let papers = world.papers();
    let show = |pair: &Pair| {
        let read = |path| fs::read(path).expect("read");
        let own = TowardsClients::new(ClientMode::Require, &read(&pair.cert), &read(&pair.key), None);
        own.expect("papers").settings()
    };
    let (stolen, own, theirs) = (show(&papers.server), show(&papers.elsewhere), Hello::default().config(papers));
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("an address").port();
    let (deed, ended) = (Arc::new(Mutex::new(Deed::Unnoticed)), Arc::new(AtomicBool::new(false)));
    let (present, over) = (Arc::clone(&deed), Arc::clone(&ended));
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            if over.load(SeqCst) {
                return;
            }
            let deed = *present.lock().expect("the deed");
            let shown = Arc::clone(if deed == Deed::Unnoticed { &stolen } else { &own });
            let (theirs, over) = (Arc::clone(&theirs), Arc::clone(&over));
            thread::spawn(move || {
                // Whatever goes wrong ends the connection, as it would for anybody.
                let _ = relay(near, server, &shown, &theirs, deed, &over);
            });
        }
    });
    Between { port, deed, ended }
}

fn relay(
    mut near: TcpStream,
    server: u16,
    own: &Arc<rustls::ServerConfig>,
    theirs: &Arc<rustls::ClientConfig>,
    deed: Deed,
    over: &AtomicBool,
) -> io::Result<()> {
    let mut far = TcpStream::connect(("127.0.0.1", server))?;
    let (mut request, mut answer) = ([0; 8], [0; 1]);
    near.read_exact(&mut request)?;
    assert_eq!(request.as_slice(), frontend::ssl_request());
    far.write_all(&request)?;
    far.read_exact(&mut answer)?;
    near.write_all(&answer)?;
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut far_state = ClientConnection::new(Arc::clone(theirs), name).map_err(io::Error::other)?;
    let mut near_state = ServerConnection::new(Arc::clone(own)).map_err(io::Error::other)?;
    // Both handshakes take the time they take: reads give up early only after them.
    near_state.complete_io(&mut near)?;
    far_state.complete_io(&mut far)?;
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_millis(2)))?;
    }
    let (mut near, mut far) = (StreamOwned::new(near_state, near), StreamOwned::new(far_state, far));
    let mut buf = [0; 16_384];
    while !over.load(SeqCst) {
        match near.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) => far.write_all(&buf[..n])?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        match far.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) if deed == Deed::HidesTheOffer => near.write_all(&without_plus(&buf[..n]))?,
            Ok(n) => near.write_all(&buf[..n])?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// AuthenticationSASL with one mechanism less; anything else as it is.
fn without_plus(bytes: &[u8]) -> Vec<u8> {
    let plus: &[u8] = b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0";
    match bytes.strip_prefix(plus) {
        Some(rest) => [b"R\0\0\0\x17\0\0\0\x0a", rest].concat(),
        None => bytes.to_vec(),
    }
}

fn whoever_stands_between_is_found_out(world: &World) {
    let server = world.tls_cluster().primary().port();
    for (deed, words) in [
        (Deed::Listens, "SCRAM channel binding check failed"),
        (Deed::HidesTheOffer, "SCRAM channel binding negotiation error"),
    ] {
        let between = stand_between(world, server);
        // Nothing is verified, so the certificate of whoever is there is taken.
        let top = tls(&[towards_servers("require", None)]);
        let node = format!("{{ host: 127.0.0.1, port: {} }}", between.port);
        let tapped =
            format!("  tapped: {{ dbname: app, nodes: [{node}], pool: {{ size: 2, checkout_timeout: 1s }} }}\n");
        let proxy = world.start_proxy(&Setup::default().top(&top).databases(&tapped), world.tls_cluster());
        let login = || proxy.login_as(&Login::default().database("tapped"));
        let mut first = login();
        first.query("begin");
        assert_eq!(first.value("select 1"), "1", "nobody can tell");
        *between.deed.lock().expect("the deed") = deed;
        // The first connection is taken, so this is one of today. The node is up: the probe has its connection from before.
        let refused = login().query("select 1").render(Detail::Full);
        assert!(refused.contains(words), "{deed:?}: {refused}");
        assert!(!proxy.log().contains("node does not answer"), "{}", proxy.log());
        // And the probe, once it must come anew.
        let probes =
            "select count(pg_terminate_backend(pid)) > 0 from pg_stat_activity where application_name = 'pgsluice'";
        assert_eq!(world.tls_cluster().primary().psql(probes).expect("terminate"), "t");
        eventually(words, || {
            proxy.log().lines().any(|line| line.contains("node does not answer") && line.contains(words))
        });
    }
}
