//! TLS over real sockets: backpressure, moving between reactors, silence, and servers that answer oddly.

use std::{future::poll_fn, io, sync::Arc, task::Poll, thread, time::Duration};

use rustls::{ClientConnection, ServerConfig, ServerConnection, pki_types::ServerName};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::*;
use crate::tls::{ClientMode, ServerMode, TowardsClients, TowardsServers, tests::certs};

const LONG: Duration = Duration::from_secs(20);

fn towards_clients() -> TowardsClients {
    let dir = tempfile::tempdir().unwrap();
    let ca = certs::authority(dir.path(), "ca");
    let pair = certs::server(dir.path(), "server", &ca, "DNS:localhost");
    let (cert, key) = (std::fs::read(pair.cert).unwrap(), std::fs::read(pair.key).unwrap());
    TowardsClients::new(ClientMode::Require, &cert, &key, None).unwrap()
}

fn towards_servers(mode: ServerMode) -> TowardsServers {
    TowardsServers::new(mode, None).unwrap()
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

async fn begin_near(socket: TcpStream) -> Stream {
    let name = ServerName::try_from("localhost").unwrap();
    let state = ClientConnection::new(towards_servers(ServerMode::Require).settings().unwrap(), name).unwrap();
    Stream::Tls(Box::new(Secure::begin(socket, state.into(), &[]).await.unwrap()))
}

/// Both ends of one encrypted connection.
async fn pair() -> (Stream, Stream) {
    encrypted(sockets().await).await
}

/// The same where the operating system takes a few KiB at once only.
pub(crate) async fn narrow_pair() -> (Stream, Stream) {
    let (near, far) = sockets().await;
    for socket in [&near, &far] {
        SockRef::from(socket).set_send_buffer_size(4096).unwrap();
        SockRef::from(socket).set_recv_buffer_size(4096).unwrap();
    }
    encrypted((near, far)).await
}

async fn encrypted((near, far): (TcpStream, TcpStream)) -> (Stream, Stream) {
    let towards = towards_clients();
    let far = Stream::from_tcp(far).unwrap();
    let (near, far) = tokio::join!(begin_near(near), far.accept_tls(&towards, &[]));
    (near, far.unwrap())
}

pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

pub(crate) async fn read_exactly(stream: &mut Stream, bytes: usize, room: usize) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), vec![0; room]);
    while all.len() < bytes {
        let n = timeout(LONG, stream.read(&mut buf)).await.expect("silence").unwrap();
        assert!(n > 0, "the end after {} bytes", all.len());
        all.extend_from_slice(&buf[..n]);
    }
    all
}

#[tokio::test]
async fn both_directions_at_once_whatever_the_room() {
    // 32: plaintext stays in rustls; 5,000: no multiple of a record; the last: more than is read at once.
    for (bytes, room) in [(100_000, 32), (3_000_000, 5_000), (9_000_000, 200_000)] {
        let (mut near, mut far) = pair().await;
        let sent = pattern(bytes);
        let there = async {
            near.write_all(&sent).await.unwrap();
            read_exactly(&mut near, bytes, room).await
        };
        let back = async {
            let got = read_exactly(&mut far, bytes, room).await;
            far.write_all(&got).await.unwrap();
            got
        };
        let (echoed, got) = tokio::join!(there, back);
        assert!(got == sent && echoed == sent, "{bytes} bytes with room for {room}");
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_the_writer_up() {
    let (mut near, mut far) = pair().await;
    let chunk = pattern(1 << 20);
    let mut taken = 0;
    let full = poll_fn(|cx| {
        loop {
            match near.poll_write(cx, &chunk) {
                Poll::Ready(Ok(n)) => taken += n,
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => return Poll::Ready(()),
            }
            assert!(taken < 1 << 30, "nothing holds it up");
        }
    });
    full.await;
    let (flushed, got) = tokio::join!(poll_fn(|cx| near.poll_flush(cx)), read_exactly(&mut far, taken, 65_536));
    flushed.unwrap();
    assert_eq!(got.len(), taken);
}

#[tokio::test]
async fn a_connection_moves_between_reactors_with_what_was_not_read_yet() {
    let (mut near, mut far) = pair().await;
    let sent = pattern(10_000);
    far.write_all(&sent).await.unwrap();
    let mut got = read_exactly(&mut near, 10, 10).await;
    let parked = near.park().unwrap();
    let moved = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut near = parked.unpark().unwrap();
            let rest = read_exactly(&mut near, 9_990, 4_096).await;
            near.write_all(b"thanks").await.unwrap();
            (near.park().unwrap(), rest)
        })
    });
    let (parked, rest) = tokio::task::spawn_blocking(move || moved.join().unwrap()).await.unwrap();
    got.extend(rest);
    assert_eq!(got, sent);
    assert_eq!(read_exactly(&mut far, 6, 100).await, b"thanks");
    let mut near = parked.unpark().unwrap();
    far.write_all(b"welcome back").await.unwrap();
    assert_eq!(read_exactly(&mut near, 12, 100).await, b"welcome back");
}

/// Waits until something has arrived on the socket beneath.
async fn arrived(stream: &mut Stream) {
    let Stream::Tls(secure) = stream else { panic!("not TLS") };
    timeout(LONG, secure.socket.readable()).await.expect("nothing arrives").unwrap();
}

