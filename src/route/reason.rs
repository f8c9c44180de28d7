//! Why a statement went where it went: one word, the same in logs, metrics, `explain` and `SHOW pgsluice.route`.

use crate::sql::facts::PrimaryReason;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// Why a statement went where it went.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RouteReason { $($(#[$doc])* $variant,)* }

        impl RouteReason {
            /// Every reason, in the order of [`RouteReason::index`].
            pub const ALL: &'static [RouteReason] = &[$(Self::$variant,)*];
            /// Every word, in the same order; the label values of `pgsluice_statements_total`.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

reasons! {
    /// Proven to change nothing; any fresh replica will do.
    ProvenRead = "proven-read",
    /// Changes data or schema.
    Writes = "writes",
    /// FOR UPDATE and its kin.
    LocksRows = "locks-rows",
    /// A function known to have effects.
    VolatileFunction = "volatile-function",
    /// A function nobody vouched for.
    UnknownFunction = "unknown-function",
    /// A relation not known to be an ordinary table.
    UnknownRelation = "unknown-relation",
    /// Asks about the very server it runs on.
    NodeLocal = "node-local",
    /// Touches state of one server session.
    SessionState = "session-state",
    /// A transaction holds its server.
    InTransaction = "in-transaction",
    /// A rule said so.
    Rule = "rule",
    /// A hint in the text said so.
    Hint = "hint",
    /// Could not be read.
    Unparsable = "unparsable",
    /// One of several statements needs the primary.
    MultiStatement = "multi-statement",
    /// A standby refuses SERIALIZABLE.
    Serializable = "serializable",
    /// A read, but no replica is fit for it.
    NoReplica = "no-replica",
    /// Inside a transaction that declared itself READ ONLY.
    ReadOnlyTransaction = "read-only-transaction",
    /// A read, but no replica has replayed this session's writes.
    NotFresh = "not-fresh",
    /// The session is pinned to its server.
    Pinned = "pinned",
    /// A second attempt after the first node failed.
    Retried = "retried",
    /// `reads: primary`.
    Configured = "configured",
    /// Transaction control.
    TransactionControl = "transaction-control",
    /// A utility command that has no place on a standby.
    Utility = "utility",
    /// The freshness limit was given up: `on_timeout: stale`.
    Stale = "stale",
}

impl RouteReason {
    /// Its place in [`RouteReason::ALL`], for arrays of counters.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl From<PrimaryReason> for RouteReason {
    fn from(reason: PrimaryReason) -> Self {
        match reason {
            PrimaryReason::Writes => Self::Writes,
            PrimaryReason::LocksRows => Self::LocksRows,
            PrimaryReason::VolatileFunction | PrimaryReason::LabelledVolatile => Self::VolatileFunction,
            PrimaryReason::SessionState => Self::SessionState,
            PrimaryReason::NodeLocal => Self::NodeLocal,
            PrimaryReason::UnknownFunction => Self::UnknownFunction,
            PrimaryReason::UnknownRelation => Self::UnknownRelation,
            PrimaryReason::TransactionControl => Self::TransactionControl,
            PrimaryReason::Unparsable => Self::Unparsable,
            PrimaryReason::Utility => Self::Utility,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_and_words_agree() {
        for (i, reason) in RouteReason::ALL.iter().enumerate() {
            assert_eq!((reason.index(), reason.as_str()), (i, RouteReason::WORDS[i]));
        }
    }
}
