//! No parser was built in: every text may do anything, so the primary gets it.

use crate::sql::{facts::Facts, functions::Functions};

/// Facts of a text that nobody can read.
pub(in crate::sql) fn facts(_: &[u8], _: &Functions) -> Facts {
    Facts::unparsable("built without a parser")
}
