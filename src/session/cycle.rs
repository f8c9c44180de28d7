//! The corridor: a request is read, judged, placed, carried and settled; then the next one.

use std::{
    future::{Future, poll_fn},
    rc::Rc,
    task::Poll,
};

use super::{end::End, state::Session, tx::Tx};
use crate::{base::SqlState, pool::StatementId, relay::Until, sql::Route, wire::frontend::tag};

/// A request on its way: how to write it to a server, and what then.
pub(super) trait Load {
    /// Writes it to the held server's outgoing bytes and notes what is owed; called again after a pause.
    fn compose(&mut self, session: &mut Session) -> Composing;
    /// It will be composed from its beginning.
    fn rewind(&mut self) {}
    /// Asks the held server in front of it whether it gives what the client was told; false: there is nothing to ask.
    fn try_out(&self, _: &mut Session) -> bool {
        false
    }
    /// All its bytes stay in the inbox until the outcome is known, so it can be written again.
    fn is_whole(&self) -> bool;
    /// Until when its replies are awaited.
    fn until(&self) -> Until;
    /// Ends with ReadyForQuery.
    fn ends_cycle(&self) -> bool;
    /// The shapes to be remembered as writers if only the primary would run it.
    fn routes(&self, session: &Session) -> Vec<Route>;
    /// The prepared statements it makes.
    fn parses(&self, _: &Session) -> Vec<StatementId> {
        Vec::new()
    }
    /// How many of its bytes have not been read.
    fn unread(&self) -> usize {
        0
    }
    /// How many statements it runs, for the counters.
    fn statements(&self) -> u32;
    /// Its bytes are done with.
    fn consume(&mut self, session: &mut Session);
}

/// How far a request was composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Composing {
    /// To its end.
    Done,
    /// What comes next depends on the replies to what was composed so far.
    Pauses,
}

impl Session {
    /// Serves the client until one of the two is done.
    ///
    /// In a box, since a future keeps room for every place a value is moved through: an idle client costs half as much.
    pub(super) async fn run(mut self: Box<Self>) {
        let handle = Rc::clone(&self.handle);
        let end = {
            // In a box, too: a local one would be kept twice.
            let mut requests = Box::pin(self.requests());
            poll_fn(|cx| match requests.as_mut().poll(cx) {
                Poll::Ready(end) => Poll::Ready(end),
                // Wherever it waits.
                Poll::Pending => handle.poll_cut(cx.waker()).map(|()| End::going()),
            })
            .await
        };
        Box::pin(self.finish(end)).await;
    }

    /// An idle client has room for all that its next request may come to, so what is rare is put into boxes wherever it is awaited.
    async fn requests(&mut self) -> End {
        loop {
            if let Err(end) = self.next_request().await {
                return end;
            }
        }
    }

    async fn next_request(&mut self) -> Result<(), End> {
        if self.unread > 0 {
            let bytes = std::mem::take(&mut self.unread);
            self.discard(bytes).await?;
        }
        let head = self.next_head().await?;
        if self.group_has_failed() && matches!(head.tag, tag::QUERY | tag::FUNCTION_CALL) {
            // Not even a Query is answered before the Sync that an error has made necessary (measured on PostgreSQL 15).
            return self.discard(head.total()).await;
        }
        match head.tag {
            tag::QUERY => self.simple(head).await,
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::SYNC | tag::FLUSH => {
                self.extended().await
            }
            tag::FUNCTION_CALL => Box::pin(self.function_call(head)).await,
            tag::TERMINATE => Err(End::Left),
            // Left over from a COPY that the server has ended with an error: ignored, as PostgreSQL's main loop does.
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => self.discard(head.total()).await,
            other => Err(End::Fatal(SqlState::PROTOCOL_VIOLATION, format!("invalid frontend message type {other}"))),
        }
    }

    /// Longest message accepted, as the length word counts.
    pub(super) fn message_cap(&self) -> u32 {
        self.tenant.limits.message
    }

    /// Has the server told meanwhile that a message of the open group failed? Then it ignores everything up to Sync.
    pub(super) fn group_has_failed(&mut self) -> bool {
        self.skipping |= self.group_open && self.feed.skipping;
        self.skipping
    }

    /// A reload may have changed what this session's database is.
    pub(super) fn refresh_tenant(&mut self) {
        if self.held.is_some() || self.tx != Tx::Idle {
            return;
        }
        if self.worker.shared.generation() == self.tenant.generation {
            return;
        }
        if let Some(tenant) = self.worker.tenant(&self.tenant.account, &self.database) {
            self.tenant = tenant;
        }
    }
}