/// A server of TLS 1.3 may send session tickets whenever it likes.
#[tokio::test]
async fn tickets_are_no_word_of_the_server() {
    let towards = towards_clients();
    let mut with_tickets = ServerConfig::clone(&towards.settings());
    with_tickets.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
    with_tickets.send_tls13_tickets = 4;
    let (near, far) = sockets().await;
    let far = far.into_std().unwrap();
    far.set_nonblocking(false).unwrap();
    let (say, said) = std::sync::mpsc::channel::<&'static str>();
    let server = thread::spawn(move || {
        let (mut socket, mut state) = (far, ServerConnection::new(Arc::new(with_tickets)).unwrap());
        // Up to the client's Finished; what the server would say then is kept back.
        while state.is_handshaking() {
            while state.wants_write() {
                state.write_tls(&mut socket).unwrap();
            }
            state.read_tls(&mut socket).unwrap();
            state.process_new_packets().unwrap();
        }
        assert!(state.wants_write(), "there are no tickets");
        for word in said {
            if !word.is_empty() {
                io::Write::write_all(&mut state.writer(), word.as_bytes()).unwrap();
            }
            while state.wants_write() {
                state.write_tls(&mut socket).unwrap();
            }
        }
    });
    let mut near = begin_near(near).await;
    assert!(!near.is_readable(), "nothing was said yet");
    say.send("").unwrap();
    arrived(&mut near).await;
    assert!(!near.is_readable(), "tickets only");
    say.send("Z").unwrap();
    arrived(&mut near).await;
    assert!(near.is_readable(), "it spoke");
    drop(say);
    server.join().unwrap();
    arrived(&mut near).await;
    assert!(near.is_readable(), "it ended");
}

#[tokio::test]
async fn an_end_is_an_end_with_goodbye_and_without() {
    for goodbye in [true, false] {
        let (mut near, mut far) = pair().await;
        assert!(!near.is_readable());
        far.write_all(b"last words").await.unwrap();
        if goodbye {
            far.shut_write();
        }
        drop(far);
        assert_eq!(read_exactly(&mut near, 10, 100).await, b"last words");
        let mut buf = [0; 16];
        assert_eq!(timeout(LONG, near.read(&mut buf)).await.unwrap().unwrap(), 0, "goodbye: {goodbye}");
        assert!(near.is_readable());
    }
}

#[tokio::test]
async fn what_is_not_tls_ends_the_handshake() {
    let towards = towards_clients();
    for hello in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x00\x05hello", &[0; 64]] {
        let (mut near, far) = sockets().await;
        near.write_all(hello).await.unwrap();
        let accepted = Stream::from_tcp(far).unwrap().accept_tls(&towards, &[]).await;
        assert_eq!(accepted.unwrap_err().kind(), io::ErrorKind::InvalidData, "{hello:?}");
    }
    let (near, far) = sockets().await;
    drop(near);
    let accepted = Stream::from_tcp(far).unwrap().accept_tls(&towards, &[]).await;
    assert_eq!(accepted.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

/// A server that answers the n-th connection's SSLRequest with the n-th answer and then listens.
async fn odd_server(answers: Vec<&'static [u8]>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 8];
                socket.read_exact(&mut request).await.unwrap();
                assert_eq!(request, *b"\0\0\0\x08\x04\xd2\x16\x2f");
                socket.write_all(answer).await.unwrap();
                let mut sink = [0; 1024];
                while socket.read(&mut sink).await.is_ok_and(|n| n > 0) && answer.len() == 1 {}
            });
        }
        std::future::pending::<()>().await;
    });
    address
}

#[tokio::test]
async fn answers_to_the_request_for_tls() {
    use ServerMode::{Prefer, Require};
    let ends = |outcome: Result<Stream, DialError>| match outcome {
        Ok(Stream::Tcp(_)) => "in the clear",
        Ok(_) => "over TLS",
        Err(DialError::NoTls) => "no TLS",
        Err(DialError::Answer) => "odd answer",
        Err(DialError::Tls(_)) => "TLS failed",
        Err(DialError::Io(_)) => "ended",
        Err(DialError::Deadline(_)) => "silence",
    };
    let table: [(ServerMode, Vec<&'static [u8]>, &str); 9] = [
        (Prefer, vec![b"N"], "in the clear"),
        (Require, vec![b"N"], "no TLS"),
        (Prefer, vec![b"NR\0\0\0\x08\0\0\0\0"], "odd answer"),
        // Bytes in the clear behind the S (CVE-2021-23222), at once or as the first record.
        (Require, vec![b"SR\0\0\0\x08\0\0\0\0"], "odd answer"),
        (Prefer, vec![b"SR\0\0\0\x08\0\0\0\0"], "odd answer"),
        (Require, vec![b"E"], "odd answer"),
        (Require, vec![b""], "silence"),
        (Require, vec![b"S"], "silence"),
        (Require, vec![b"X"], "odd answer"),
    ];
    for (mode, answers, expected) in table {
        let address = odd_server(answers.clone()).await;
        let dialled = address.dial(&towards_servers(mode), Duration::from_millis(300)).await;
        assert_eq!(ends(dialled), expected, "{mode:?} {answers:?}");
    }
}

#[tokio::test]
async fn prefer_tries_again_without() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 1024];
        assert_eq!(first.read(&mut bytes).await.unwrap(), 8);
        first.write_all(b"S").await.unwrap();
        assert!(first.read(&mut bytes).await.unwrap() > 8, "a hello");
        first.write_all(b"this is no TLS record").await.unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        second.write_all(b"in the clear").await.unwrap();
        second
    });
    let mut stream = address.dial(&towards_servers(ServerMode::Prefer), LONG).await.unwrap();
    assert!(matches!(stream, Stream::Tcp(_)));
    assert_eq!(read_exactly(&mut stream, 12, 100).await, b"in the clear");
    drop(server.await.unwrap());
}
