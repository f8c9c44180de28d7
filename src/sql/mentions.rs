//! What of a text only a database's catalog can judge, besides the relations and functions that stand in its facts.

use super::facts::{Name, PrimaryReason};

/// Kept with the facts of a text, so that they can be judged anew without the text when the catalog is another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Why it must run on the primary whatever the functions do that are not built in.
    pub primary: Option<PrimaryReason>,
    /// Nobody can see into it, whatever those functions do.
    pub opaque: bool,
    /// Operators. Like the rest, empty if the text is not a read anyway.
    pub operators: Box<[Name]>,
    /// Types that something is cast to.
    pub types: Box<[Name]>,
    /// What stands behind a dot: `t.f` is a column, or a function of the row.
    pub fields: Box<[Field]>,
}

/// A name that is only ever compared: its hash. A mistake calls for more care than is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field(u32);

impl Field {
    /// Of this name behind a relation: a function of its row, perhaps.
    pub fn of(name: &str) -> Self {
        Self::hash(name.bytes())
    }

    /// Of this name behind a value, `(…).f`: a function of whatever type the value has, perhaps.
    pub fn behind_value(name: &str) -> Self {
        Self::hash(b"(.".iter().copied().chain(name.bytes()))
    }

    fn hash(bytes: impl Iterator<Item = u8>) -> Self {
        // FNV-1a
        Self(bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }
}
