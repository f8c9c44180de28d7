//! A server connection on loan. Dirty until proven clean, so cancellation and panics are safe by construction.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    CheckoutError, Pool, Server, cancel,
    checkout::{Got, Room},
    connect::connect,
};
use crate::wire::frontend;

/// How long a discarded connection's backend may take to end before its place is given away all the same: less than others wait for one. It
/// begins with the first attempt to bring it to its end.
const FAREWELL: Duration = Duration::from_secs(2);
/// The first pause between two cancels; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(50);

/// One worker's way into a pool.
#[derive(Debug)]
pub struct Local {
    /// The pool.
    pub pool: Arc<Pool>,
    /// The worker.
    pub worker: usize,
}

/// Why a connection is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It may be in the middle of anything: the backend is asked to cancel, then left.
    Busy,
    /// The server ended it.
    Gone,
}

/// The loan.
#[derive(Debug)]
pub struct Lease {
    server: Option<Box<Server>>,
    local: Rc<Local>,
    why: Why,
    /// Its user has left, and began so long ago to bring it to its end.
    parting: Option<Instant>,
}

impl Local {
    /// A connection that is free right now, without waiting.
    pub fn try_checkout(self: &Rc<Self>, now: Instant) -> Option<Lease> {
        match self.pool.try_checkout(self.worker, now)? {
            Got::Idle(server) => self.settle_in(server),
            // Dialling takes time: the waiting form does it. Room goes back.
            Got::Room(room) => {
                drop(room);
                None
            }
        }
    }

    /// A connection that is free or may be dialled; `None` if one would have to wait in line.
    pub async fn checkout_now(self: &Rc<Self>) -> Option<Result<Lease, CheckoutError>> {
        loop {
            match self.pool.try_checkout(self.worker, Instant::now())? {
                Got::Idle(server) => {
                    if let Some(lease) = self.settle_in(server) {
                        return Some(Ok(lease));
                    }
                }
                Got::Room(room) => return Some(self.dial(room).await),
            }
        }
    }

    async fn dial(self: &Rc<Self>, room: Room) -> Result<Lease, CheckoutError> {
        let server = connect(&self.pool, self.worker).await?;
        room.fill();
        Ok(self.lend(Box::new(server)))
    }

    /// A connection, after dialling or waiting in line for at most `deadline`.
    pub async fn checkout(self: &Rc<Self>, deadline: Duration) -> Result<Lease, CheckoutError> {
        let started = Instant::now();
        loop {
            let got = match self.pool.try_checkout(self.worker, started) {
                Some(got) => got,
                None => {
                    let left = deadline.saturating_sub(started.elapsed());
                    if left.is_zero() {
                        return Err(CheckoutError::Timeout(deadline));
                    }
                    self.pool.wait(self.worker, left).await?
                }
            };
            match got {
                Got::Idle(server) => {
                    if let Some(lease) = self.settle_in(server) {
                        return Ok(lease);
                    }
                }
                Got::Room(room) => return self.dial(room).await,
            }
        }
    }

    /// Brings a connection to this worker's reactor.
    fn settle_in(self: &Rc<Self>, mut server: Box<Server>) -> Option<Lease> {
        if server.home != self.worker {
            let Server { stream, .. } = *server;
            let moved = stream.park().and_then(crate::net::Parked::unpark);
            match moved {
                Ok(stream) => server = Box::new(Server { stream, home: self.worker, ..*server }),
                Err(_) => {
                    self.pool.lost();
                    return None;
                }
            }
        }
        Some(self.lend(server))
    }

    fn lend(self: &Rc<Self>, server: Box<Server>) -> Lease {
        Lease { server: Some(server), local: Rc::clone(self), why: Why::Busy, parting: None }
    }

    /// Dials one connection for the shelf if there is room.
    pub async fn warm(self: &Rc<Self>) -> Result<(), CheckoutError> {
        if let Some(room) = self.pool.reserve() {
            self.dial(room).await?.give_back(Instant::now());
        }
        Ok(())
    }
}

impl Lease {
    /// The connection. `None` only while it is being dropped.
    pub fn server(&mut self) -> Option<&mut Server> {
        self.server.as_deref_mut()
    }

    /// The connection, to look at.
    pub fn peek(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// Where it came from.
    pub fn local(&self) -> &Rc<Local> {
        &self.local
    }

    /// It is in step, idle and holds nothing of its last user: the next one may have it.
    pub fn give_back(mut self, now: Instant) {
        if let Some(mut server) = self.server.take() {
            server.uses += 1;
            self.local.pool.shelve(self.local.worker, server, now);
        }
    }

    /// What it runs is being brought to its end, for nobody. If that fails it has had its time.
    pub fn part(&mut self, now: Instant) {
        self.parting = Some(now);
    }

    /// The server ended the connection; there is nobody to say goodbye to.
    pub fn gone(mut self) {
        self.why = Why::Gone;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else { return };
        let pool = Arc::clone(&self.local.pool);
        let runtime = tokio::runtime::Handle::try_current();
        match (self.why, runtime) {
            (Why::Busy, Ok(runtime)) => {
                // The backend may be running a statement for nobody; and until it has ended, its place is not free.
                let left = FAREWELL.saturating_sub(self.parting.map_or(Duration::ZERO, |since| since.elapsed()));
                runtime.spawn(async move {
                    retire(*server, left).await;
                    pool.lost();
                });
            }
            (Why::Busy | Why::Gone, _) => {
                drop(server);
                pool.lost();
            }
        }
    }
}

/// Ends a connection that may be in the middle of anything, and waits for the backend's end, but not for longer than `left`.
async fn retire(mut server: Server, left: Duration) {
    let target = Arc::clone(&server.target);
    let farewell = async {
        let mut bye = Vec::with_capacity(5);
        frontend::terminate(&mut bye);
        if server.stream.write_all(&bye).await.is_err() {
            return;
        }
        server.stream.shut_write();
        let mut sink = vec![0u8; 16 * 1024];
        while let Ok(1..) = server.stream.read(&mut sink).await {}
    };
    // More than one: a cancel may come before its statement, and behind that there may be others.
    let cancels = async {
        let mut pause = PAUSE;
        loop {
            cancel(&target, FAREWELL).await;
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    };
    tokio::select! {
        biased;
        () = farewell => {}
        () = cancels => {}
        // The socket is closed anyway, and the server finds out.
        () = tokio::time::sleep(left) => {}
    }
}
