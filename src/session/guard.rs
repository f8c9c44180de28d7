//! `session_guard`: what becomes of state that lives in one server's session and cannot follow the client.

use std::sync::Arc;

use super::{refusal::Refusal, state::Session};
use crate::{
    base::SqlState,
    config::{Feature, GuardMode, PoolMode},
    pool::Pinned,
    sql::{
        Facts,
        facts::{Effect, TxVerb},
    },
    wire::backend::TxStatus,
};

/// What statement pooling says to BEGIN.
pub(super) const NO_TRANSACTIONS: &str = "transactions are not possible in statement pooling mode";
/// OIDs of pg_advisory_lock and its kin (pg_proc.dat): the fast path names functions by number.
const LOCKS: [u32; 8] = [2880, 2881, 2882, 2883, 2886, 2887, 2888, 2889];

/// Does the server refuse whatever comes, because its transaction has failed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not, or something before this in the same batch may end that.
    Open,
    /// Yes.
    Failed,
}

/// The feature that an effect uses.
fn feature(effect: &Effect) -> Option<Feature> {
    Some(match effect {
        Effect::Listen => Feature::Listen,
        Effect::TempObject => Feature::TempTable,
        Effect::AdvisoryLock => Feature::AdvisoryLock,
        Effect::Declare { hold: true, .. } => Feature::WithHoldCursor,
        Effect::Prepare(_) => Feature::Prepare,
        Effect::SetUnknownParameter => Feature::Set,
        Effect::Load => Feature::Load,
        _ => return None,
    })
}

impl Session {
    /// How the session stands as far as the next message is concerned.
    pub(super) fn standing(&self) -> Standing {
        match self.status() {
            TxStatus::Failed if !self.group_open => Standing::Failed,
            _ => Standing::Open,
        }
    }

    /// May a text be carried out? Asked before anything of its message is. An ordinary statement costs two comparisons.
    pub(super) fn judge(&mut self, facts: &Facts, standing: Standing) -> Option<Refusal> {
        if facts.effects.is_empty() && facts.tx.is_empty() {
            return None;
        }
        self.judge_closely(facts, standing)
    }

    fn judge_closely(&mut self, facts: &Facts, standing: Standing) -> Option<Refusal> {
        if standing == Standing::Failed && facts.statements <= 1 {
            // The server says what it says to anything then.
            return None;
        }
        if self.tenant.database.pool.mode == PoolMode::Statement
            && facts.tx.iter().any(|verb| matches!(verb, TxVerb::Begin { .. }))
        {
            return Some(Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, NO_TRANSACTIONS));
        }
        let mut used = Vec::new();
        for effect in facts.effects.iter().chain(&facts.inside) {
            used.extend(feature(effect));
            if let Effect::Execute(name) = effect {
                self.add_features_of(name, &mut used);
            }
        }
        if used.is_empty() {
            return None;
        }
        let snapshot = self.worker.shared.snapshot.load_full();
        let guard = &snapshot.config.session_guard;
        let blocked = used.iter().find(|feature| guard.mode_of(**feature) == GuardMode::Block);
        if let Some(feature) = blocked {
            return Some(block(*feature));
        }
        let pins = used.iter().find(|feature| matches!(guard.mode_of(**feature), GuardMode::Pin | GuardMode::Warn))?;
        if self.tenant.database.pool.mode == PoolMode::Session || self.pinned.is_some() {
            return None;
        }
        let most = guard.max_pinned?;
        let primary = self.tenant.view.load().primary?;
        self.pinned = Pinned::new(&self.tenant.locals.get(primary)?.pool, Some(most));
        self.pinned.is_none().then(|| too_many(*pins))
    }

    /// What a statement uses that EXECUTE names: prepared by SQL, or by the protocol.
    fn add_features_of(&self, name: &str, used: &mut Vec<Feature>) {
        for prepared in self.prepared_by_sql.named(name) {
            used.extend(prepared.known.facts.inside.iter().filter_map(feature));
        }
        if let Some(statement) = self.names.find(name.as_bytes()) {
            used.extend(self.classified(statement).known.facts.effects.iter().filter_map(feature));
        }
    }

    /// The same for a function called by its number.
    pub(super) fn judge_call(&mut self, function: u32) -> Option<Refusal> {
        let snapshot = self.worker.shared.snapshot.load();
        let blocks = snapshot.config.session_guard.mode_of(Feature::AdvisoryLock) == GuardMode::Block;
        (blocks && LOCKS.contains(&function) && self.standing() == Standing::Open).then(|| block(Feature::AdvisoryLock))
    }

    /// What is to be done with state of `feature` that lives in the server's session.
    pub(super) fn guard_of(&self, feature: Feature) -> GuardMode {
        if self.tenant.database.pool.mode == PoolMode::Session {
            return GuardMode::Pin;
        }
        self.worker.shared.snapshot.load().config.session_guard.mode_of(feature)
    }

    /// The pins have changed: counts them, and tells whoever wants to know.
    pub(super) fn note_pins(&mut self, before: super::state::Pins) {
        for feature in self.pins.iter().filter(|feature| !before.has(*feature)) {
            self.worker.metrics.pinned(feature as usize);
            if self.guard_of(feature) == GuardMode::Warn && !self.warned.has(feature) {
                self.warned.put(feature, true);
                tracing::warn!(
                    user = %self.tenant.account.user.name,
                    database = %self.database,
                    feature = feature.as_str(),
                    "a session keeps its server connection"
                );
            }
        }
        let Some(pool) =
            self.held.as_ref().filter(|_| self.pins.any()).map(|held| Arc::clone(&held.lease.local().pool))
        else {
            self.pinned = None;
            return;
        };
        if !self.pinned.as_ref().is_some_and(|pinned| pinned.is_of(&pool)) {
            // What pins was not seen before it ran, so it is not refused any more.
            self.pinned = Pinned::new(&pool, None);
        }
    }
}

fn block(feature: Feature) -> Refusal {
    let word = feature.as_str();
    Refusal::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("session feature \"{word}\" is not available through this connection pool"),
    )
    .detail(format!("It is blocked by session_guard ({word})."))
}

fn too_many(feature: Feature) -> Refusal {
    Refusal::new(SqlState::LIMIT_EXCEEDED, "too many sessions keep a server connection for themselves, try again later")
        .detail(format!("session_guard.max_pinned is reached, and {} would be one more.", feature.as_str()))
}
