//! Waiting: for a client that says nothing, and for what a server owes.

use std::{future::poll_fn, rc::Rc, task::Poll, time::Duration};

use super::{end::End, rewriting::show_position, state::Session};
use crate::{
    base::SqlState,
    observe::LimitHit,
    pool::Idle,
    relay::{ClientGone, Exchange, Outcome, Until},
    route::Outcome as NodeOutcome,
    wire::{Head, backend::TxStatus, frontend},
};

/// A client that half-closes its connection may still read its answer (as PostgreSQL lets it); one that has died looks the same.
/// After this long its statement is cancelled.
const HALF_CLOSED: Duration = Duration::from_secs(2);
/// A statement that was cancelled for its length may take this long to end. One that does not waits for a client that has stopped
/// reading or sending, which no cancel reaches, or for a server that does not answer any more.
const AFTER_CANCEL: Duration = Duration::from_secs(5);

impl Session {
    /// Waits for the next message's head.
    pub(super) async fn next_head(&mut self) -> Result<Head, End> {
        loop {
            if let Some(head) = self.client.head(self.message_cap())? {
                return Ok(head);
            }
            self.idle().await?;
        }
    }

    /// Throws away the next `bytes` of what the client sends, as they come.
    pub(super) async fn discard(&mut self, bytes: usize) -> Result<(), End> {
        let mut left = bytes;
        loop {
            let n = left.min(self.client.pending().len());
            self.client.consume(n);
            left -= n;
            if left == 0 {
                return Ok(());
            }
            self.idle().await?;
        }
    }

    /// Makes sure a whole message is in the inbox.
    pub(super) async fn whole(&mut self, head: Head) -> Result<(), End> {
        while self.client.pending().len() < head.total() {
            self.idle().await?;
        }
        Ok(())
    }

    /// Waits until the client sends more. Nothing is owed to it meanwhile; its server, if it holds one, may still speak.
    pub(super) async fn idle(&mut self) -> Result<(), End> {
        let resting = self.client.pending().is_empty() && !self.group_open;
        if resting {
            self.refresh_tenant();
        }
        if self.client.eof {
            return Err(End::Left);
        }
        // Extended messages without their Sync have begun an implicit transaction.
        let in_transaction = self.status() != TxStatus::Idle || self.group_open;
        // A server that is held looks after the client's own parameters itself, and knows of SET LOCAL.
        let own = if self.held.is_some() { Idle::default() } else { self.params.idle() };
        let least = |limit: Duration, own: Option<Duration>| {
            own.into_iter().chain((!limit.is_zero()).then_some(limit)).min().unwrap_or_default()
        };
        let (limit, hit, end) = if in_transaction {
            (
                least(self.tenant.limits.idle_in_transaction, own.in_transaction),
                LimitHit::IdleInTransaction,
                End::Fatal(
                    SqlState::IDLE_IN_TRANSACTION_TIMEOUT,
                    "terminating connection due to idle-in-transaction timeout".into(),
                ),
            )
        } else {
            (
                least(self.tenant.limits.idle_client, own.outside),
                LimitHit::IdleClient,
                End::Fatal(SqlState::IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout".into()),
            )
        };
        let wait = self.wait_for_client(resting && !in_transaction);
        if limit.is_zero() {
            return wait.await;
        }
        // The same in the middle of a message: a client that stops there is as idle as any.
        match tokio::time::timeout(limit, wait).await {
            Ok(waited) => waited,
            Err(_) => {
                self.worker.metrics.limit(hit);
                Err(end)
            }
        }
    }

    async fn wait_for_client(&mut self, may_end: bool) -> Result<(), End> {
        let before = self.client.pending().len();
        if self.held.is_some() {
            return self.wait_with_server(before, may_end).await;
        }
        // A request that is here already need not wait for the flush; a client that stops reading must not stop us for ever.
        let handle = Rc::clone(&self.handle);
        let (client, queue) = (&mut self.client, &mut self.feed.queue);
        poll_fn(|cx| {
            if may_end {
                handle.watch(cx.waker());
                if handle.is_ending() {
                    return Poll::Ready(Err(End::going()));
                }
            }
            if let Poll::Ready(Err(e)) = client.poll_flush(cx) {
                return Poll::Ready(Err(ClientGone::from(e).into()));
            }
            if before == 0 {
                client.rest();
            }
            if client.is_full() {
                // It sends and sends and reads nothing: no more of it until it does.
                return Poll::Pending;
            }
            match client.poll_fill(cx) {
                Poll::Pending => {
                    queue.rest();
                    Poll::Pending
                }
                Poll::Ready(Ok(0)) => Poll::Ready(Err(End::Left)),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
                Poll::Ready(Err(e)) => Poll::Ready(Err(ClientGone::from(e).into())),
            }
        })
        .await
    }

    /// The same while a server is held: what it says (notifications, notices, its end) is passed on.
    async fn wait_with_server(&mut self, before: usize, may_end: bool) -> Result<(), End> {
        let outcome = self.pump_once(Until::ClientSpeaks { more_than: before }, may_end).await;
        match outcome {
            Some(Outcome::Done) => Ok(()),
            None => Err(End::going()),
            Some(Outcome::ClientGone(gone)) => Err(gone.into()),
            Some(Outcome::ClientBroke(error)) => Err(error.into()),
            Some(
                Outcome::ClientClosing | Outcome::Misrouted | Outcome::Misnamed | Outcome::TooMuch | Outcome::Overdue,
            ) => Err(End::Left),
            Some(Outcome::ServerLost(_) | Outcome::ServerBroke(_)) => {
                let fatal = self.feed.fatal.take().map(|said| *said);
                self.drop_server(NodeOutcome::Failed);
                let (sqlstate, message) =
                    fatal.unwrap_or((SqlState::CONNECTION_FAILURE, "the server connection was lost".into()));
                Err(End::Fatal(sqlstate, message.into()))
            }
        }
    }

    /// One poll loop of the relay, or `None` if the session should end.
    async fn pump_once(&mut self, until: Until, may_end: bool) -> Option<Outcome> {
        let cap = self.message_cap();
        let handle = Rc::clone(&self.handle);
        let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) else {
            return Some(Outcome::ServerLost(None));
        };
        let mut exchange = Exchange {
            client: &mut self.client,
            server,
            feed: &mut self.feed,
            outgoing: &mut self.outgoing,
            buffers: &self.worker.buffers,
            cap,
            closing_known: self.closing,
        };
        let meaning = self.temporary.meaning(&self.params, self.pid);
        let (names, bound) = (&self.names, &self.bound);
        let changed = &self.orders.changed;
        poll_fn(|cx| {
            if may_end {
                handle.watch(cx.waker());
                if handle.is_ending() {
                    return Poll::Ready(None);
                }
            }
            let polled = loop {
                let polled = exchange.poll(cx, until);
                if !matches!(polled, Poll::Ready(Outcome::Misnamed)) {
                    break polled;
                }
                for misnamed in exchange.feed.misnamed.drain(..).rev() {
                    let at = misnamed.at;
                    names.show_theirs(&mut exchange.client.out, misnamed, meaning, bound);
                    if let Some(changed) = changed {
                        show_position(&mut exchange.client.out, at, changed.as_deref());
                    }
                }
            };
            if exchange.feed.theirs_in_front() {
                handle.now_theirs();
            }
            polled.map(Some)
        })
        .await
    }

