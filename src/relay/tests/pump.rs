//! The pump between two real socket pairs: who is read when, and how each end of a connection ends the exchange.

use std::{future::poll_fn, rc::Rc, sync::Arc, task::Poll, time::Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::words::{decode, encode, learnt, message, owed};
use crate::{
    net::{Address, Stream},
    pool::{BackendKey, CancelTarget, Params, Prepared, Server},
    relay::{Attempt, Buffers, Client, ClientGone, Exchange, Feed, Outcome, Outgoing, Until, Violation},
    wire::WireError,
};

/// More than the sockets and all buffers between them take.
const PLENTY: usize = 64 << 20;
/// What the proxy and both pairs of sockets may hold while nobody reads: socket buffers are a few hundred KiB.
const BOUND: usize = 4 << 20;

/// A client and a server of the proxy's, and the far ends of their sockets.
pub(super) struct Wires {
    pub(super) client: Client,
    pub(super) server: Server,
    feed: Feed,
    pub(super) outgoing: Outgoing,
    buffers: Rc<Buffers>,
    closing_known: bool,
    /// The program that uses the client.
    program: UnixStream,
    /// PostgreSQL.
    backend: UnixStream,
}

impl Wires {
    pub(super) fn new(owes: &str) -> Self {
        let (near, program) = UnixStream::pair().unwrap();
        let buffers = Rc::new(Buffers::default());
        let client = Client::new(Stream::Unix(near), Rc::clone(&buffers));
        let (near, backend) = UnixStream::pair().unwrap();
        let now = Instant::now();
        let key = BackendKey { pid: 1, secret: Box::new([0; 4]) };
        let server = Server {
            stream: Stream::Unix(near),
            home: 0,
            tail: Vec::new(),
            params: Params::default(),
            prepared: Prepared::new(1),
            unnamed: None,
            flushes: None,
            temporary: false,
            residue: None,
            borrower: None,
            strange_sequences: false,
            own_sequences: false,
            code: false,
            stale_plans: false,
            target: Arc::new(CancelTarget { address: Address::new("nowhere", 0), tls: Default::default(), key }),
            epoch: 0,
            born: now,
            idle_since: now,
            uses: 0,
        };
        let mut feed = Feed::default();
        owes.split_whitespace().for_each(|word| feed.queue.push(owed(word)));
        let outgoing = Outgoing::default();
        Self { client, server, feed, outgoing, buffers, closing_known: false, program, backend }
    }

    fn exchange(&mut self) -> Exchange<'_> {
        Exchange {
            client: &mut self.client,
            server: &mut self.server,
            feed: &mut self.feed,
            outgoing: &mut self.outgoing,
            buffers: &self.buffers,
            cap: 1 << 30,
            closing_known: self.closing_known,
        }
    }

    /// Pumps until it ends.
    pub(super) async fn pump(&mut self, until: Until) -> Outcome {
        let mut exchange = self.exchange();
        poll_fn(|cx| exchange.poll(cx, until)).await
    }

    /// Pumps once; `None`: it waits.
    async fn step(&mut self, until: Until) -> Option<Outcome> {
        let mut exchange = self.exchange();
        poll_fn(|cx| {
            Poll::Ready(match exchange.poll(cx, until) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            })
        })
        .await
    }

    /// Writes at one end as long as the pump takes it, and says how much that was.
    async fn stuff(&mut self, until: Until, end: impl Fn(&Self) -> &UnixStream, bytes: &[u8]) -> usize {
        let (mut written, mut idle) = (0, 0);
        while idle < 3 {
            match end(self).try_write(&bytes[written..]) {
                Ok(n @ 1..) => (written, idle) = (written + n, 0),
                Ok(0) | Err(_) => idle += 1,
            }
            let outcome = self.step(until).await;
            assert!(outcome.is_none(), "{outcome:?}");
            tokio::task::yield_now().await;
        }
        written
    }

    /// What the program can read now.
    async fn heard(&mut self) -> String {
        self.client.flush().await.unwrap();
        decode(&available(&mut self.program).await)
    }

    /// What PostgreSQL can read now.
    async fn sent(&mut self) -> String {
        decode(&available(&mut self.backend).await)
    }
}

