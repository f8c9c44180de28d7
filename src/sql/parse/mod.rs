//! The only place that names the parser: PostgreSQL's own grammar (pg_query), and the walk over its trees.
//!
//! Without the feature `pg_query`, which needs a C compiler, nothing can be parsed; what cannot be parsed is not a read.

#[cfg_attr(not(feature = "pg_query"), path = "absent.rs")]
mod grammar;

pub(super) use grammar::facts;
pub use grammar::{can_edit, condition, edited, fingerprint, normalize, places};
