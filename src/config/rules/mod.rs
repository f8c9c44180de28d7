//! Rule files: text → typed rules, each with its place. What they mean is policy's concern.

mod glob;
mod learned;
mod raw;
mod read;
mod words;

use std::time::Duration;

pub use self::{
    glob::{Glob, NameGlob},
    learned::{Learned, LearnedList, ListedFor, Store},
    words::{
        AllowListMode, CopyPeer, FirewallMode, Hint, KINDS, OBJECTS, Presence, RouteTo, STATEMENTS, Share,
        StatementCount,
    },
};
pub(super) use self::{
    learned::read as read_store,
    read::{read, schema},
};

use super::{
    MaxLag,
    fault::{At, Fault, Warning, quote},
    hba::Range,
};

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// Where it stands.
    pub at: At,
    /// What it is.
    pub value: T,
}

/// All rules of one file.
#[derive(Clone, Debug, Default)]
pub struct RuleFile {
    /// The file as the operator named it.
    pub name: String,
    /// Its lines, to quote from.
    lines: Vec<String>,
    /// What is refused.
    pub firewall: Vec<Rule<FirewallAction>>,
    /// Where statements go.
    pub routing: Vec<Rule<RoutingAction>>,
    /// What the catalog can not tell of functions.
    pub functions: Vec<Function>,
    /// What is remembered.
    pub cache: Vec<Rule<CacheAction>>,
    /// What is changed.
    pub rewrite: Vec<Rule<RewriteAction>>,
}

impl RuleFile {
    /// Something in this file is wrong.
    pub fn fault(&self, at: &At, message: impl Into<String>, allowed: impl Into<String>) -> Fault {
        let (message, allowed) = (message.into(), allowed.into());
        Fault { file: self.name.clone(), at: at.clone(), message, allowed, excerpt: quote(&self.lines, at.line) }
    }

    /// Something in this file is probably not what was meant.
    pub fn warning(&self, at: &At, message: impl Into<String>) -> Warning {
        Warning(self.fault(at, message, ""))
    }
}

/// A rule of any section.
#[derive(Clone, Debug)]
pub struct Rule<A> {
    /// Unique in its section.
    pub name: Placed<String>,
    /// What it is about.
    pub when: When,
    /// What it does.
    pub action: A,
    /// Whether the rules after it are tried, too.
    pub after: After,
    /// Whether it does it.
    pub run: Run,
    /// Statements it matches, and statements it does not.
    pub examples: Examples,
}

/// `continue:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// A match ends the section.
    Stop,
    /// The rules after it are tried, too.
    Continue,
}

/// `dry_run:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It does what it says.
    Real,
    /// It counts and logs what it would have done.
    Dry,
}

/// `deny:` or `limit:`, and `mode:`.
#[derive(Clone, Debug)]
pub struct FirewallAction {
    /// What becomes of what matches.
    pub verdict: FirewallVerdict,
    /// `None`: as the configuration says.
    pub mode: Option<FirewallMode>,
}

/// What becomes of a statement that a firewall rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirewallVerdict {
    /// It is refused.
    Deny {
        /// What the client reads.
        message: String,
        /// Five ASCII letters or digits.
        sqlstate: [u8; 5],
    },
    /// Its result may be so long.
    Limit {
        /// Most rows.
        rows: Option<u64>,
        /// Most bytes of rows.
        bytes: Option<u64>,
    },
}

/// `route:` and `timeout:`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoutingAction {
    /// Where it goes.
    pub route: Option<RouteAction>,
    /// A statement running longer is cancelled.
    pub timeout: Option<Duration>,
}

/// `route:`.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteAction {
    /// Where it goes.
    pub to: RouteTo,
    /// Only replicas with one of these; empty: any.
    pub tags: Vec<String>,
    /// Only replicas that are not further behind.
    pub max_lag: Option<MaxLag>,
    /// What is asked for is more than is safe.
    pub safety: Safety,
}

/// `unsafe:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// Only proven reads go to a replica.
    Proven,
    /// The operator answers for it.
    Unsafe,
}

/// An entry of `functions:`.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, with or without its schema.
    pub name: Placed<String>,
    /// Relations it writes; empty: it only reads.
    pub writes: Vec<String>,
}

/// `cache:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheAction {
    /// For how long.
    pub ttl: Duration,
    /// Most rows of a result.
    pub max_rows: Option<u64>,
    /// Longest result.
    pub max_result: Option<u64>,
    /// So long after its end a result may still be served while it is fetched anew.
    pub stale: Option<Duration>,
    /// Whose it is.
    pub share: Share,
}

/// `rewrite:`; each name and text with its place.
#[derive(Clone, Debug, Default)]
pub struct RewriteAction {
    /// From relation to relation.
    pub rename_table: Vec<(Placed<String>, String)>,
    /// From table.column to column.
    pub rename_column: Vec<(Placed<String>, String)>,
    /// From relation to a condition.
    pub add_where: Vec<(Placed<String>, String)>,
    /// Unqualified relations are taken from this schema.
    pub qualify_schema: Option<Placed<String>>,
}

/// `examples:`.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// The rule matches these.
    pub matches: Vec<Placed<String>>,
    /// It does not match these.
    pub nomatches: Vec<Placed<String>>,
    /// What a rewrite rule makes of statements.
    pub rewrites: Vec<(Placed<String>, String)>,
}

impl Examples {
    /// How many.
    pub fn len(&self) -> usize {
        self.matches.len() + self.nomatches.len() + self.rewrites.len()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `when:`; what is `None` is not said. All must hold; of a list, any.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// Where it stands; the rule's name if there is none.
    pub at: At,
    /// Login names.
    pub user: Option<Vec<Glob>>,
    /// Databases as clients name them.
    pub database: Option<Vec<Glob>>,
    /// Application names.
    pub application: Option<Vec<Glob>>,
    /// Address blocks of clients.
    pub client: Option<Vec<Range>>,
    /// Words of [`STATEMENTS`].
    pub statement: Option<Vec<&'static str>>,
    /// What DDL is about.
    pub object: Option<Vec<Glob>>,
    /// Words of [`KINDS`].
    pub kind: Option<Vec<&'static str>>,
    /// Relations read.
    pub reads: Option<Vec<NameGlob>>,
    /// Relations written.
    pub writes: Option<Vec<NameGlob>>,
    /// Relations read or written.
    pub tables: Option<Vec<NameGlob>>,
    /// Functions called.
    pub functions: Option<Vec<NameGlob>>,
    /// Parameters set.
    pub parameters: Option<Vec<Glob>>,
    /// WHERE.
    pub filter: Option<Presence>,
    /// LIMIT.
    pub limit: Option<Presence>,
    /// How many statements in a text.
    pub statements: Option<StatementCount>,
    /// Whether a transaction is open.
    pub in_transaction: Option<bool>,
    /// Whether it came by the extended protocol.
    pub prepared: Option<bool>,
    /// Fingerprints.
    pub shape: Option<Vec<Box<str>>>,
    /// Finds something in the normalised text.
    pub text: Option<regex::Regex>,
    /// A condition that is always true joined by OR.
    pub tautology: Option<bool>,
    /// SELECT *.
    pub star: Option<bool>,
    /// Relations joined without a condition.
    pub cross_join: Option<bool>,
    /// UNION with a system catalog.
    pub union_catalog: Option<bool>,
    /// Reads a system catalog.
    pub catalog: Option<bool>,
    /// Makes a function that runs with its owner's rights.
    pub security_definer: Option<bool>,
    /// COPY with a program or a file of the server.
    pub copy: Option<Vec<CopyPeer>>,
}

#[cfg(test)]
mod tests;
