//! One limit, many shelves: who gets which server connection, and who waits.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Login, Server, Welcome};
use crate::{
    base::{Blame, Report, SqlState},
    net::Address,
    tls::TowardsServers,
};

/// So long before a server would end a connection it is not lent any more.
const NEARLY: Duration = Duration::from_secs(1);

/// What can change on reload.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Most connections, all workers together.
    pub size: usize,
    /// Kept open though idle.
    pub min_idle: usize,
    /// Longest wait in the queue.
    pub checkout_timeout: Duration,
    /// Idle longer than this: closed. Zero: never.
    pub idle_timeout: Duration,
    /// Older than this: not lent again. Zero: never.
    pub max_lifetime: Duration,
    /// Prepared statements per connection.
    pub max_prepared: usize,
    /// How servers are reached. A change makes all present connections old ones.
    pub tls: TowardsServers,
}

/// Why nobody lent a connection.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// All were in use until the deadline.
    #[error("no server connection became free within {0:?}")]
    Timeout(Duration),
    /// The client cancelled while it waited.
    #[error("canceled while waiting for a server connection")]
    Canceled,
    /// The node could not be reached or refused us.
    #[error(transparent)]
    Connect(#[from] super::ConnectError),
    /// The pool was removed by a reload.
    #[error("the pool is closed")]
    Closed,
}

impl Report for CheckoutError {
    fn blame(&self) -> Blame {
        match self {
            Self::Timeout(_) | Self::Closed => Blame::Us,
            Self::Canceled => Blame::Client,
            Self::Connect(e) => e.blame(),
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Timeout(_) => SqlState::TOO_MANY_CONNECTIONS,
            Self::Canceled => SqlState::QUERY_CANCELED,
            Self::Connect(e) => e.sqlstate(),
            Self::Closed => SqlState::CANNOT_CONNECT_NOW,
        }
    }

    fn to_client(&self) -> std::borrow::Cow<'static, str> {
        match self {
            Self::Timeout(_) => "no server connection became free in time".into(),
            Self::Canceled => "canceling statement due to user request".into(),
            Self::Connect(e) => e.to_client(),
            Self::Closed => "the database was reconfigured, try again".into(),
        }
    }
}

/// All connections to one node as one user to one database.
#[derive(Debug)]
pub struct Pool {
    /// Where.
    pub address: Address,
    login: ArcSwap<Login>,
    settings: ArcSwap<Settings>,
    cap: AtomicUsize,
    /// `max_lifetime` in milliseconds, here because every checkout asks for it.
    lifetime_ms: AtomicU64,
    shelves: Box<[Shelf]>,
    total: AtomicUsize,
    tickets: AtomicU64,
    waiting: AtomicUsize,
    queue: Mutex<VecDeque<Waiter>>,
    epoch: AtomicU64,
    /// How often `tls` or the defaults of sessions have changed; counts as so many incarnations of the node.
    detours: AtomicU64,
    /// For which defaults its connections were made; 0: nobody has said yet.
    defaults: AtomicU64,
    closed: AtomicBool,
    pub(super) pinned: super::pinned::Count,
    welcome: ArcSwapOption<Welcome>,
}

/// One worker's idle connections. The lock is its owner's nearly always; another worker only comes when it has nothing.
type Shelf = CachePadded<Mutex<Vec<Box<Server>>>>;

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    gets: oneshot::Sender<Handed>,
}

/// On its way to a waiter. If the waiter is gone when it arrives, the place under the cap must not be.
#[derive(Debug)]
struct Handed {
    pool: Arc<Pool>,
    got: Option<Got>,
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(Got::Idle(server)) = self.got.take() {
            drop(server);
            self.pool.vacate();
        }
    }
}

/// What a checkout ends in.
#[derive(Debug)]
pub(super) enum Got {
    /// An idle connection, perhaps still registered with another worker's reactor.
    Idle(Box<Server>),
    /// The right to dial.
    Room(Room),
}

/// One place under the cap. Dropping it gives the place to whoever waits.
#[derive(Debug)]
pub(super) struct Room {
    pool: Option<Arc<Pool>>,
}

impl Room {
    /// The place is taken by a connection from now on.
    pub(super) fn fill(mut self) {
        self.pool = None;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.vacate();
        }
    }
}

impl Pool {
    /// An empty pool for `workers` reactors.
    pub fn new(address: Address, login: Login, settings: Settings, workers: usize) -> Self {
        Self {
            address,
            login: ArcSwap::from_pointee(login),
            cap: AtomicUsize::new(settings.size),
            lifetime_ms: AtomicU64::new(millis(settings.max_lifetime)),
            settings: ArcSwap::from_pointee(settings),
            shelves: (0..workers).map(|_| CachePadded::new(Mutex::new(Vec::new()))).collect(),
            total: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(VecDeque::new()),
            epoch: AtomicU64::new(0),
            detours: AtomicU64::new(0),
            defaults: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            pinned: AtomicUsize::new(0),
            welcome: ArcSwapOption::empty(),
        }
    }

