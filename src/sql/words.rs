//! The words of interface.md for verbs, kinds and reasons: log fields, metric labels, `explain` and rule files.

use super::facts::{Kind, PrimaryReason, Verb};

impl Verb {
    /// Every verb.
    pub const ALL: &'static [Self] = &[
        Self::Empty,
        Self::Select,
        Self::Values,
        Self::Table,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Merge,
        Self::Truncate,
        Self::CopyTo,
        Self::CopyFrom,
        Self::Call,
        Self::Do,
        Self::Set,
        Self::Reset,
        Self::Show,
        Self::Discard,
        Self::Explain,
        Self::Prepare,
        Self::Execute,
        Self::Deallocate,
        Self::Declare,
        Self::Fetch,
        Self::Move,
        Self::Close,
        Self::Listen,
        Self::Unlisten,
        Self::Notify,
        Self::Lock,
        Self::Begin,
        Self::Commit,
        Self::Rollback,
        Self::Savepoint,
        Self::ReleaseSavepoint,
        Self::RollbackToSavepoint,
        Self::PrepareTransaction,
        Self::CommitPrepared,
        Self::RollbackPrepared,
        Self::SetTransaction,
        Self::SetConstraints,
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Grant,
        Self::Revoke,
        Self::Comment,
        Self::Vacuum,
        Self::Analyze,
        Self::Reindex,
        Self::Cluster,
        Self::Refresh,
        Self::Checkpoint,
        Self::Load,
        Self::Other,
        Self::Unknown,
    ];

    /// The verb of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verb| verb.as_str() == word)
    }

    /// The word rule files and `explain` use.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Empty => "empty",
            Verb::Select => "select",
            Verb::Values => "values",
            Verb::Table => "table",
            Verb::Insert => "insert",
            Verb::Update => "update",
            Verb::Delete => "delete",
            Verb::Merge => "merge",
            Verb::Truncate => "truncate",
            Verb::CopyTo => "copy_to",
            Verb::CopyFrom => "copy_from",
            Verb::Call => "call",
            Verb::Do => "do",
            Verb::Set => "set",
            Verb::Reset => "reset",
            Verb::Show => "show",
            Verb::Discard => "discard",
            Verb::Explain => "explain",
            Verb::Prepare => "prepare",
            Verb::Execute => "execute",
            Verb::Deallocate => "deallocate",
            Verb::Declare => "declare",
            Verb::Fetch => "fetch",
            Verb::Move => "move",
            Verb::Close => "close",
            Verb::Listen => "listen",
            Verb::Unlisten => "unlisten",
            Verb::Notify => "notify",
            Verb::Lock => "lock",
            Verb::Begin => "begin",
            Verb::Commit => "commit",
            Verb::Rollback => "rollback",
            Verb::Savepoint => "savepoint",
            Verb::ReleaseSavepoint => "release_savepoint",
            Verb::RollbackToSavepoint => "rollback_to_savepoint",
            Verb::PrepareTransaction => "prepare_transaction",
            Verb::CommitPrepared => "commit_prepared",
            Verb::RollbackPrepared => "rollback_prepared",
            Verb::SetTransaction => "set_transaction",
            Verb::SetConstraints => "set_constraints",
            Verb::Create => "create",
            Verb::Alter => "alter",
            Verb::Drop => "drop",
            Verb::Grant => "grant",
            Verb::Revoke => "revoke",
            Verb::Comment => "comment",
            Verb::Vacuum => "vacuum",
            Verb::Analyze => "analyze",
            Verb::Reindex => "reindex",
            Verb::Cluster => "cluster",
            Verb::Refresh => "refresh",
            Verb::Checkpoint => "checkpoint",
            Verb::Load => "load",
            Verb::Other => "other",
            Verb::Unknown => "unknown",
        }
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Read,
        Self::Write,
        Self::Ddl,
        Self::Transaction,
        Self::Session,
        Self::Copy,
        Self::Utility,
        Self::Empty,
        Self::Unknown,
    ];

    /// The kind of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// The word rule files and `explain` use.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Ddl => "ddl",
            Kind::Transaction => "transaction",
            Kind::Session => "session",
            Kind::Copy => "copy",
            Kind::Utility => "utility",
            Kind::Empty => "empty",
            Kind::Unknown => "unknown",
        }
    }
}

impl PrimaryReason {
    /// The word `explain`, logs and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            PrimaryReason::Writes => "writes",
            PrimaryReason::LocksRows => "locks-rows",
            PrimaryReason::VolatileFunction | PrimaryReason::LabelledVolatile => "volatile-function",
            PrimaryReason::SessionState => "session-state",
            PrimaryReason::NodeLocal => "node-local",
            PrimaryReason::UnknownFunction => "unknown-function",
            PrimaryReason::UnknownRelation => "unknown-relation",
            PrimaryReason::TransactionControl => "transaction-control",
            PrimaryReason::Unparsable => "unparsable",
            PrimaryReason::Utility => "utility",
        }
    }
}
