//! What each statement of a text does, as the firewall asks for it.

use std::{fmt, ops};

use super::facts::{Kind, Verb};

/// One thing that a text does: each of its statements, and each statement inside one: a data-modifying WITH query, what EXPLAIN,
/// PREPARE, DECLARE, COPY, CREATE VIEW and CREATE TABLE AS have in them, and what can be read of the body of a function or a DO block.
/// Sub-selects are no acts of their own, but leave their marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The statement's verb.
    pub verb: Verb,
    /// What CREATE, ALTER, DROP, GRANT, COMMENT… are about, in PostgreSQL's words: "table", "materialized view", "role", "system".
    pub object: Option<&'static str>,
    /// WHERE of UPDATE, DELETE, and of a SELECT that reads relations; ON and AND of MERGE … UPDATE and DELETE. Missing also if it is
    /// always true, and, where rows are changed, if it names none of their columns.
    pub filter: Clause,
    /// LIMIT or FETCH FIRST of a SELECT that reads relations and may return more than one row.
    pub limit: Clause,
    /// What stands out in it.
    pub marks: Marks,
    /// Parameters it sets or resets, lower case, by whatever spelling (`SET ROLE` sets `role`, RESET ALL `all`); `*` for one whose
    /// name is computed. Also those of ALTER ROLE, ALTER DATABASE, ALTER SYSTEM and of a function.
    pub parameters: Box<[Box<str>]>,
}

impl Act {
    /// An act without particulars.
    pub fn of(verb: Verb) -> Self {
        Self {
            verb,
            object: None,
            filter: Clause::NotApplicable,
            limit: Clause::NotApplicable,
            marks: Marks::NONE,
            parameters: Box::default(),
        }
    }

    /// The kinds of what it does: that of its verb, and write for what changes data besides. What is inside of it has acts of its own.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        let writes = self.verb == Verb::CopyFrom || self.marks.contains(Marks::WRITES);
        [Some(self.kind()), writes.then_some(Kind::Write)].into_iter().flatten()
    }

    fn kind(&self) -> Kind {
        match self.verb {
            Verb::Empty => Kind::Empty,
            Verb::Select | Verb::Values | Verb::Table | Verb::Explain => Kind::Read,
            Verb::Insert | Verb::Update | Verb::Delete | Verb::Merge | Verb::Truncate | Verb::Call | Verb::Do => {
                Kind::Write
            }
            Verb::CopyTo | Verb::CopyFrom => Kind::Copy,
            Verb::Set
            | Verb::Reset
            | Verb::Show
            | Verb::Discard
            | Verb::Prepare
            | Verb::Execute
            | Verb::Deallocate
            | Verb::Declare
            | Verb::Fetch
            | Verb::Move
            | Verb::Close
            | Verb::Listen
            | Verb::Unlisten
            | Verb::Load => Kind::Session,
            Verb::Begin
            | Verb::Commit
            | Verb::Rollback
            | Verb::Savepoint
            | Verb::ReleaseSavepoint
            | Verb::RollbackToSavepoint
            | Verb::PrepareTransaction
            | Verb::CommitPrepared
            | Verb::RollbackPrepared
            | Verb::SetTransaction
            | Verb::SetConstraints => Kind::Transaction,
            Verb::Notify
            | Verb::Lock
            | Verb::Checkpoint
            | Verb::Vacuum
            | Verb::Analyze
            | Verb::Reindex
            | Verb::Cluster
            | Verb::Refresh => Kind::Utility,
            Verb::Alter if self.object == Some("system") => Kind::Utility,
            Verb::Create | Verb::Alter | Verb::Drop | Verb::Grant | Verb::Revoke | Verb::Comment | Verb::Other => {
                Kind::Ddl
            }
            Verb::Unknown => Kind::Unknown,
        }
    }
}

/// Whether a clause stands in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Clause {
    /// The statement is of a kind that has no such clause, or has no use for it.
    NotApplicable,
    /// It is there.
    Present,
    /// It is not there, or says nothing.
    Missing,
}

impl Clause {
    /// The word rule files use.
    pub fn as_str(self) -> &'static str {
        match self {
            Clause::NotApplicable => "not-applicable",
            Clause::Present => "present",
            Clause::Missing => "missing",
        }
    }
}

/// What stands out in a statement, its sub-selects included: a set of the constants below.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Marks(u16);

impl Marks {
    /// Nothing does.
    pub const NONE: Self = Self(0);
    /// `SELECT *` or `SELECT t.*`, except inside EXISTS.
    pub const STAR: Self = Self(1);
    /// Relations are joined without any condition between them.
    pub const CROSS_JOIN: Self = Self(1 << 1);
    /// A set operation puts a system catalog beside something else.
    pub const UNION_CATALOG: Self = Self(1 << 2);
    /// A condition is widened by an OR that is always true.
    pub const TAUTOLOGY: Self = Self(1 << 3);
    /// A system catalog or information_schema is read.
    pub const CATALOG: Self = Self(1 << 4);
    /// COPY from or to a program.
    pub const COPY_PROGRAM: Self = Self(1 << 5);
    /// COPY from or to a file of the server.
    pub const COPY_FILE: Self = Self(1 << 6);
    /// A function that runs with its owner's rights.
    pub const SECURITY_DEFINER: Self = Self(1 << 7);
    /// A function is called that is known to write.
    pub const WRITES: Self = Self(1 << 8);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::STAR, "star"),
        (Self::CROSS_JOIN, "cross-join"),
        (Self::UNION_CATALOG, "union-catalog"),
        (Self::TAUTOLOGY, "tautology"),
        (Self::CATALOG, "catalog"),
        (Self::COPY_PROGRAM, "copy-program"),
        (Self::COPY_FILE, "copy-file"),
        (Self::SECURITY_DEFINER, "security-definer"),
        (Self::WRITES, "writes"),
    ];

    /// True if all of `others` are among them.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Their names, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(mark, _)| self.contains(*mark)).map(|(_, name)| name)
    }
}

impl ops::BitOrAssign for Marks {
    fn bitor_assign(&mut self, others: Self) {
        self.0 |= others.0;
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