    /// Takes over a reload's settings and credentials.
    pub fn reconfigure(self: &Arc<Self>, login: Login, settings: Settings) {
        self.cap.store(settings.size, Ordering::Relaxed);
        self.lifetime_ms.store(millis(settings.max_lifetime), Ordering::Relaxed);
        self.reach_by(&settings.tls);
        self.settings.store(Arc::new(settings));
        if !self.login.load().is(&login) {
            self.login.store(Arc::new(login));
        }
        self.match_waiters(0);
    }

    /// Connections that were made in another way are old ones.
    pub(super) fn reach_by(&self, tls: &TowardsServers) {
        let settings = self.settings.load_full();
        if settings.tls != *tls {
            self.settings.store(Arc::new(Settings { tls: tls.clone(), ..Settings::clone(&settings) }));
            // After the settings, so that nobody dials the old way and counts as new; the next `require_epoch` sees it.
            self.detours.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes no new connections any more; those on loan are dropped when they come back.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for shelf in &self.shelves {
            self.forget(std::mem::take(&mut *shelf.lock()));
        }
        for waiter in self.queue.lock().drain(..) {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            drop(waiter);
        }
    }

    /// Sessions begin with other settings than before if this number has gone up: connections that are open have the old ones as their
    /// defaults, and are old. The next `require_epoch` sees it.
    pub fn follow_defaults(&self, defaults: u64) {
        if self.defaults.load(Ordering::Acquire) >= defaults {
            return;
        }
        let before = self.defaults.fetch_max(defaults, Ordering::AcqRel);
        if before > 0 && before < defaults {
            self.welcome.store(None);
            self.detours.fetch_add(1, Ordering::Release);
        }
    }

    /// Connections dialled to an earlier incarnation of the node are not lent again.
    pub fn require_epoch(self: &Arc<Self>, epoch: u64) {
        let epoch = epoch + self.detours.load(Ordering::Acquire);
        if self.epoch.load(Ordering::Relaxed) < epoch {
            self.epoch.fetch_max(epoch, Ordering::Release);
            for shelf in &self.shelves {
                let stale: Vec<Box<Server>> = {
                    let mut shelf = shelf.lock();
                    let (keep, stale) = std::mem::take(&mut *shelf).into_iter().partition(|s| s.epoch >= epoch);
                    *shelf = keep;
                    stale
                };
                self.forget(stale);
            }
            self.match_waiters(0);
        }
    }

    /// The incarnation new connections belong to.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Current settings.
    pub fn settings(&self) -> arc_swap::Guard<Arc<Settings>> {
        self.settings.load()
    }

    pub(super) fn login(&self) -> Arc<Login> {
        self.login.load_full()
    }

    /// The user connections are logged in as.
    pub fn login_user(&self) -> Box<str> {
        self.login.load().user.clone()
    }

    /// Can a login succeed at all? See [`Login::is_ready`].
    pub fn may_log_in(&self) -> bool {
        self.login.load().is_ready()
    }

    /// What the newest connection was told at login.
    pub fn welcome(&self) -> Option<Arc<Welcome>> {
        self.welcome.load_full()
    }

    pub(super) fn note_welcome(&self, welcome: Arc<Welcome>) {
        self.welcome.store(Some(welcome));
    }

    /// (open or being opened, idle, waiting).
    pub fn census(&self) -> (usize, usize, usize) {
        let idle = self.shelves.iter().map(|s| s.lock().len()).sum();
        (self.total.load(Ordering::Relaxed), idle, self.waiting.load(Ordering::Relaxed))
    }

    /// An idle connection or room for a new one, without waiting; nobody jumps the queue.
    pub(super) fn try_checkout(self: &Arc<Self>, worker: usize, now: Instant) -> Option<Got> {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return None;
        }
        self.take(worker, now)
    }

    fn take(self: &Arc<Self>, worker: usize, now: Instant) -> Option<Got> {
        if let Some(server) = self.pop(worker, now) {
            return Some(Got::Idle(server));
        }
        if let Some(room) = self.reserve() {
            return Some(Got::Room(room));
        }
        let mut others = (1..self.shelves.len()).map(|i| (worker + i) % self.shelves.len());
        let idle = others.find_map(|shelf| self.pop(shelf, now)).map(Got::Idle);
        // What lay there may have been unfit, and then its place is free.
        idle.or_else(|| self.reserve().map(Got::Room))
    }

