//! How a session ends, and what it leaves behind: nothing.

use std::{
    task::Poll,
    time::{Duration, Instant},
};

use super::state::Session;
use crate::{
    base::{Report, SqlState},
    config::Feature,
    observe::ClientState,
    pool::Params,
    relay::{Ack, ClientGone, NO_SUCH, Names, Outcome, Owed, Show, Until, What},
    wire::{
        WireError,
        backend::{ErrorText, Severity, TxStatus, error_response},
        frontend,
    },
};

/// What runs for a client that has left is cancelled and may take this long to end; otherwise the connection does. Less than others wait
/// for one.
const FAREWELL: Duration = Duration::from_secs(2);
/// The first pause between two cancels; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(50);
/// A client may take this long for its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a session is over.
#[derive(Debug)]
pub(super) enum End {
    /// Terminate, or the socket is gone: there is nobody to tell.
    Left,
    /// The client is told, then cut.
    Fatal(SqlState, String),
}

impl End {
    /// The process leaves. PostgreSQL's words.
    pub(super) fn going() -> Self {
        Self::Fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command".into())
    }
}

impl From<ClientGone> for End {
    fn from(gone: ClientGone) -> Self {
        tracing::debug!(%gone, "client left without saying goodbye");
        Self::Left
    }
}

impl From<WireError> for End {
    fn from(error: WireError) -> Self {
        Self::Fatal(error.sqlstate(), error.to_client().into_owned())
    }
}

impl Session {
    /// Cleans the server the session holds, or drops it, and says the last word.
    pub(super) async fn finish(&mut self, end: End) {
        // Whoever has half of a row could not tell where it ends.
        if let End::Fatal(sqlstate, message) = &end
            && !self.feed.is_mid_message()
        {
            let text = ErrorText::new(Severity::Fatal, *sqlstate, message);
            error_response(self.client.say(), &text);
        }
        // Whoever says goodbye in the same breath as a request still gets the answer, as far as its socket takes it now.
        let told = std::future::poll_fn(|cx| Poll::Ready(self.client.poll_flush(cx).is_ready())).await;
        if told {
            self.client.stream.shut_write();
        }
        // What its socket says from now on (a reset, no room) is not the server's affair, and the server does not wait for it.
        let untold = self.client.give_up();
        if self.held.is_some() {
            self.clean_up().await;
        }
        if !told {
            self.client.out = untold;
            let _ = tokio::time::timeout(LAST_WORDS, self.client.flush()).await;
            self.client.stream.shut_write();
        }
        self.worker.metrics.client_leaves(self.tenant.slot, ClientState::Idle);
        self.worker.leave(self.pid);
    }

    /// Brings the server to the end of what it has been sent; false if that is not possible.
    async fn drain(&mut self) -> bool {
        if self.feed.is_settled() && self.outgoing.is_done() && !self.group_open {
            return true;
        }
        if self.outgoing.stream > 0 {
            // It has half of a message.
            return false;
        }
        let busy = !self.feed.queue.is_empty();
        if std::mem::take(&mut self.feed.copy_in) {
            frontend::copy_fail(&mut self.outgoing.bytes, "the client has left");
        }
        self.feed.strays.ask(&mut self.outgoing);
        let open = std::mem::take(&mut self.group_open);
        if open {
            // The Sync of a group that has not failed commits what it did, and that is its client's to ask for: an error undoes it.
            frontend::execute(&mut self.outgoing.bytes, NO_SUCH, 0);
        }
        if self.feed.count_unheard_strays() {
            self.feed.strays.ask(&mut self.outgoing);
        } else if open {
            frontend::sync(&mut self.outgoing.bytes);
            self.feed.queue.push(Owed::swallow(What::Execute, Ack::Nothing));
            self.feed.queue.push(Owed::swallow(What::Sync, Ack::Nothing));
        }
        self.feed.give_up();
        if let Some(server) = self.held.as_ref().and_then(|held| held.lease.peek()).filter(|_| busy) {
            // It runs for nobody.
            self.handle.begin(&server.target, false);
        }
        let drained = tokio::time::timeout(FAREWELL, Box::pin(self.end_what_runs())).await;
        self.handle.rest();
        matches!(drained, Ok(Outcome::Done))
    }

    /// Reads what is owed to its end. More than one cancel: one may come before its statement, and behind that there may be others.
    async fn end_what_runs(&mut self) -> Outcome {
        let mut pause = PAUSE;
        loop {
            if !self.handle.is_cancel_under_way() {
                self.handle.cancel();
            }
            if let Ok(outcome) = tokio::time::timeout(pause, self.pump_quietly(Until::Settled)).await {
                return outcome;
            }
            pause *= 2;
        }
    }

    /// The server was held when the client left: roll back, reset, give back. Whatever is not certain is thrown away.
    async fn clean_up(&mut self) {
        if let Some(held) = &mut self.held {
            held.lease.part(Instant::now());
        }
        let in_step = !self.pins.has(Feature::Load) && self.drain().await;
        let Some(status) = self.feed.status.filter(|_| in_step) else {
            self.held = None;
            return;
        };
        self.feed.reset();
        let in_transaction = status != TxStatus::Idle;
        if in_transaction && !self.hidden(b"ROLLBACK").await {
            self.held = None;
            return;
        }
        let bare = self.held.as_ref().is_some_and(|held| {
            held.lent_names.is_empty() && held.lease.peek().is_some_and(|server| server.residue.is_none())
        });
        let plain = bare && !self.pins.any() && !self.deeds.residue && !self.deeds.left_something();
        if !plain {
            // Alone in its message: inside an implicit transaction block it always fails.
            if !self.hidden(b"DISCARD ALL").await {
                self.held = None;
                return;
            }
            if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
                server.params = Params::default();
                server.prepared.clear();
                server.unnamed = None;
                server.residue = None;
            }
        }
        self.pins = super::state::Pins::default();
        self.deeds = super::deeds::Deeds::default();
        self.release().await;
    }

    /// Runs a statement of ours on the held server; false if it failed, and then the server is not to be trusted.
    pub(super) async fn hidden(&mut self, sql: &[u8]) -> bool {
        self.feed.reset();
        // A cancel that comes too late for the client's statement must not hit ours.
        self.handle.cancels_have_arrived().await;
        frontend::query(&mut self.outgoing.bytes, sql);
        if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
            // A simple Query destroys the unnamed statement.
            server.unnamed = None;
        }
        let owed = Owed::Reply { what: What::Query, show: Show::Collect, ack: Ack::Nothing, names: Names::Untouched };
        self.feed.queue.push(owed);
        self.hidden_is_answered().await
    }

    /// Waits for the answer to what is ours alone; false if the server is not to be trusted any more.
    pub(super) async fn hidden_is_answered(&mut self) -> bool {
        let limit = Duration::from_secs(30);
        let outcome = tokio::time::timeout(limit, Box::pin(self.pump_quietly(Until::Settled))).await;
        let done =
            matches!(outcome, Ok(Outcome::Done)) && self.feed.hidden_error.is_none() && self.feed.fatal.is_none();
        if !done {
            tracing::warn!(?outcome, error = ?self.feed.hidden_error, "a statement of pgsluice's own failed");
            // Whatever is still owed for it must not be taken for the next server's.
            self.feed.abandon();
            self.outgoing = crate::relay::Outgoing::default();
        }
        done
    }
}
