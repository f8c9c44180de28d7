//! What a text says, independent of who sends it and where it may go.

pub use super::act::{Act, Clause, Marks};
use super::mentions::Mentions;

/// The statement's verb, as rule files and `explain` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the SQL verb it is named after")]
pub enum Verb {
    Empty,
    Select,
    Values,
    Table,
    Insert,
    Update,
    Delete,
    Merge,
    Truncate,
    CopyTo,
    CopyFrom,
    Call,
    Do,
    Set,
    Reset,
    Show,
    Discard,
    Explain,
    Prepare,
    Execute,
    Deallocate,
    Declare,
    Fetch,
    Move,
    Close,
    Listen,
    Unlisten,
    Notify,
    Lock,
    Begin,
    Commit,
    Rollback,
    Savepoint,
    ReleaseSavepoint,
    RollbackToSavepoint,
    PrepareTransaction,
    CommitPrepared,
    RollbackPrepared,
    SetTransaction,
    SetConstraints,
    Create,
    Alter,
    Drop,
    Grant,
    Revoke,
    Comment,
    Vacuum,
    Analyze,
    Reindex,
    Cluster,
    Refresh,
    Checkpoint,
    Load,
    Other,
    Unknown,
}

/// The coarse kind `explain` shows and rules match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the word of interface.md")]
pub enum Kind {
    Read,
    Write,
    Ddl,
    Transaction,
    Session,
    Copy,
    Utility,
    Empty,
    Unknown,
}

impl Kind {
    /// Of two kinds the one that binds more.
    pub fn and(self, other: Self) -> Self {
        let rank = |kind| match kind {
            Kind::Empty => 0,
            Kind::Read => 1,
            Kind::Copy => 2,
            Kind::Session => 3,
            Kind::Transaction => 4,
            Kind::Utility => 5,
            Kind::Write => 6,
            Kind::Ddl => 7,
            Kind::Unknown => 8,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// Why a text must run on the primary. The first one found, in the order of severity below, is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrimaryReason {
    /// Changes data or schema.
    Writes,
    /// FOR UPDATE / NO KEY UPDATE / SHARE / KEY SHARE at any depth.
    LocksRows,
    /// Calls a built-in function that is known to have effects or to be refused by a standby.
    VolatileFunction,
    /// Touches state that belongs to one server session.
    SessionState,
    /// Asks about the very server it runs on.
    NodeLocal,
    /// Calls a function that is volatile by its own label.
    LabelledVolatile,
    /// Calls a function that is not known to be harmless.
    UnknownFunction,
    /// Reads a relation that is not known to be an ordinary table.
    UnknownRelation,
    /// Transaction control; where it goes is the session's decision.
    TransactionControl,
    /// Could not be read (syntax, size, depth, encoding).
    Unparsable,
    /// Utility that a standby refuses or that has no place on one.
    Utility,
}

/// A name as written, folded as PostgreSQL folds it (unquoted → lower case).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Schema, if the text gave one.
    pub schema: Option<Box<str>>,
    /// Relation or function name.
    pub name: Box<str>,
}

impl Name {
    /// In the place of a relation's name: all there are in the schema, or in any if there is none.
    pub const ANY: &str = "*";

    /// Does it stand for more than one?
    pub fn is_any(&self) -> bool {
        *self.name == *Self::ANY
    }
}

/// Isolation asked for by BEGIN or SET TRANSACTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "SQL's own names")]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// Options of BEGIN, START TRANSACTION, SET TRANSACTION. `None`: not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TxOptions {
    /// READ ONLY (true) or READ WRITE (false).
    pub read_only: Option<bool>,
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// DEFERRABLE.
    pub deferrable: Option<bool>,
}

