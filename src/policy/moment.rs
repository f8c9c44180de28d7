//! When a statement comes: what its rules ask of the session besides who it is.

use crate::sql::{
    Facts,
    facts::{Effect, TxVerb, Verb},
};

/// Parameters that decide where names without a schema are looked for: `$user` in search_path is the role.
const DECIDE: [&str; 3] = ["search_path", "role", "session_authorization"];

/// What is true of a session when its statement comes, besides who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// A transaction is open.
    pub in_transaction: InTransaction,
    /// It comes by the extended protocol.
    pub prepared: bool,
    /// Where names without a schema are looked for.
    pub search_path: SearchPath,
}

/// Whether a transaction is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTransaction {
    /// None is.
    No,
    /// One is.
    Yes,
    /// The text itself begins or ends one, so it has statements inside and outside.
    Partly,
}

/// Whether it is known where names without a schema are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPath {
    /// In the schemas of the principal.
    Known,
    /// It may have been changed since they were: in any schema.
    Unknown,
}

impl From<bool> for InTransaction {
    fn from(open: bool) -> Self {
        if open { Self::Yes } else { Self::No }
    }
}

impl From<bool> for SearchPath {
    fn from(known: bool) -> Self {
        if known { Self::Known } else { Self::Unknown }
    }
}

impl Moment {
    /// The same for all statements of a text: one of them may change it for those behind it.
    pub(super) fn within(self, facts: &Facts) -> Self {
        let several = facts.statements > 1;
        let controls = facts.tx.iter().any(|verb| {
            matches!(
                verb,
                TxVerb::Begin { .. } | TxVerb::Commit { .. } | TxVerb::Rollback { .. } | TxVerb::PrepareTransaction
            )
        });
        // The SET clause of a function counts for its body only.
        let of_bodies = facts.acts.iter().any(|act| {
            matches!(act.verb, Verb::Create | Verb::Alter)
                && act.parameters.iter().any(|name| **name == *"*" || DECIDE.contains(&&**name))
        });
        let moves = (several || facts.verb == Verb::Do) && moves_names(&facts.effects) || of_bodies;
        Self {
            in_transaction: if several && controls { InTransaction::Partly } else { self.in_transaction },
            search_path: if moves { SearchPath::Unknown } else { self.search_path },
            ..self
        }
    }
}

/// May names without a schema mean something else once a statement with these effects has run? What EXECUTE runs has effects of
/// its own.
pub fn moves_names(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| match effect {
        Effect::SetParameter { name, .. } | Effect::ResetParameter(name) => DECIDE.contains(&&**name),
        Effect::SetUnknownParameter | Effect::ResetAll | Effect::DiscardAll | Effect::OpaqueCode => true,
        _ => false,
    })
}
