//! The only place that names a parser, with one door for all of them.
//!
//! PostgreSQL's own grammar (pg_query) needs a C compiler. Without the feature `pg_query` there is `sqlparser`, in Rust alone: it
//! proves fewer texts to be reads and rewrites none. Without either nothing can be parsed; what cannot be parsed is not a read.

#[cfg(not(any(feature = "pg_query", feature = "sqlparser")))]
mod absent;
#[cfg(any(feature = "pg_query", feature = "sqlparser", test))]
mod depth;
#[cfg(feature = "pg_query")]
mod grammar;
#[cfg(any(feature = "pg_query", feature = "sqlparser", test))]
mod guard;
// In tests always: they compare the two.
#[cfg(any(all(feature = "sqlparser", not(feature = "pg_query")), test))]
mod portable;
#[cfg(any(feature = "pg_query", feature = "sqlparser", test))]
mod relations;
#[cfg(all(feature = "pg_query", test))]
mod tests;
#[cfg(not(feature = "pg_query"))]
mod uneditable;

#[cfg(not(any(feature = "pg_query", feature = "sqlparser")))]
use absent as parser;
#[cfg(feature = "pg_query")]
use grammar as parser;
#[cfg(all(feature = "sqlparser", not(feature = "pg_query")))]
use portable as parser;

#[cfg(feature = "pg_query")]
pub use grammar::{can_edit, condition, edited, fingerprint, normalize, places};
pub(super) use parser::facts;
#[cfg(not(feature = "pg_query"))]
pub use uneditable::{can_edit, condition, edited, fingerprint, normalize, places};

/// Does an unqualified relation of this name show the very server, or session, it is read in?
#[cfg(any(feature = "pg_query", feature = "sqlparser"))]
pub(super) fn is_node_local(name: &str) -> bool {
    matches!(relations::classify("", name), relations::RelationClass::NodeLocal | relations::RelationClass::Session)
}

/// Nothing is read here that could name one.
#[cfg(not(any(feature = "pg_query", feature = "sqlparser")))]
pub(super) fn is_node_local(_: &str) -> bool {
    true
}
