//! No parser was built in: every text may do anything, so the primary gets it.

use crate::sql::{facts::Facts, fingerprint::Fingerprint, functions::Functions};

/// Facts of a text that nobody can read.
pub(in crate::sql) fn facts(_: &[u8], _: &Functions) -> Facts {
    Facts::unparsable("built without a parser")
}

/// Only the parser knows the public id of a form.
pub fn fingerprint(_: &[u8]) -> Option<Fingerprint> {
    None
}

/// Only the parser knows which tokens are values.
pub fn normalize(_: &[u8]) -> Option<String> {
    None
}
