//! What kind of node a statement may go to: the one decision, for the proxy and for `explain`.

use crate::{
    config::{Reads, Routing, UnknownFunctions},
    policy::RoutePlace,
    sql::{
        Facts, HintTarget, Hints,
        facts::{Effect, Isolation, PrimaryReason, TxOptions, TxVerb},
    },
};

use super::RouteReason;

/// Where a statement may go, from lax to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// Anywhere: it changes only what pgsluice carries from server to server.
    Any,
    /// A replica will do.
    Replica,
    /// The primary.
    Primary,
}

/// The strictest wish of all statements that share a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Where it may go.
    pub place: Where,
    /// Why.
    pub reason: RouteReason,
    /// It changes nothing, so it may be run again elsewhere if nothing was delivered.
    pub repeatable: bool,
}

impl Wish {
    /// Of no statement at all.
    pub fn nothing() -> Self {
        Self { place: Where::Any, reason: RouteReason::SessionState, repeatable: true }
    }

    /// Together with another statement.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let repeatable = self.repeatable && other.repeatable;
        let stricter = if other.place > self.place { other } else { self };
        Self { repeatable, ..stricter }
    }
}

/// Where the session stands when the statement comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Outside a transaction.
    Autocommit,
    /// A transaction was begun, with these options in sum, and has no server yet.
    Begun(TxOptions),
}

/// The session's own defaults, as far as they decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// `default_transaction_read_only` is on.
    pub read_only: bool,
    /// `default_transaction_isolation` is serializable, which a standby refuses.
    pub serializable: bool,
}

/// The operator's part of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference {
    /// `routing.reads`.
    pub reads: Reads,
    /// `routing.unknown_functions`.
    pub unknown_functions: UnknownFunctions,
    /// What a rule says of this statement.
    pub rule: Option<RoutePlace>,
}

impl From<&Routing> for Preference {
    fn from(routing: &Routing) -> Self {
        Self { reads: routing.reads, unknown_functions: routing.unknown_functions, rule: None }
    }
}

/// Decides for a statement outside a transaction that has its server already. In doubt, the primary.
pub fn decide(facts: &Facts, hints: Hints, phase: Phase, defaults: Defaults, preference: Preference) -> Wish {
    let primary = |reason| Wish { place: Where::Primary, reason, repeatable: facts.proven_read_only };
    // What a rule or a hint says of this very statement counts more than `reads`.
    let to_replica = match (preference.rule, hints.target) {
        (Some(RoutePlace::Replica | RoutePlace::ReplicaUnproven), _) => Some(RouteReason::Rule),
        (_, Some(HintTarget::Replica)) if preference.reads == Reads::Primary => Some(RouteReason::Hint),
        _ => None,
    };
    let kept_back = |serializable: bool| {
        if serializable {
            Some(RouteReason::Serializable)
        } else if hints.target == Some(HintTarget::Primary) {
            Some(RouteReason::Hint)
        } else if preference.rule == Some(RoutePlace::Primary) {
            Some(RouteReason::Rule)
        } else if preference.reads == Reads::Primary && to_replica.is_none() {
            Some(RouteReason::Configured)
        } else {
            None
        }
    };
    let phase = match (&*facts.tx, phase) {
        ([TxVerb::Begin { options, .. }], Phase::Autocommit) if facts.statements == 1 => {
            // It will wait for its first statement; this is where it goes if that one has no wish of its own.
            return begun(*options, defaults, kept_back).map_or_else(primary, |()| Wish {
                place: Where::Replica,
                reason: RouteReason::ReadOnlyTransaction,
                repeatable: false,
            });
        }
        (_, phase) => phase,
    };
    if let Phase::Begun(options) = phase {
        return match begun(options, defaults, kept_back) {
            Err(reason) => primary(reason),
            Ok(()) if facts.proven_read_only || ends_with_transaction(facts) => Wish {
                place: Where::Replica,
                reason: RouteReason::ReadOnlyTransaction,
                repeatable: facts.proven_read_only,
            },
            Ok(()) => primary(facts.primary.map_or(RouteReason::Writes, RouteReason::from)),
        };
    }
    if facts.proven_read_only {
        return match kept_back(defaults.serializable) {
            Some(reason) => primary(reason),
            None => {
                let reason = to_replica.unwrap_or(RouteReason::ProvenRead);
                Wish { place: Where::Replica, reason, repeatable: true }
            }
        };
    }
    if preference.rule == Some(RoutePlace::ReplicaUnproven)
        && facts.tx.is_empty()
        && facts.primary != Some(PrimaryReason::Unparsable)
        && kept_back(defaults.serializable).is_none()
    {
        // Whatever a standby refuses is run again on the primary.
        return Wish { place: Where::Replica, reason: RouteReason::Rule, repeatable: true };
    }
    if facts.primary == Some(PrimaryReason::SessionState) && follows_client(facts) {
        return Wish { place: Where::Any, reason: RouteReason::SessionState, repeatable: false };
    }
    if matches!(facts.primary, Some(PrimaryReason::UnknownFunction | PrimaryReason::LabelledVolatile))
        && preference.unknown_functions == UnknownFunctions::TryReplica
        && facts.tx.is_empty()
        && kept_back(defaults.serializable).is_none()
    {
        // The data of a standby cannot change, so a refused attempt had no effect and is run again on the primary.
        return Wish { place: Where::Replica, reason: RouteReason::UnknownFunction, repeatable: true };
    }
    primary(match facts.primary {
        Some(PrimaryReason::Unparsable) => RouteReason::Unparsable,
        Some(_) if facts.statements > 1 => RouteReason::MultiStatement,
        Some(reason) => reason.into(),
        None => RouteReason::Writes,
    })
}

/// Is a transaction with these options one that a standby runs? If not, why.
fn begun(
    options: TxOptions,
    defaults: Defaults,
    kept_back: impl Fn(bool) -> Option<RouteReason>,
) -> Result<(), RouteReason> {
    if !options.read_only.unwrap_or(defaults.read_only) {
        return Err(RouteReason::TransactionControl);
    }
    let serializable = options.isolation.map_or(defaults.serializable, |level| level == Isolation::Serializable);
    kept_back(serializable).map_or(Ok(()), Err)
}

/// Only parameters are set or reset: they follow the client wherever it goes.
fn follows_client(facts: &Facts) -> bool {
    !facts.effects.is_empty()
        && facts.tx.is_empty()
        && facts
            .effects
            .iter()
            .all(|e| matches!(e, Effect::SetParameter { .. } | Effect::ResetParameter(_) | Effect::ResetAll))
}

/// What it does to the session ends with the transaction, so a READ ONLY transaction that begins with it may be on a replica.
fn ends_with_transaction(facts: &Facts) -> bool {
    facts.primary == Some(PrimaryReason::SessionState)
        && !facts.effects.is_empty()
        && facts
            .effects
            .iter()
            .all(|e| matches!(e, Effect::SetParameter { local: true, .. } | Effect::Declare { hold: false, .. }))
}

#[cfg(test)]
mod tests;