async fn available(stream: &mut UnixStream) -> Vec<u8> {
    // The reactor looks.
    tokio::task::yield_now().await;
    let mut bytes = vec![0; 1 << 20];
    let n = stream.try_read(&mut bytes).unwrap_or(0);
    bytes.truncate(n);
    bytes
}

async fn say(stream: &mut UnixStream, line: &str) {
    stream.write_all(&encode(line)).await.unwrap();
    // So that the reactor has seen it, at the other end too.
    tokio::task::yield_now().await;
}

/// Runs `talk` in front of the pump, and gives both results.
async fn with<T>(wires: &mut Wires, until: Until, talk: impl AsyncFnOnce(UnixStream, UnixStream) -> T) -> (Outcome, T) {
    let (spare, _) = UnixStream::pair().unwrap();
    let (other, _) = UnixStream::pair().unwrap();
    let program = std::mem::replace(&mut wires.program, spare);
    let backend = std::mem::replace(&mut wires.backend, other);
    let ends = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        let pump = async {
            let outcome = wires.pump(until).await;
            // What the client has not taken yet is the session's to send.
            wires.client.flush().await.unwrap();
            outcome
        };
        tokio::join!(pump, talk(program, backend))
    });
    ends.await.expect("nobody moves")
}

#[tokio::test]
async fn a_request_and_its_reply() {
    let mut wires = Wires::new("query");
    wires.outgoing.bytes = encode("Q:select");
    let (outcome, (request, reply)) = with(&mut wires, Until::Settled, async |mut program, mut backend| {
        let mut request = vec![0; encode("Q:select").len()];
        backend.read_exact(&mut request).await.unwrap();
        backend.write_all(&encode("T:x D:1 C:SELECT Z:I")).await.unwrap();
        let mut reply = vec![0; encode("T:x D:1 C:SELECT Z:I").len()];
        program.read_exact(&mut reply).await.unwrap();
        (decode(&request), decode(&reply))
    })
    .await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    assert_eq!((&*request, &*reply), ("Q:select", "T:x D:1 C:SELECT Z:I"));
    assert!(wires.outgoing.is_done() && wires.server.tail.is_empty());
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_server() {
    let mut wires = Wires::new("query");
    let row = message(b'D', &[b'x'; 8192]);
    let rows = PLENTY / row.len();
    let stream: Vec<u8> = [row.repeat(rows), encode("C:SELECT Z:I")].concat();
    // Nobody reads the program's end: the backend writes as long as it can.
    let written = wires.stuff(Until::Settled, |wires| &wires.backend, &stream).await;
    assert!(written < BOUND, "{written} bytes taken from the server");
    assert!(wires.client.out.len() < 1 << 20, "{} held for the client", wires.client.out.len());
    // As soon as it reads, all of it comes, in order.
    let (outcome, heard) = with(&mut wires, Until::Settled, async |mut program, mut backend| {
        let write = async { backend.write_all(&stream[written..]).await.unwrap() };
        let read = async {
            let mut heard = vec![0; stream.len()];
            program.read_exact(&mut heard).await.unwrap();
            heard
        };
        tokio::join!(write, read).1
    })
    .await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    assert!(heard == stream, "{} bytes", heard.len());
}

#[tokio::test]
async fn a_server_that_does_not_read_stops_the_client() {
    let mut wires = Wires::new("query");
    let long = message(b'Q', &vec![b'x'; PLENTY]);
    wires.outgoing.stream = long.len();
    let written = wires.stuff(Until::Settled, |wires| &wires.program, &long).await;
    assert!(written < BOUND, "{written} bytes taken from the client");
    assert!(wires.outgoing.bytes.len() < 1 << 20 && wires.client.pending().len() < 1 << 20);
    let (outcome, arrived) = with(&mut wires, Until::Sent, async |mut program, mut backend| {
        let write = async { program.write_all(&long[written..]).await.unwrap() };
        let read = async {
            let mut arrived = vec![0; long.len()];
            backend.read_exact(&mut arrived).await.unwrap();
            arrived
        };
        tokio::join!(write, read).1
    })
    .await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    assert!(arrived == long);
}

#[tokio::test]
async fn a_client_is_read_ahead_only_a_little() {
    let mut wires = Wires::new("query");
    let more = message(b'Q', &vec![b'x'; PLENTY]);
    wires.stuff(Until::Settled, |wires| &wires.program, &more).await;
    assert!(wires.client.pending().len() <= 64 * 1024, "{} read ahead", wires.client.pending().len());
}

#[tokio::test]
async fn a_client_that_half_closes_is_told_once_and_still_gets_its_reply() {
    let mut wires = Wires::new("query");
    wires.program.shutdown().await.unwrap();
    tokio::task::yield_now().await;
    assert!(matches!(wires.pump(Until::Settled).await, Outcome::ClientClosing));
    wires.closing_known = true;
    assert!(wires.step(Until::Settled).await.is_none());
    say(&mut wires.backend, "C:INSERT Z:I").await;
    assert!(matches!(wires.pump(Until::Settled).await, Outcome::Done));
    assert_eq!(wires.heard().await, "C:INSERT Z:I");
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_its_request_is_gone() {
    for (owes, stream, copies) in [("query", 100, false), ("query", 0, true)] {
        let mut wires = Wires::new(owes);
        wires.outgoing.stream = stream;
        wires.feed.copy_in = copies;
        say(&mut wires.program, "d:1").await;
        wires.program.shutdown().await.unwrap();
        let outcome = wires.pump(Until::Settled).await;
        assert!(matches!(outcome, Outcome::ClientGone(ClientGone::Eof)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_nothing_is_owed_is_gone() {
    let mut wires = Wires::new("");
    say(&mut wires.backend, "A:news").await;
    wires.program.shutdown().await.unwrap();
    let outcome = wires.pump(Until::ClientSpeaks { more_than: 0 }).await;
    assert!(matches!(outcome, Outcome::ClientGone(ClientGone::Eof)), "{outcome:?}");
}

#[tokio::test]
async fn news_reach_a_client_that_waits() {
    let mut wires = Wires::new("");
    say(&mut wires.backend, "A:news").await;
    let until = Until::ClientSpeaks { more_than: 0 };
    let (outcome, news) = with(&mut wires, until, async |mut program, backend| {
        let mut news = vec![0; encode("A:news").len()];
        program.read_exact(&mut news).await.unwrap();
        program.write_all(b"Q").await.unwrap();
        drop(backend);
        decode(&news)
    })
    .await;
    // The server went at the same moment; either is true.
    assert!(matches!(outcome, Outcome::Done | Outcome::ServerLost(None)), "{outcome:?}");
    assert_eq!(news, "A:news");
}

#[tokio::test]
async fn a_server_that_ends_says_its_last_words_first() {
    let mut wires = Wires::new("query");
    say(&mut wires.backend, "T:x D:1 F:57P01").await;
    wires.backend.shutdown().await.unwrap();
    let outcome = wires.pump(Until::Settled).await;
    assert!(matches!(outcome, Outcome::ServerLost(None)), "{outcome:?}");
    assert_eq!(wires.heard().await, "T:x D:1");
    assert_eq!(learnt(&wires.feed), "delivered fatal=57P01 owed=1");
}

#[tokio::test]
async fn last_words_are_read_though_the_request_cannot_be_sent() {
    let mut wires = Wires::new("query");
    wires.outgoing.bytes = encode("Q:select");
    say(&mut wires.backend, "F:57P01").await;
    let (spare, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut wires.backend, spare));
    tokio::task::yield_now().await;
    let outcome = wires.pump(Until::Settled).await;
    assert!(matches!(outcome, Outcome::ServerLost(_)), "{outcome:?}");
    assert_eq!(learnt(&wires.feed), "fatal=57P01 owed=1");
    assert_eq!(wires.heard().await, "");
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_known_to() {
    let mut wires = Wires::new("parse sync");
    say(&mut wires.backend, "Z:I").await;
    let outcome = wires.pump(Until::Settled).await;
    let Outcome::ServerBroke(Violation::Unexpected { tag: b'Z', .. }) = outcome else { panic!("{outcome:?}") };
}

#[tokio::test]
async fn syncs_travel_inside_a_copy_and_flushes_do_not() {
    let mut wires = Wires::new("query");
    wires.feed.copy_in = true;
    say(&mut wires.program, "d:1 S H d:2 S c Q:next").await;
    say(&mut wires.backend, "N:x").await;
    assert!(wires.step(Until::Settled).await.is_none());
    // The Flush behind CopyDone is ours.
    assert_eq!(wires.sent().await, "d:1 S d:2 S c H");
    assert_eq!(decode(wires.client.pending()), "Q:next");
    assert!(!wires.feed.copy_in);
    say(&mut wires.backend, "C:COPY Z:I").await;
    assert!(matches!(wires.pump(Until::Settled).await, Outcome::Done));
    assert_eq!(wires.heard().await, "N:x C:COPY Z:I");
}

#[tokio::test]
async fn copy_data_in_pieces_arrives_whole() {
    let mut wires = Wires::new("query");
    wires.feed.copy_in = true;
    let bytes = encode("d:abcdef S f:no");
    for byte in bytes {
        wires.program.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
        assert!(wires.step(Until::Settled).await.is_none());
    }
    assert_eq!(wires.sent().await, "d:abcdef S f:no H");
}

#[tokio::test]
async fn anything_else_inside_a_copy_waits_and_the_copy_is_failed() {
    let ours = b"SERROR\0VERROR\0C57014\0MCOPY from stdin failed: pgsluice: unexpected message\0\0";
    let table = [(encode("E:22P04"), "E:22P04 Z:I", false), (message(b'E', ours), "E:08P01", true)];
    for (error, heard, lost) in table {
        let mut wires = Wires::new("query");
        wires.feed.copy_in = true;
        say(&mut wires.program, "d:1 Q:select").await;
        assert!(wires.step(Until::Settled).await.is_none());
        assert!(!wires.feed.copy_in && wires.outgoing.is_done());
        assert_eq!(wires.sent().await, "d:1 f:pgsluice: unexpected message\0");
        assert_eq!(decode(wires.client.pending()), "Q:select");
        wires.backend.write_all(&[error, encode("Z:I")].concat()).await.unwrap();
        let outcome = wires.pump(Until::Settled).await;
        assert_eq!(matches!(outcome, Outcome::ClientBroke(WireError::LostPlace)), lost, "{outcome:?}");
        assert_eq!(wires.heard().await, heard);
    }
}

/// A server in COPY ignores them, one whose COPY has failed does not; how many it has answered shows before CloseComplete.
#[tokio::test]
async fn syncs_inside_a_copy_are_answered_if_it_has_failed() {
    for (owes, answers, heard, group_over) in [
        ("query", "C:COPY Z:I", "C:COPY Z:I", false),
        ("query", "E:22P04 Z:I 3", "E:22P04 Z:I", false),
        ("query", "E:22P04 Z:I Z:I Z:I 3", "E:22P04 Z:I Z:I Z:I", false),
        ("execute", "C:COPY", "C:COPY", false),
        ("execute", "E:22P04 Z:I 3", "E:22P04", false),
        ("execute", "E:22P04 Z:I Z:I 3", "E:22P04 Z:I", true),
        ("execute", "E:22P04 Z:I Z:I Z:I 3", "E:22P04 Z:I Z:I", true),
    ] {
        let mut wires = Wires::new(owes);
        wires.feed.copy_in = true;
        say(&mut wires.program, "d:1 S S c").await;
        assert!(wires.step(Until::Settled).await.is_none());
        say(&mut wires.backend, answers).await;
        assert!(matches!(wires.pump(Until::Settled).await, Outcome::Done), "{owes}, {answers}");
        assert_eq!(wires.heard().await, heard, "{owes}, {answers}");
        let waits = owes == "execute" && answers.starts_with('E') && !group_over;
        assert_eq!((wires.feed.strays.group_over, wires.feed.skipping), (group_over, waits), "{owes}, {answers}");
    }
}

#[tokio::test]
async fn an_error_of_the_server_ends_a_copy() {
    let mut wires = Wires::new("query");
    say(&mut wires.backend, "G:x").await;
    assert!(wires.step(Until::Settled).await.is_none());
    say(&mut wires.program, "d:1").await;
    assert!(wires.step(Until::Settled).await.is_none());
    say(&mut wires.backend, "E:22P04 Z:I").await;
    assert!(matches!(wires.pump(Until::Settled).await, Outcome::Done));
    assert_eq!((&*wires.heard().await, &*wires.sent().await), ("G:x E:22P04 Z:I", "d:1"));
}

#[tokio::test]
async fn a_misrouted_attempt_leaves_nothing_with_the_client() {
    let mut wires = Wires::new("parse bind execute sync");
    wires.feed.attempt = Attempt::Repeatable;
    say(&mut wires.backend, "1 2").await;
    assert!(wires.step(Until::Settled).await.is_none());
    assert_eq!(available(&mut wires.program).await, b"", "held back");
    say(&mut wires.backend, "E:25006").await;
    assert!(matches!(wires.pump(Until::Settled).await, Outcome::Misrouted));
    assert_eq!((available(&mut wires.program).await.len(), decode(&wires.client.out)), (0, "1 2".to_owned()));
    wires.client.out.clear();
    wires.feed.give_up();
    assert!(wires.step(Until::Settled).await.is_none());
    say(&mut wires.backend, "Z:I").await;
    assert!(matches!(wires.pump(Until::Settled).await, Outcome::Done));
    assert_eq!((&*wires.heard().await, &*learnt(&wires.feed)), ("", "I"));
    assert!(wires.server.tail.is_empty());
}

#[tokio::test]
async fn an_attempt_that_says_much_is_not_held_for_ever() {
    let mut wires = Wires::new("query");
    wires.feed.attempt = Attempt::Repeatable;
    let notice = message(b'N', &[b'x'; 8192]);
    let notices = notice.repeat(PLENTY / notice.len());
    let written = wires.stuff(Until::Settled, |wires| &wires.backend, &notices).await;
    assert!(wires.client.out.len() < 1 << 20, "{} held", wires.client.out.len());
    assert!(written < BOUND, "{written} bytes taken from the server");
}

#[tokio::test]
async fn a_message_longer_than_the_worker_reads_at_once_is_read_whole() {
    // Descriptions are read whole, and this one is longer than the worker's buffer.
    let description = message(b'T', &[b'x'; 300 * 1024]);
    for attempt in [Attempt::Final, Attempt::Repeatable] {
        let mut wires = Wires::new("query");
        wires.feed.attempt = attempt;
        let expected = [description.clone(), encode("C:SELECT Z:I")].concat();
        let (outcome, heard) = with(&mut wires, Until::Settled, async |mut program, mut backend| {
            let write = async {
                backend.write_all(&description).await.unwrap();
                backend.write_all(&encode("C:SELECT Z:I")).await.unwrap();
            };
            let read = async {
                let mut heard = vec![0; expected.len()];
                program.read_exact(&mut heard).await.unwrap();
                heard
            };
            tokio::join!(write, read).1
        })
        .await;
        assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
        assert!(heard == expected, "{attempt:?}");
        assert!(wires.server.tail.is_empty());
    }
}

#[tokio::test]
async fn a_client_at_rest_owns_no_buffer() {
    let mut wires = Wires::new("");
    say(&mut wires.program, "Q:select").await;
    wires.client.fill().await.unwrap();
    assert_eq!(decode(wires.client.pending()), "Q:select");
    wires.client.say().extend_from_slice(b"x");
    wires.client.consume(3);
    wires.client.rest();
    assert_eq!(wires.client.pending().len(), encode("Q:select").len() - 3, "what is pending is kept");
    wires.client.consume(1000);
    wires.client.flush().await.unwrap();
    wires.client.rest();
    assert_eq!((wires.client.pending().len(), wires.client.out.capacity()), (0, 0));
}
