//! The reactors: one thread, one current_thread runtime each.

use std::{
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime::{Builder, LocalOptions},
    sync::mpsc,
};

use super::listen::{self, Door};
use crate::{
    net::{Parked, Stream},
    relay::Buffers,
    session::{Connected, Shared, Worker, serve},
    sql::{Caps, Classifier, Functions, Misroutes, ShapeKey},
};

/// Clients on their way to a worker; beyond this the acceptor waits.
const MAILBOX: usize = 1024;
/// Shapes each worker remembers.
const SHAPES: usize = 50_000;

/// What a worker is told.
pub(super) enum Letter {
    /// A client that another worker accepted.
    Client { socket: Parked, connected: Connected },
    /// Accept here; sent to the first worker.
    Listen(Door, Vec<Mailbox>),
    /// A CancelRequest for the session of this pid.
    Cancel(u32),
    /// Sessions end as soon as they are idle.
    Drain,
    /// Sessions end.
    Cut,
}

/// A client that was accepted.
pub(super) struct Arrival {
    pub stream: Stream,
    pub connected: Connected,
}

/// The way to one worker.
#[derive(Clone)]
pub(super) struct Mailbox {
    letters: mpsc::Sender<Letter>,
    clients: Arc<AtomicUsize>,
}

impl Mailbox {
    /// A mailbox and its other end.
    pub(super) fn new() -> (Self, Inbox) {
        let (letters, inbox) = mpsc::channel(MAILBOX);
        let clients = Arc::new(AtomicUsize::new(0));
        (Self { letters, clients: Arc::clone(&clients) }, Inbox { letters: inbox, clients })
    }

    /// Clients it has or will have.
    pub(super) fn load(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// One more client, served by its acceptor itself.
    pub(super) fn expect(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Hands a client over; waits while the worker's mailbox is full.
    pub(super) async fn hand(&self, arrival: Arrival) {
        let Arrival { stream, connected } = arrival;
        let socket = match stream.park() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "a client's socket could not be handed over");
                return;
            }
        };
        self.expect();
        if self.letters.send(Letter::Client { socket, connected }).await.is_err() {
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells without waiting; a full mailbox drops it.
    pub(super) fn tell(&self, letter: Letter) {
        if self.letters.try_send(letter).is_err() {
            tracing::warn!("a worker's mailbox is full; a cancel or drain request was dropped");
        }
    }
}

/// A worker's end of its mailbox.
pub(super) struct Inbox {
    letters: mpsc::Receiver<Letter>,
    clients: Arc<AtomicUsize>,
}

/// What all workers' classifiers share.
pub(super) struct Brain {
    pub key: ShapeKey,
    pub functions: Arc<Functions>,
    pub misroutes: Arc<Misroutes>,
}

/// Starts a worker's thread.
pub(super) fn start(index: usize, inbox: Inbox, shared: &Arc<Shared>, brain: &Brain) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let parse = shared.snapshot.load().config.limits.parse;
    let (key, functions, misroutes) = (brain.key.clone(), Arc::clone(&brain.functions), Arc::clone(&brain.misroutes));
    let metrics = shared.metrics.worker(index).ok_or_else(|| io::Error::other("a worker without counters"))?;
    // The runtime cannot leave the thread it is made on, so whether it could be made is told by a message.
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
        let built = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = match built {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let _ = tell.send(Ok(()));
        let caps = Caps { parse, entries: SHAPES };
        let classifier = Classifier::new(key, functions, Arc::clone(&misroutes), caps);
        let worker = Rc::new(Worker::new(index, shared, classifier, misroutes, metrics, Buffers::default()));
        runtime.block_on(work(worker, inbox));
    })?;
    told.recv().map_err(io::Error::other)??;
    Ok(thread)
}

async fn work(worker: Rc<Worker>, mut inbox: Inbox) {
    let sweeper = Rc::clone(&worker);
    tokio::task::spawn_local(async move {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        loop {
            tick.tick().await;
            sweeper.sweep();
        }
    });
    let clients = Arc::clone(&inbox.clients);
    let hosts = Rc::clone(&worker);
    let host = move |arrival: Arrival| {
        let (left, worker) = (Left(Arc::clone(&clients)), Rc::clone(&hosts));
        tokio::task::spawn_local(async move {
            let _left = left;
            serve(arrival.stream, worker, arrival.connected).await;
        });
    };
    while let Some(letter) = inbox.letters.recv().await {
        match letter {
            Letter::Client { socket, connected } => match socket.unpark() {
                Ok(stream) => host(Arrival { stream, connected }),
                Err(error) => tracing::warn!(%error, "a client's socket could not be watched"),
            },
            Letter::Listen(door, mailboxes) => {
                let shared = Arc::clone(&worker.shared);
                tokio::task::spawn_local(listen::accept(door, mailboxes, shared, host.clone()));
            }
            Letter::Cancel(pid) => worker.cancel(pid),
            Letter::Drain => worker.drain(),
            Letter::Cut => worker.cut(),
        }
    }
}

/// Counts a client out, however its task ends.
struct Left(Arc<AtomicUsize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
