//! What only PostgreSQL's own parser can do.

use crate::sql::{
    edit::{CannotEdit, Edited},
    fingerprint::Fingerprint,
    places::{Changes, ConditionColumn, Places},
};

/// Only the parser knows the public id of a form.
pub fn fingerprint(_: &[u8]) -> Option<Fingerprint> {
    None
}

/// Only the parser knows which tokens are values.
pub fn normalize(_: &[u8]) -> Option<String> {
    None
}

/// Nothing can be changed in a text that nobody can read.
pub fn can_edit() -> bool {
    false
}

/// A text that nobody can read has no places.
///
/// # Errors
/// Always.
pub fn places(_: &[u8]) -> Result<Places, CannotEdit> {
    Err(CannotEdit::new(ABSENT))
}

/// Nothing can be changed in a text that nobody can read.
///
/// # Errors
/// Always.
pub fn edited(
    _: &[u8],
    _: impl FnOnce(&str, &Places) -> Result<Changes, CannotEdit> + Send,
) -> Result<Option<Edited>, CannotEdit> {
    Err(CannotEdit::new(ABSENT))
}

/// No condition can be read.
///
/// # Errors
/// Always.
pub fn condition(_: &str) -> Result<Vec<ConditionColumn>, CannotEdit> {
    Err(CannotEdit::new(ABSENT))
}

const ABSENT: &str = "rewriting needs PostgreSQL's own parser, and this program was built without it";
