//! CancelRequest: exactly the statement it was meant for, or nothing.
//!
//! A request reaches the session's own worker, which alone knows whether a server is running the client's statement right now.
//! Our own statements are never hit: while one is in front, the cancel waits for the client's to begin.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use dashmap::DashMap;
use rand::RngCore;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;

use crate::pool::{self, BackendKey, CancelTarget};

/// From our CancelRequest to its connection's end. A server that takes longer loses the connection.
const DEADLINE: Duration = Duration::from_secs(5);

/// May the key be longer than four bytes (protocol 3.2)?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongKey {
    /// 32 bytes.
    Yes,
    /// 4 bytes.
    No,
}

/// Who may cancel whom. Touched at login, at the end of a session and by cancel requests.
#[derive(Debug, Default)]
pub struct Keys {
    keys: DashMap<u32, (usize, Box<[u8]>)>,
}

impl Keys {
    /// A fresh pid and secret for a session on `worker`.
    pub fn issue(&self, worker: usize, long: LongKey) -> BackendKey {
        let mut rng = rand::rng();
        let mut secret = vec![0u8; if long == LongKey::Yes { 32 } else { 4 }].into_boxed_slice();
        rng.fill_bytes(&mut secret);
        loop {
            let pid = rng.next_u32() & 0x7fff_ffff;
            if pid == 0 {
                continue;
            }
            if let dashmap::Entry::Vacant(entry) = self.keys.entry(pid) {
                entry.insert((worker, secret.clone()));
                return BackendKey { pid, secret };
            }
        }
    }

    /// The session is over.
    pub fn revoke(&self, pid: u32) {
        self.keys.remove(&pid);
    }

    /// The worker of the session that holds exactly this key.
    pub fn find(&self, pid: u32, secret: &[u8]) -> Option<usize> {
        let entry = self.keys.get(&pid)?;
        let (worker, key) = entry.value();
        bool::from(key.ct_eq(secret)).then_some(*worker)
    }
}

/// What a session is doing, as far as a cancel is concerned.
#[derive(Debug, Default)]
enum Doing {
    /// Nothing that could be cancelled.
    #[default]
    Resting,
    /// Waits for a server connection.
    Waiting,
    /// A statement of ours is in front on this server; the client's follows.
    Ours(Arc<CancelTarget>),
    /// The client's statement runs.
    Running(Arc<CancelTarget>),
}

/// A session's handle: how its worker, a cancel or a shutdown reaches it.
#[derive(Debug, Default)]
pub struct Handle {
    doing: RefCell<Doing>,
    /// A cancel came while a statement of ours was in front.
    postponed: Cell<bool>,
    /// Cancel requests on their way to the server. The connection must not serve anybody else meanwhile.
    under_way: Cell<u32>,
    /// One of them did not end in time.
    stuck: Cell<bool>,
    arrived: Notify,
    interrupt: Notify,
    ending: Cell<bool>,
    cut: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Handle {
    /// Waits for a server connection from now on.
    pub(super) fn wait(&self) {
        *self.doing.borrow_mut() = Doing::Waiting;
    }

    /// A request is about to be sent on this server; `ours` travels in front of the client's.
    pub(super) fn begin(&self, target: &Arc<CancelTarget>, ours: bool) {
        let target = Arc::clone(target);
        // One that was postponed while something of ours was awaited waits on, until the client's statement is on its way.
        let ours = ours || self.postponed.get();
        *self.doing.borrow_mut() = if ours { Doing::Ours(target) } else { Doing::Running(target) };
    }

    /// Ours is done, the client's statement runs.
    pub(super) fn now_theirs(self: &Rc<Self>) {
        let ours = std::mem::take(&mut *self.doing.borrow_mut());
        if let Doing::Ours(target) = ours {
            *self.doing.borrow_mut() = Doing::Running(target);
            if self.postponed.take() {
                self.cancel();
            }
        } else {
            *self.doing.borrow_mut() = ours;
        }
    }

    /// Nothing runs any more; a cancel that comes now is too late, as on a server.
    pub(super) fn rest(&self) {
        self.postponed.set(false);
        *self.doing.borrow_mut() = Doing::Resting;
    }

    /// Resolves when a cancel ends the wait.
    pub(super) async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    /// A valid CancelRequest for this session.
    pub fn cancel(self: &Rc<Self>) {
        match &*self.doing.borrow() {
            Doing::Resting => {}
            Doing::Waiting => self.interrupt.notify_waiters(),
            Doing::Ours(..) => self.postponed.set(true),
            Doing::Running(target) => {
                self.under_way.set(self.under_way.get() + 1);
                let (target, handle) = (Arc::clone(target), Rc::clone(self));
                tokio::task::spawn_local(async move {
                    if !pool::cancel(&target, DEADLINE).await {
                        handle.stuck.set(true);
                    }
                    handle.under_way.set(handle.under_way.get() - 1);
                    handle.arrived.notify_waiters();
                });
            }
        }
    }

    /// Waits until all cancels have arrived, or are given up.
    pub(super) async fn cancels_have_arrived(&self) {
        while self.under_way.get() > 0 {
            self.arrived.notified().await;
        }
    }

    /// Waits until no cancel can arrive late. False: one may still, so the connection is not to be used again.
    pub(super) async fn no_cancel_under_way(&self) -> bool {
        self.cancels_have_arrived().await;
        !self.stuck.take()
    }

    /// Is one under way?
    pub(super) fn is_cancel_under_way(&self) -> bool {
        self.under_way.get() > 0 || self.stuck.get()
    }

    /// The process is leaving; the session should, as soon as it is idle.
    pub fn end(&self) {
        self.ending.set(true);
        self.wake();
    }

    /// The process does not wait for the session any more, whatever it does.
    pub fn cut(&self) {
        self.cut.set(true);
        self.wake();
    }

    /// Ready when it was cut. Costs two comparisons: it is asked whenever the session is woken.
    pub(super) fn poll_cut(&self, waker: &Waker) -> Poll<()> {
        if self.cut.get() {
            return Poll::Ready(());
        }
        self.watch(waker);
        Poll::Pending
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Should it?
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Whom to wake for it.
    pub(super) fn watch(&self, waker: &Waker) {
        let mut slot = self.waker.borrow_mut();
        if slot.as_ref().is_none_or(|old| !old.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }
}
