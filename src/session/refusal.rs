//! Saying no to a request of a client, the way a server's error would come: in its turn, with everything behind it skipped, and with the
//! transaction failed in truth.
//!
//! Where a server holds the transaction it is made to fail there ([`Failing`], and `poison` for one message of a group), so that 25P02,
//! savepoints and the ROLLBACK that COMMIT becomes are the server's own.

use std::{borrow::Cow, rc::Rc};

use super::{
    cycle::{Composing, Load},
    end::End,
    state::Session,
    tx::{Deferred, Tx},
};
use crate::{
    base::SqlState,
    observe::Sent,
    policy::Verdict,
    relay::{Ack, NO_SUCH, Owed, Until, What},
    route::{RouteReason, Wish},
    sql::Route,
    wire::{
        backend::{self, ErrorText, Severity, TxStatus},
        frontend,
    },
};

/// Why a request is not carried out. Never a client's data, a password or a node's address.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub sqlstate: SqlState,
    pub message: Cow<'static, str>,
    pub detail: Option<Cow<'static, str>>,
    /// Whose error it is on a server, where drivers go by that.
    pub routine: Option<&'static str>,
    /// What the rules said, if it is they who refuse.
    pub verdict: Option<Rc<Verdict>>,
}

impl Refusal {
    pub(super) fn new(sqlstate: SqlState, message: impl Into<Cow<'static, str>>) -> Self {
        Self { sqlstate, message: message.into(), detail: None, routine: None, verdict: None }
    }

    pub(super) fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(super) fn of_routine(mut self, routine: &'static str) -> Self {
        self.routine = Some(routine);
        self
    }

    pub(super) fn by(mut self, verdict: Rc<Verdict>) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// Writes it as an ERROR.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let text = ErrorText::new(Severity::Error, self.sqlstate, &self.message);
        backend::error_response(out, &ErrorText { detail: self.detail.as_deref(), routine: self.routine, ..text });
    }

    /// As a message on its own.
    pub(super) fn bytes(&self) -> Box<[u8]> {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }
}

/// The Sync of a group that failed; or, with an error, in the place of a request: something the server fails at in front of it. The client hears
/// that error instead of what the server says to it.
pub(super) struct FailedGroup(pub(super) Option<Box<[u8]>>);

impl Load for FailedGroup {
    fn compose(&mut self, session: &mut Session) -> Composing {
        if let Some(error) = &self.0 {
            session.write_failing(error.clone());
        }
        frontend::sync(&mut session.outgoing.bytes);
        session.feed.queue.push(Owed::pass(What::Sync));
        Composing::Done
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn until(&self) -> Until {
        Until::Settled
    }

    fn ends_cycle(&self) -> bool {
        true
    }

    fn routes(&self, _: &Session) -> Vec<Route> {
        Vec::new()
    }

    fn statements(&self) -> u32 {
        0
    }

    fn consume(&mut self, _: &mut Session) {}
}

impl Session {
    /// Makes the held server fail at this very place, so that its transaction and everything behind it behave as they would have.
    /// The client hears `error`.
    pub(super) fn write_failing(&mut self, error: Box<[u8]>) {
        frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, NO_SUCH);
        self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        frontend::describe(&mut self.outgoing.bytes, frontend::What::Statement, NO_SUCH);
        self.feed.queue.push(Owed::Poison(error));
    }

    /// Refuses a Query or a FunctionCall of `total` bytes: nothing of it is carried out.
    pub(super) async fn refuse_query(&mut self, total: usize, refusal: &Refusal) -> Result<(), End> {
        self.discard(total).await?;
        self.note_refused(refusal, 1);
        if self.held.is_some() && (self.group_open || self.status() == TxStatus::InTransaction) {
            self.deeds.next();
            self.exchange(&mut FailedGroup(Some(refusal.bytes())), Wish::nothing()).await?;
            return self.settle().await;
        }
        refusal.write(self.client.say());
        self.fail_locally();
        self.after_error_of_ours(true);
        Ok(())
    }

    /// A transaction that no server knows of has failed.
    pub(super) fn fail_locally(&mut self) {
        self.tx = match std::mem::take(&mut self.tx) {
            Tx::Idle => Tx::Idle,
            Tx::Begun(deferred) => Tx::Failed(deferred),
            Tx::Failed(deferred) => Tx::Failed(deferred),
        };
    }

    /// What SHOW pgsluice.route and the counters say of it.
    pub(super) fn note_refused(&mut self, refusal: &Refusal, statements: u32) {
        // A server that is held stays what it is.
        self.last.refused = true;
        self.last.verdict.clone_from(&refusal.verdict);
        self.last.reason = Some(if refusal.verdict.is_some() { RouteReason::Rule } else { RouteReason::SessionState });
        self.count(Sent::Refused, statements);
    }
}

impl Deferred {
    /// What the server had is gone; a transaction that follows by AND CHAIN begins like any other.
    pub(super) fn plain() -> Self {
        Self::begin(b"BEGIN", Default::default())
    }
}
