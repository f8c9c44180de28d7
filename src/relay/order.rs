//! What a server still owes us, in order.

use std::collections::VecDeque;

use crate::{pool::StatementId, wire::backend::ResultType};

/// A statement's or portal's name that means nothing: whatever is done with it changes nothing, and using it fails.
pub const NO_SUCH: &[u8] = b"pgsluice_none";

/// Which request a reply answers; it decides which message ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Ends at ReadyForQuery. Function calls too.
    Query,
    /// ParseComplete.
    Parse,
    /// BindComplete.
    Bind,
    /// CloseComplete.
    Close,
    /// ParameterDescription, then what a portal's Describe gives.
    DescribeStatement,
    /// RowDescription or NoData.
    DescribePortal,
    /// CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// ReadyForQuery.
    Sync,
    /// As many ReadyForQuery as come before a CloseComplete: the answers to Syncs that were sent into a COPY which has failed.
    Strays,
}

/// Who gets the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The client.
    Pass,
    /// The client, as far as `Feed::meter` lets it.
    Metered,
    /// Nobody: the request was ours.
    Swallow,
    /// We do: its rows are kept for the session.
    Collect,
    /// The same, but that it fails is no matter.
    Try,
}

impl Show {
    /// Was it the client who asked?
    pub fn is_theirs(self) -> bool {
        matches!(self, Self::Pass | Self::Metered)
    }
}

/// What becomes true on the server when the reply says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Nothing to note.
    Nothing,
    /// This named statement exists.
    Prepared(StatementId),
    /// This named statement is gone.
    Closed(StatementId),
    /// The unnamed statement is this one.
    Unnamed(StatementId),
    /// This named statement exists. If it cannot be made here, the request is not for this server.
    OnTrial(StatementId),
    /// This named statement exists under the client's own name. If it cannot be made, that is what the statement that names it
    /// has to say.
    Lent,
    /// The client is told what its statement gives: the number is the session's.
    Told(u32),
    /// A Describe of ours: the number is an index into [`super::Feed::asked`].
    Asked(u32),
    /// A Bind to a name of ours: the number is the session's.
    Bound(u32),
}

/// A question of ours: what does this statement of the server give?
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Which.
    pub id: StatementId,
    /// What it must give, or the request is not for this server.
    pub must_be: Option<ResultType>,
    /// The answer.
    pub is: Option<ResultType>,
}

/// Does the reply settle a change the client made to its own statement names?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// No.
    Untouched,
    /// One change is settled.
    Change,
}

/// One expectation.
#[derive(Debug, PartialEq, Eq)]
pub enum Owed {
    /// The server's reply.
    Reply {
        /// To what.
        what: What,
        /// For whom.
        show: Show,
        /// And then.
        ack: Ack,
        /// And of the client's names.
        names: Names,
    },
    /// A reply of our own, said when its turn comes; dropped like a server's when an error comes first.
    Local(Box<[u8]>, Names),
    /// A request that must fail on the server; the client hears this error of ours instead.
    Poison(Box<[u8]>),
}

impl Owed {
    /// A client's request.
    pub fn pass(what: What) -> Self {
        Self::Reply { what, show: Show::Pass, ack: Ack::Nothing, names: Names::Untouched }
    }

    /// A client's request whose result is counted.
    pub fn metered(what: What) -> Self {
        Self::Reply { what, show: Show::Metered, ack: Ack::Nothing, names: Names::Untouched }
    }

    /// What becomes true with the reply.
    pub fn ack(&self) -> Ack {
        match self {
            Self::Reply { ack, .. } => *ack,
            Self::Local(..) | Self::Poison(_) => Ack::Nothing,
        }
    }

    /// A question of ours that may fail.
    pub fn attempt() -> Self {
        Self::Reply { what: What::Query, show: Show::Try, ack: Ack::Nothing, names: Names::Untouched }
    }

    /// A request of ours.
    pub fn swallow(what: What, ack: Ack) -> Self {
        Self::Reply { what, show: Show::Swallow, ack, names: Names::Untouched }
    }
}

/// Ordered expectations; PostgreSQL answers strictly in order.
#[derive(Debug, Default)]
pub struct ReplyQueue {
    owed: VecDeque<Owed>,
}

impl ReplyQueue {
    /// The next expectation.
    pub fn front(&self) -> Option<&Owed> {
        self.owed.front()
    }

    /// Adds one at the end.
    pub fn push(&mut self, owed: Owed) {
        self.owed.push_back(owed);
    }

    /// Gives its memory back while nothing is owed.
    pub fn rest(&mut self) {
        if self.owed.is_empty() {
            self.owed = VecDeque::new();
        }
    }

    /// Nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// How many replies are owed.
    pub fn len(&self) -> usize {
        self.owed.len()
    }

    /// Done with the first one.
    pub(super) fn pop(&mut self) -> Option<Owed> {
        self.owed.pop_front()
    }

    /// A statement's Describe has got its first half.
    pub(super) fn halve_describe(&mut self) {
        if let Some(Owed::Reply { what, .. }) = self.owed.front_mut() {
            *what = What::DescribePortal;
        }
    }

    /// An error: the server skips to the next Sync, whatever comes before it, a Query too (measured). Gives what was skipped.
    pub(super) fn skip_to_sync(&mut self) -> impl Iterator<Item = Owed> + '_ {
        let keep = self
            .owed
            .iter()
            .position(|owed| matches!(owed, Owed::Reply { what: What::Sync | What::Strays, .. }))
            .unwrap_or(self.owed.len());
        self.owed.drain(..keep)
    }

    /// Replies of our own are not said any more.
    pub(super) fn drop_locals(&mut self) {
        self.owed.retain(|owed| !matches!(owed, Owed::Local(..)));
    }

    /// Forgets everything (the server is gone).
    pub fn clear(&mut self) {
        self.owed.clear();
    }

    /// The client's requests that still wait for a ReadyForQuery.
    pub fn ready_owed(&self) -> usize {
        self.owed
            .iter()
            .filter(|owed| matches!(owed, Owed::Reply { what: What::Sync | What::Query, show, .. } if show.is_theirs()))
            .count()
    }

    /// Gives back memory after a long pipeline.
    pub fn shrink(&mut self) {
        if self.owed.is_empty() && self.owed.capacity() > 64 {
            self.owed = VecDeque::new();
        }
    }
}