    /// Pumps without deadlines and without looking at the client's end.
    pub(super) async fn pump_quietly(&mut self, until: Until) -> Outcome {
        let closing = std::mem::replace(&mut self.closing, true);
        let outcome = self.pump_once(until, false).await;
        self.closing = closing;
        outcome.unwrap_or(Outcome::ServerLost(None))
    }

    /// Pumps with the statement's deadline, and with patience for a client that has half-closed its connection.
    pub(super) async fn pump(&mut self, until: Until) -> Outcome {
        let mut limit = self.time_limit();
        let mut timed = !limit.is_zero();
        let mut cancelled = false;
        loop {
            let outcome = if timed {
                match tokio::time::timeout(limit, self.pump_once(until, false)).await {
                    Ok(outcome) => outcome,
                    Err(_) if cancelled => return Outcome::Overdue,
                    Err(_) => {
                        // The server's own cancel gives the error; it is awaited like any other reply.
                        (cancelled, limit) = (true, AFTER_CANCEL);
                        self.feed.overdue = true;
                        self.worker.metrics.limit(LimitHit::Query);
                        self.handle.cancel();
                        self.fail_copy();
                        continue;
                    }
                }
            } else if self.closing {
                match tokio::time::timeout(HALF_CLOSED, self.pump_once(until, false)).await {
                    Ok(outcome) => outcome,
                    Err(_) => return Outcome::ClientGone(ClientGone::Eof),
                }
            } else {
                self.pump_once(until, false).await
            };
            match outcome {
                Some(Outcome::ClientClosing) => self.closing = true,
                Some(Outcome::TooMuch) => {
                    // Its error, or the end that came before the cancel, is awaited; what comes until then is thrown away.
                    (timed, cancelled, limit) = (true, true, AFTER_CANCEL);
                    self.handle.cancel();
                }
                Some(outcome) => return outcome,
                None => return Outcome::ServerLost(None),
            }
        }
    }

    /// A server that waits for a client's data hears no cancel.
    fn fail_copy(&mut self) {
        if self.outgoing.stream == 0 && std::mem::take(&mut self.feed.copy_in) {
            frontend::copy_fail(&mut self.outgoing.bytes, "canceling statement due to statement timeout");
        }
    }
}