/// Transaction control in the order it stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "SQL's own names")]
pub enum TxVerb {
    /// `start` is true for the spelling START TRANSACTION, whose command tag differs.
    Begin {
        options: TxOptions,
        start: bool,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint,
    Release,
    RollbackTo,
    PrepareTransaction,
    CommitPrepared,
    RollbackPrepared,
    SetTransaction(TxOptions),
    /// SET TRANSACTION SNAPSHOT: the snapshot lives on one server, taken to be the primary.
    SetSnapshot,
}

/// What a statement does to the state of the server session that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// SET / SET SESSION / set_config(…, false) / SET ROLE (`role`) / SET SESSION AUTHORIZATION
    /// (`session_authorization`) / SET TIME ZONE (`timezone`) / SET NAMES (`client_encoding`) / SET SESSION
    /// CHARACTERISTICS (`default_transaction_…`). The name is lower case. `local`: SET LOCAL or set_config(…, true).
    SetParameter {
        /// Lower-case parameter name.
        name: Box<str>,
        /// Ends with the transaction.
        local: bool,
    },
    /// set_config with a name or a locality that is not a literal.
    SetUnknownParameter,
    /// RESET name, SET name TO DEFAULT.
    ResetParameter(Box<str>),
    /// RESET ALL.
    ResetAll,
    /// DISCARD ALL.
    DiscardAll,
    /// DISCARD TEMP.
    DiscardTemp,
    /// DISCARD PLANS or SEQUENCES: nothing to track.
    DiscardOther,
    /// LISTEN.
    Listen,
    /// UNLISTEN channel.
    Unlisten,
    /// UNLISTEN *.
    UnlistenAll,
    /// A temporary table, view, sequence or SELECT INTO TEMP, or a name in pg_temp.
    TempObject,
    /// A temporary table that is dropped at the end of its transaction (ON COMMIT DROP).
    TempForTransaction,
    /// A session-level advisory lock is taken (or tried).
    AdvisoryLock,
    /// One session-level advisory lock is given up.
    AdvisoryUnlock,
    /// pg_advisory_unlock_all().
    AdvisoryUnlockAll,
    /// PREPARE name.
    Prepare(Box<str>),
    /// EXECUTE name (also inside EXPLAIN or CREATE TABLE AS).
    Execute(Box<str>),
    /// DEALLOCATE name.
    Deallocate(Box<str>),
    /// DEALLOCATE ALL.
    DeallocateAll,
    /// DECLARE CURSOR; `hold` outlives the transaction.
    Declare {
        /// The cursor.
        name: Box<str>,
        /// WITH HOLD.
        hold: bool,
    },
    /// FETCH or MOVE in this cursor.
    Fetch(Box<str>),
    /// CLOSE name.
    CloseCursor(Box<str>),
    /// CLOSE ALL.
    CloseAllCursors,
    /// LOAD.
    Load,
    /// pg_export_snapshot().
    ExportSnapshot,
    /// currval, lastval, setseed … : depends on what this very server session did before.
    SessionValue,
    /// DO, CALL, or a function that is not known: may have done any of the above.
    OpaqueCode,
}

/// Everything known about a text (one Query string, or the text of one Parse).
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Number of statements; 0 for an empty or comment-only text.
    pub statements: u32,
    /// Verb of the first statement.
    pub verb: Verb,
    /// The strictest kind among all statements.
    pub kind: Kind,
    /// Every statement is proven to change nothing, lock nothing, and to be right on any up-to-date replica.
    pub proven_read_only: bool,
    /// Why not, if not proven.
    pub primary: Option<PrimaryReason>,
    /// Relations read.
    pub reads: Box<[Name]>,
    /// Relations written (data or definition).
    pub writes: Box<[Name]>,
    /// Functions called, in every place an expression can stand.
    pub functions: Box<[Name]>,
    /// Names behind a value, `(…).f`, that may be functions.
    pub notations: Box<[Name]>,
    /// Transaction control, in order.
    pub tx: Box<[TxVerb]>,
    /// Session effects, in order.
    pub effects: Box<[Effect]>,
    /// Session effects of code inside of it: of what PREPARE stores, which come with EXECUTE, and of what can be seen of a DO block,
    /// which may come or not.
    pub inside: Box<[Effect]>,
    /// What each statement does, in the order of the text; the statements inside of one follow it.
    pub acts: Box<[Act]>,
    /// The facts depend on the values of literals (set_config('name', …), SET transaction_read_only = 0, `or 1 = 1`, …): a hit in
    /// the shape table must not be believed, the exact text is judged each time.
    pub needs_literals: bool,
    /// What a catalog can tell more about.
    pub mentions: Mentions,
    /// The parser could not read it; `error` holds its message for `explain`.
    pub error: Option<Box<str>>,
}

impl Facts {
    /// Facts of a text that could not be read: it may do anything, so nothing is proven.
    pub fn unparsable(error: impl Into<Box<str>>) -> Self {
        Self {
            statements: 1,
            verb: Verb::Unknown,
            kind: Kind::Unknown,
            proven_read_only: false,
            primary: Some(PrimaryReason::Unparsable),
            reads: Box::default(),
            writes: Box::default(),
            functions: Box::default(),
            notations: Box::default(),
            tx: Box::default(),
            effects: Box::new([Effect::OpaqueCode]),
            inside: Box::default(),
            acts: Box::new([Act::of(Verb::Unknown)]),
            needs_literals: false,
            mentions: Mentions { primary: Some(PrimaryReason::Unparsable), opaque: true, ..Mentions::default() },
            error: Some(error.into()),
        }
    }

    /// Facts of a text without a statement.
    pub fn empty() -> Self {
        Self {
            statements: 0,
            verb: Verb::Empty,
            kind: Kind::Empty,
            proven_read_only: true,
            primary: None,
            effects: Box::default(),
            acts: Box::default(),
            mentions: Mentions::default(),
            error: None,
            ..Self::unparsable("")
        }
    }
}
