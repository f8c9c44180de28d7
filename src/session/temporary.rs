//! Temporary tables hide others of their names, so what a statement means hangs on whether its session has any.
//!
//! PostgreSQL looks the names of a prepared statement up again when search_path comes to mean something else, and for a new session that is
//! so when its first temporary table is made (plancache.c, SearchPathMatchesCurrentEnvironment). A server that has lived through other
//! clients' tables has their empty schema still, and notices nothing. So the statements of a session with temporary tables are its own, and
//! made anew when the first of these is.

use super::state::Session;
use crate::{
    config::Feature,
    pool::Params,
    sql::{Facts, facts::Effect},
    wire::backend::TxStatus,
};

/// Has the session temporary tables, or perhaps?
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Temporary {
    now: bool,
    /// How often it came to have the first.
    times: u32,
    /// How often its settings may have changed.
    settings: u32,
}

/// What decides, besides its text, which of a server's statements a client's is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meaning {
    /// `Params::meaning`.
    pub settings: u64,
    /// The session's own, and the number of its temporary tables' lives.
    pub own: Option<(u32, u32)>,
}

/// Beside a number of changes of settings, to tell them from lives of temporary tables.
const LOCAL: u32 = 1 << 31;

impl Temporary {
    fn put(&mut self, now: bool) {
        if now && !self.now {
            self.times = self.times.wrapping_add(1);
        }
        self.now = now;
    }

    /// What a session with these settings means by its statements.
    pub(super) fn meaning(self, params: &Params, pid: u32) -> Meaning {
        Meaning { settings: params.meaning(), own: self.now.then_some((pid, self.times)) }
    }
}

impl Session {
    /// What its statements mean now.
    pub(super) fn meaning(&self) -> Meaning {
        let meaning = self.temporary.meaning(&self.params, self.pid);
        if !self.deeds.sets || (self.status() == TxStatus::Idle && !self.group_open) {
            return meaning;
        }
        // Literals in a text are read by settings that end with the transaction, or are not known before.
        Meaning { own: Some((self.pid, LOCAL | self.temporary.settings)), ..meaning }
    }

    /// Settings have changed, or will by a statement on its way.
    pub(super) fn note_settings(&mut self) {
        self.temporary.settings = self.temporary.settings.wrapping_add(1) % LOCAL;
    }

    /// A statement is on its way that may make temporary tables.
    pub(super) fn note_temporary(&mut self, facts: &Facts) {
        if facts.effects.is_empty() {
            return;
        }
        let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) else { return };
        let makes = |effect: &Effect| matches!(effect, Effect::TempObject | Effect::TempForTransaction);
        let blind = |effect: &Effect| matches!(effect, Effect::OpaqueCode | Effect::Execute(_));
        let makes = facts.effects.iter().any(makes);
        if makes || server.temporary && facts.effects.iter().any(blind) {
            // A session's first temporary table changes its search path, and so what its plans were made for; in this one, where somebody has had
            // some before, it does not.
            server.stale_plans |= server.temporary && !self.temporary.now;
            server.temporary = true;
            self.temporary.put(true);
        }
    }

    /// The transaction is over, and it is known what it has left.
    pub(super) fn settle_temporary(&mut self) {
        self.temporary.put(self.pins.has(Feature::TempTable));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_life_of_temporary_tables_has_its_own_meaning() {
        let mut temporary = Temporary::default();
        let mut own = |now: bool| {
            temporary.put(now);
            temporary.meaning(&Params::default(), 7).own
        };
        assert_eq!(
            [false, true, true, false, true].map(&mut own),
            [None, Some((7, 1)), Some((7, 1)), None, Some((7, 2))]
        );
    }
}
