//! The words of rule files.

use crate::config::value::words;

/// What `when.object` may say: kinds of objects in PostgreSQL's words.
pub const OBJECTS: &[&str] = &[
    "access method",
    "aggregate",
    "cast",
    "collation",
    "column",
    "constraint",
    "conversion",
    "database",
    "default privileges",
    "domain",
    "event trigger",
    "extension",
    "foreign data wrapper",
    "foreign schema",
    "foreign table",
    "function",
    "index",
    "language",
    "large object",
    "materialized view",
    "operator",
    "operator class",
    "operator family",
    "parameter",
    "policy",
    "procedure",
    "publication",
    "role",
    "routine",
    "rule",
    "schema",
    "sequence",
    "server",
    "statistics",
    "subscription",
    "system",
    "table",
    "tablespace",
    "text search configuration",
    "text search dictionary",
    "text search parser",
    "text search template",
    "transform",
    "trigger",
    "type",
    "user mapping",
    "view",
];

/// What `when.statement` may say, in the words of `explain`.
pub const STATEMENTS: &[&str] = &[
    "select",
    "values",
    "table",
    "insert",
    "update",
    "delete",
    "merge",
    "truncate",
    "copy_to",
    "copy_from",
    "call",
    "do",
    "set",
    "reset",
    "show",
    "discard",
    "explain",
    "prepare",
    "execute",
    "deallocate",
    "declare",
    "fetch",
    "move",
    "close",
    "listen",
    "unlisten",
    "notify",
    "lock",
    "begin",
    "commit",
    "rollback",
    "savepoint",
    "release_savepoint",
    "rollback_to_savepoint",
    "prepare_transaction",
    "commit_prepared",
    "rollback_prepared",
    "set_transaction",
    "set_constraints",
    "create",
    "alter",
    "drop",
    "grant",
    "revoke",
    "comment",
    "vacuum",
    "analyze",
    "reindex",
    "cluster",
    "refresh",
    "checkpoint",
    "load",
    "other",
    "unknown",
    "empty",
];
/// What `when.kind` may say.
pub const KINDS: &[&str] = &["read", "write", "ddl", "transaction", "session", "copy", "utility", "empty", "unknown"];

/// `mode:` of a firewall rule, and of all that do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirewallMode {
    /// The rule rests.
    Off,
    /// What it matches is counted and logged.
    Detect,
    /// What it matches is refused.
    Protect,
}

/// What the allow list does for a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllowListMode {
    /// Nothing.
    Off,
    /// Remembers what comes.
    Learn,
    /// Counts and logs what it does not know.
    Detect,
    /// Refuses what it does not know.
    Protect,
}

/// Something that is there, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is there.
    Present,
    /// It is not, or means nothing.
    Missing,
}

/// `statements: many`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatementCount {
    /// Exactly one, or none.
    One,
    /// More than one in a text.
    Many,
}

/// `copy:` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyPeer {
    /// COPY … PROGRAM.
    Program,
    /// COPY to or from a file of the server.
    File,
}

/// `to:` of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteTo {
    /// The node that takes writes.
    Primary,
    /// A replica.
    Replica,
}

/// `share:` of a cache rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Results are the same for all users.
    All,
    /// Each user has results of its own.
    User,
}

/// A hint that a user may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// To the primary.
    Primary,
    /// To a replica, whatever `reads` says.
    Replica,
    /// Less time.
    Timeout,
    /// Neither use nor fill the cache.
    NoCache,
}

words! { FirewallMode { "off" => Off, "detect" => Detect, "protect" => Protect } }
words! { AllowListMode { "off" => Off, "learn" => Learn, "detect" => Detect, "protect" => Protect } }
words! { Presence { "present" => Present, "missing" => Missing } }
words! { StatementCount { "one" => One, "many" => Many } }
words! { CopyPeer { "program" => Program, "file" => File } }
words! { RouteTo { "primary" => Primary, "replica" => Replica } }
words! { Share { "all" => All, "user" => User } }
words! { Hint { "primary" => Primary, "replica" => Replica, "timeout" => Timeout, "no_cache" => NoCache } }

/// A word of a list.
macro_rules! listed {
    ($(#[$doc:meta])* $name:ident = $list:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name(pub(super) &'static str);

        impl crate::config::value::Value for $name {
            fn read(
                tree: &crate::config::tree::Tree,
                findings: &mut crate::config::fault::Findings,
            ) -> Option<Self> {
                let allowed = $list.join(", ");
                let text = crate::config::value::scalar(tree, &allowed, findings)?;
                let known = $list.iter().find(|word| **word == text);
                if known.is_none() {
                    findings.fault(&tree.at, format!("`{text}` does not fit here"), allowed);
                }
                known.map(|word| Self(word))
            }

            fn schema() -> serde_json::Value {
                serde_json::json!({ "enum": $list })
            }
        }
    };
}

listed! {
    /// One of [`STATEMENTS`].
    StatementWord = STATEMENTS
}
listed! {
    /// One of [`KINDS`].
    KindWord = KINDS
}