    /// Room under the cap, if any.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<Room> {
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        let cap = self.cap.load(Ordering::Relaxed);
        self.total
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |n| (n < cap).then_some(n + 1))
            .ok()
            .map(|_| Room { pool: Some(Arc::clone(self)) })
    }

    fn pop(&self, shelf: usize, now: Instant) -> Option<Box<Server>> {
        loop {
            let mut server = self.shelves[shelf].lock().pop()?;
            if self.is_fit(&mut server, now) {
                return Some(server);
            }
            self.forget(vec![server]);
        }
    }

    /// Fit to be lent: of the node's present incarnation, young enough, and silent. A server that says anything while idle is
    /// ending (57P01, end of file) or has changed its settings; either way a fresh connection is right. One that is about to end, since its
    /// last user's `idle_session_timeout` has nearly passed, could be gone before the request has arrived.
    fn is_fit(&self, server: &mut Server, now: Instant) -> bool {
        let lifetime = Duration::from_millis(self.lifetime_ms.load(Ordering::Relaxed));
        let ends = server.params.idle().outside.map(|limit| server.idle_since + limit.saturating_sub(NEARLY));
        server.epoch >= self.epoch.load(Ordering::Relaxed)
            && (lifetime.is_zero() || now.duration_since(server.born) < lifetime)
            && ends.is_none_or(|ends| now < ends)
            && !server.stream.is_readable()
    }

    /// Waits for a connection or for room, in order of arrival.
    pub(super) async fn wait(self: &Arc<Self>, worker: usize, deadline: Duration) -> Result<Got, CheckoutError> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (gets, mut got) = oneshot::channel();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.queue.lock().push_back(Waiter { ticket, gets });
        let _leave = Leave { pool: self, ticket };
        if self.closed.load(Ordering::SeqCst) {
            return Err(CheckoutError::Closed);
        }
        // What was given back between the first try and the queue would otherwise lie on a shelf unseen.
        self.match_waiters(worker);
        match tokio::time::timeout(deadline, &mut got).await {
            Ok(Ok(mut handed)) => handed.got.take().ok_or(CheckoutError::Closed),
            Ok(Err(_)) => Err(CheckoutError::Closed),
            Err(_) => {
                got.close();
                let late = got.try_recv().ok().and_then(|mut handed| handed.got.take());
                late.ok_or(CheckoutError::Timeout(deadline))
            }
        }
    }

    /// Puts a clean connection where the next one finds it.
    pub(super) fn shelve(self: &Arc<Self>, worker: usize, mut server: Box<Server>, now: Instant) {
        // A reload may have made the cap smaller.
        let surplus = self.total.load(Ordering::Relaxed) > self.cap.load(Ordering::Relaxed);
        if surplus || self.closed.load(Ordering::Relaxed) || server.epoch < self.epoch.load(Ordering::Relaxed) {
            drop(server);
            self.vacate();
            return;
        }
        server.idle_since = now;
        self.shelves[worker].lock().push(server);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.match_waiters(worker);
        }
    }

    /// Gives what is free to the first in the queue, as long as there is both.
    fn match_waiters(self: &Arc<Self>, worker: usize) {
        loop {
            let mut queue = self.queue.lock();
            if queue.is_empty() {
                return;
            }
            let Some(got) = self.take(worker, Instant::now()) else { return };
            let mut handed = Handed { pool: Arc::clone(self), got: Some(got) };
            while let Some(waiter) = queue.pop_front() {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                match waiter.gets.send(handed) {
                    Ok(()) => break,
                    Err(back) => handed = back,
                }
            }
            drop(queue);
        }
    }

    /// A place under the cap has become free.
    fn vacate(self: &Arc<Self>) {
        self.total.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.match_waiters(0);
        }
    }

    /// Closes idle connections.
    #[expect(clippy::vec_box, reason = "a server moves between shelves and leases in its box")]
    fn forget(&self, servers: Vec<Box<Server>>) {
        self.total.fetch_sub(servers.len(), Ordering::SeqCst);
    }

    /// A connection on loan is gone; its place is free.
    pub(super) fn lost(self: &Arc<Self>) {
        self.vacate();
    }

    /// Closes what has been idle or has lived too long on one worker's shelf. Called about once a second by each worker.
    pub fn sweep(self: &Arc<Self>, worker: usize, now: Instant) {
        let settings = self.settings.load_full();
        let mut idle_elsewhere = self.census().1;
        let gone: Vec<Box<Server>> = {
            let mut shelf = self.shelves[worker].lock();
            let gone = shelf.extract_if(.., |server| {
                let too_long = !settings.idle_timeout.is_zero()
                    && now.duration_since(server.idle_since) >= settings.idle_timeout
                    && idle_elsewhere > settings.min_idle;
                let keep = !too_long && self.is_fit(server, now);
                if !keep {
                    idle_elsewhere -= 1;
                }
                !keep
            });
            gone.collect()
        };
        if !gone.is_empty() {
            self.forget(gone);
            if self.waiting.load(Ordering::SeqCst) > 0 {
                self.match_waiters(worker);
            }
        }
    }

    /// How many connections should be dialled to have `min_idle` of them ready.
    pub fn wants(&self) -> usize {
        let (total, idle, _) = self.census();
        let settings = self.settings.load();
        settings.min_idle.saturating_sub(idle).min(settings.size.saturating_sub(total))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Takes the waiter out of the queue however the wait ends.
struct Leave<'a> {
    pool: &'a Arc<Pool>,
    ticket: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut queue = self.pool.queue.lock();
        if let Some(at) = queue.iter().position(|w| w.ticket == self.ticket) {
            queue.remove(at);
            self.pool.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
