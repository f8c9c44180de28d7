//! After the answer: what the transaction did to its server's session is settled, so that the server goes back to the pool as clean as
//! it came, or marked as what it is.

use super::{deeds::Deeds, end::End, state::Session};
use crate::{
    base::SqlState,
    config::{Consistency, Feature, PoolMode},
    route::{Floor, Outcome as NodeOutcome, Role},
    wire::backend::TxStatus,
};

impl Session {
    /// The last reply is in. Outside a transaction the server goes back; inside one it stays.
    pub(super) async fn settle(&mut self) -> Result<(), End> {
        self.note_reported();
        self.learn_in_front();
        let failed = self.feed.error.is_some();
        // Also in the middle of a transaction: its COMMIT will be a ROLLBACK, or a savepoint is gone back to.
        self.deeds.rolled_back |= failed;
        if self.feed.is_settled() {
            self.settle_sql_names(failed || self.feed.skipping || self.skipping);
        }
        if self.held.is_none() || self.group_open {
            return Ok(());
        }
        if self.feed.status != Some(TxStatus::Idle) {
            return Ok(());
        }
        self.end_cursors();
        // A statement that failed on its own has changed nothing; in a transaction of several that is not known, and code that
        // we cannot see into may have committed before it failed (COMMIT in a procedure or a DO block).
        let undone = failed && !self.deeds.controlled && !self.deeds.opaque;
        if undone {
            // Nor has it set anything. Not every value the server has can be set again (max_connections).
            self.deeds.touched.clear();
            self.deeds.reset_all = false;
            // But an advisory lock that code of its own took is still held.
            self.deeds.residue |= !self.deeds.strangers.is_empty();
            self.deeds.strangers.clear();
        }
        let runs_code = !self.deeds.strangers.is_empty() || self.deeds.opaque || self.deeds.residue;
        if !self.deeds.strangers.is_empty() || self.deeds.opaque {
            Box::pin(self.meet_strangers(failed)).await;
        }
        if self.deeds.wrote && !undone {
            self.dirty();
        }
        if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
            // Neither is undone by a rollback.
            server.own_sequences |= self.deeds.wrote || self.deeds.opaque;
            server.code |= runs_code;
        }
        self.deeds.may_define &= !undone;
        self.note_hidden_ddl();
        if self.deeds.ddl {
            // Once more than when it ran: what was prepared in between may be of a schema that was rolled back.
            self.schema_changed();
            self.deeds.redefines = false;
            if std::mem::take(&mut self.deeds.defaults) {
                self.tenant.catalog.change_defaults();
            }
            // A temporary table may be gone.
            self.deeds.living |= self.pins.has(Feature::TempTable);
        }
        (self.deeds.wrote, self.deeds.controlled, self.deeds.ddl, self.deeds.lazy_commit) =
            (false, false, false, false);
        (self.deeds.moves_names, self.deeds.sets) = (false, false);
        if self.held.as_ref().is_some_and(|held| !held.lent_names.is_empty()) && !Box::pin(self.take_names_back()).await
        {
            self.held = None;
        }
        if self.deeds.left_something() {
            let theirs = self.deeds.living || !self.deeds.touched.is_empty();
            if self.held.is_some() {
                Box::pin(self.read_back()).await;
            }
            self.tell_defaults();
            if theirs && self.held.is_none() && !self.deeds.discard {
                // What the client was told it has set is not known, so nothing can be run for it any more.
                let message = "the server connection was lost before the session's settings could be read back";
                return Err(End::Fatal(SqlState::CONNECTION_FAILURE, message.into()));
            }
        }
        self.deeds.rolled_back = false;
        self.settle_temporary();
        if self.held.is_none() {
            self.pinned = None;
            self.deeds = Deeds::default();
            return Ok(());
        }
        if self.pins.any() || self.tenant.database.pool.mode == PoolMode::Session {
            return Ok(());
        }
        if self.handle.is_cancel_under_way() {
            Box::pin(self.release()).await;
        } else {
            self.give_back();
        }
        Ok(())
    }

    /// From now on a replica must have what the primary has. A replica itself cannot have written.
    pub(super) fn dirty(&mut self) {
        if self.last.role == Some(Role::Replica) || self.tenant.database.routing.consistency == Consistency::Off {
            return;
        }
        let since = self.marked();
        let lazy = match self.params.value("synchronous_commit") {
            Some(value) => value == "off",
            None => {
                let server = self.held.as_ref().and_then(|held| held.lease.peek());
                server.is_none_or(|server| server.flushes != Some(true))
            }
        };
        let lazy = lazy || self.deeds.lazy_commit;
        self.floor = if lazy { Floor::DirtyAsync { since } } else { Floor::Dirty { since } };
    }

    /// Gives the server back once no cancel can hit it late.
    pub(super) async fn release(&mut self) {
        if !self.handle.no_cancel_under_way().await {
            self.held = None;
            return;
        }
        self.give_back();
    }

    fn give_back(&mut self) {
        self.pinned = None;
        if let Some(mut held) = self.held.take() {
            self.account(&held, NodeOutcome::Answered);
            self.feed.status = None;
            if std::mem::take(&mut self.deeds.residue)
                && let Some(server) = held.lease.server()
            {
                server.leave(self.owner, std::mem::take(&mut self.deeds.residue_of_names));
            }
            held.lease.give_back(self.mark);
        }
    }

    /// Tells the balance how the node did.
    pub(super) fn account(&self, held: &super::state::Held, outcome: NodeOutcome) {
        if let Some(load) = self.tenant.loads.get(held.node) {
            let took = self.mark.saturating_duration_since(held.since);
            load.finished(self.worker.index, self.marked(), took, outcome);
        }
    }

    /// All prepared statements of the held server are deallocated, or will be by what is about to be sent: they get new names from
    /// now on.
    pub(super) fn forget_statements(&mut self) {
        let Some(held) = &mut self.held else { return };
        held.lent_names.clear();
        self.prepared_by_sql.clear();
        if let Some(server) = held.lease.server() {
            server.prepared.clear();
        }
    }
}
