//! A request on its way to a server and its replies on their way back, again if need be; and what is left when it fails.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    cursors::Cursors,
    cycle::{Composing, Load},
    end::End,
    refusal::Refusal,
    state::{Held, Session},
    tx::{Deferred, Tx},
    worker::Worker,
};
use crate::{
    base::SqlState,
    observe::{ClientState, Sent},
    pool::{Found, Together},
    relay::{Ack, Attempt, Outcome, Owed, Until, What},
    route::{Outcome as NodeOutcome, Role, RouteReason, Tried, Where, Wish},
    wire::{
        backend::{self, TxStatus},
        frontend,
    },
};
/// A proven read that lost its server with nothing delivered is run again this often.
const ATTEMPTS: u32 = 3;

impl Session {
    /// Carries a request to a server and its replies back, again if need be.
    pub(super) async fn exchange(&mut self, load: &mut dyn Load, mut wish: Wish) -> Result<(), End> {
        let mut tried = Tried::default();
        let mut attempt = 0;
        let mut learn = false;
        let mut may_try_out = true;
        let _busy = Busy::new(&self.worker, self.tenant.slot);
        let _changing = self.deeds.redefines.then(|| self.tenant.catalog.changing());
        let started = Instant::now();
        self.mark = started;
        loop {
            attempt += 1;
            let newly = self.held.is_none();
            if newly {
                if let Err(refusal) = self.acquire(wish, &mut tried).await {
                    self.count(Sent::Refused, load.statements());
                    return self.refuse(load, &refusal);
                }
            } else if !self.group_open || self.last.reason.is_none() {
                self.last.reason = Some(RouteReason::InTransaction);
                if self.status() == TxStatus::Idle {
                    self.last.reason = Some(RouteReason::Pinned);
                }
                self.last.pinned = self.pins.reason();
                self.last.verdict = None;
                self.last.refused = false;
                self.last.waited = Duration::ZERO;
            }
            if !newly {
                // Meant for the statement before, or for nothing.
                self.handle.cancels_have_arrived().await;
            }
            let sent = match (newly, self.last.role) {
                (false, _) => Sent::Held,
                (true, Some(Role::Replica)) => Sent::Replica,
                (true, _) => Sent::Primary,
            };
            self.feed.reset();
            if self.prologue() == Together::No && !self.finish_prologue().await {
                self.handle.rest();
                self.drop_server(NodeOutcome::Answered);
                if self.deeds.leaves_identity.is_some() && !self.deeds.identity_is_gone {
                    // As on a server, there is a way out of a role that was dropped.
                    self.deeds.identity_is_gone = true;
                    continue;
                }
                let refusal = match self.feed.hidden_error.take().map(|said| *said) {
                    Some((sqlstate, message)) => Refusal::new(sqlstate, message.into_string()),
                    None => Refusal::new(
                        SqlState::CONNECTION_FAILURE,
                        "the session's settings could not be restored on a server",
                    ),
                };
                return self.refuse(load, &refusal);
            }
            let mark = self.client.out.len();
            let whole = newly && load.is_whole();
            let mut repeatable = whole && wish.repeatable;
            self.lend_names_in_sql();
            load.rewind();
            // A standby changes nothing, so whatever goes there may run in vain.
            let harmless = repeatable || (whole && self.last.role == Some(Role::Replica));
            let on_trial = harmless && may_try_out && load.try_out(self);
            self.feed.attempt = if repeatable { Attempt::Repeatable } else { Attempt::Final };
            let (composing, outcome) = loop {
                let composing = load.compose(self);
                if composing == Composing::Done && !repeatable && !on_trial {
                    load.consume(self);
                }
                self.feed.say_locals(self.client.say());
                if let Some(server) = self.held.as_ref().and_then(|held| held.lease.peek()) {
                    self.handle.begin(&server.target, self.feed.ours_in_front());
                }
                let until = if composing == Composing::Done { load.until() } else { Until::Settled };
                let outcome = self.pump(until).await;
                if composing == Composing::Done || !matches!(outcome, Outcome::Done) {
                    break (composing, outcome);
                }
                // What came before the pause has been answered, and the client has it.
                (repeatable, self.feed.attempt) = (false, Attempt::Final);
                self.settle_server();
                // One that was meant for what is over must not hit what follows.
                self.handle.cancels_have_arrived().await;
            };
            self.mark = Instant::now();
            self.handle.rest();
            match outcome {
                Outcome::Done => {
                    load.consume(self);
                    self.count(sent, load.statements());
                    self.worker.metrics.statement_seconds(
                        self.tenant.slot,
                        sent,
                        self.mark.saturating_duration_since(started),
                    );
                    if self.feed.hidden_error.is_some() {
                        // Something of ours failed in front of the client's request, which cannot be. What ran after it ran with
                        // settings that are not known, so neither this server nor this session can go on.
                        self.drop_server(NodeOutcome::Failed);
                        return Err(End::Fatal(
                            SqlState::CONNECTION_FAILURE,
                            "the session's settings could not be restored on a server".into(),
                        ));
                    }
                    if self.deeds.ddl || self.feed.stale_plan {
                        self.schema_changed();
                    }
                    if learn && self.feed.error.is_none() {
                        for route in load.routes(self) {
                            self.worker.misroutes.learn(route);
                        }
                        // Perhaps the catalog has changed, and nobody has told us yet.
                        self.tenant.catalog.miss();
                    }
                    self.tx = Tx::Idle;
                    // A Query behind a failed message of an open group was skipped as well: its group still waits for a Sync.
                    self.group_open = !(load.ends_cycle() || self.feed.strays.group_over) || self.feed.skipping;
                    if self.feed.is_settled() {
                        self.settle_names();
                        self.settle_server();
                    }
                    self.skipping = self.group_open && self.feed.skipping;
                    return Ok(());
                }
                Outcome::Misrouted => {
                    self.client.out.truncate(mark);
                    self.undo_names();
                    self.serializable |= self.feed.too_isolated;
                    may_try_out = !self.feed.not_here;
                    learn = !(self.feed.too_isolated || self.feed.not_here || self.feed.stale_plan);
                    self.give_up_stale(load);
                    self.abandon_attempt(composing == Composing::Done && load.ends_cycle()).await;
                    wish = Wish { place: Where::Primary, reason: RouteReason::Retried, repeatable: false };
                    // It is not the read it was taken for; nobody knows what it does, but the primary lets it.
                    self.deeds.wrote |= learn;
                    self.deeds.opaque |= learn;
                }
                Outcome::ServerLost(_)
                    if self.feed.fatal.as_ref().is_some_and(|f| f.0 == SqlState::PROTOCOL_VIOLATION) =>
                {
                    // The client's doing: a message that has no place in its COPY.
                    let fatal = self.feed.fatal.take();
                    self.drop_server(NodeOutcome::Answered);
                    let message = fatal.map_or_else(String::new, |said| said.1.into());
                    return Err(End::Fatal(SqlState::PROTOCOL_VIOLATION, message));
                }
                Outcome::ServerLost(_) | Outcome::ServerBroke(_) => {
                    let why = match outcome {
                        Outcome::ServerBroke(violation) => violation.to_string(),
                        Outcome::ServerLost(Some(error)) => error.to_string(),
                        _ => "end of file".to_owned(),
                    };
                    let node = self.held.as_ref().map_or(0, |held| held.node);
                    let id = self.tenant.database.nodes[node].id;
                    let why = match self.feed.fatal.as_deref() {
                        Some((sqlstate, message)) => format!("{why}: {message} ({sqlstate})"),
                        None => why,
                    };
                    self.worker.shared.connection_lost(&self.tenant.database.nodes[node].name, &why);
                    if self.feed.fatal.as_ref().is_none_or(|said| said.0 != SqlState::ADMIN_SHUTDOWN) {
                        (self.worker.shared.suspect)(id);
                    }
                    // On a primary a view may hide a write, and the server may have died after its commit; one that says why it ends
                    // has rolled back.
                    let undone = self.last.role != Some(Role::Primary) || self.feed.fatal.is_some();
                    if repeatable && undone && !self.feed.delivered && attempt < ATTEMPTS {
                        self.client.out.truncate(mark);
                        self.undo_names();
                        self.drop_server(NodeOutcome::Failed);
                        // The first loss may be a connection that was cut while idle; the node itself is given up after the second.
                        if attempt > 1 && wish.place == Where::Replica {
                            tried.add(id);
                        }
                        continue;
                    }
                    load.consume(self);
                    if composing == Composing::Pauses {
                        self.unread += load.unread();
                    }
                    return self.lost(load, wish.repeatable);
                }
                Outcome::ClientGone(gone) => return Err(gone.into()),
                Outcome::ClientBroke(error) => return Err(error.into()),
                Outcome::ClientClosing | Outcome::Misnamed | Outcome::TooMuch => return Err(End::Left),
                Outcome::Overdue => {
                    let message = match self.feed.is_crossed() {
                        true => {
                            "canceling statement due to the length of its result; it did not end in time, so the connection does"
                        }
                        false => "canceling statement due to timeout; it did not end in time, so the connection does",
                    };
                    return Err(End::Fatal(SqlState::QUERY_CANCELED, message.into()));
                }
            }
        }
    }

    /// Counts statements that went somewhere, or nowhere, for the reason just noted.
    pub(super) fn count(&self, sent: Sent, statements: u32) {
        let reason = self.last.reason.unwrap_or(RouteReason::NoReplica).index();
        for _ in 0..statements {
            self.worker.metrics.statement(self.tenant.slot, sent, reason);
        }
    }

    /// Of the client's changes to its names, those the server has answered hold.
    pub(super) fn settle_names(&mut self) {
        let settled = std::mem::take(&mut self.feed.name_changes) as usize;
        self.names.settle(settled, self.feed.failed_parse);
    }

    /// The request never happened, as far as names are concerned.
    fn undo_names(&mut self) {
        self.feed.name_changes = 0;
        self.names.settle(0, false);
    }

    /// The held server has said that a plan it keeps is out of date. For what the client has just prepared, and the server had already,
    /// it is made anew before it is used again; an older one of the client's is out of date for the client as well.
    fn give_up_stale(&mut self, load: &dyn Load) {
        if !self.feed.stale_plan {
            return;
        }
        let parses = load.parses(self);
        if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
            parses.into_iter().for_each(|id| server.prepared.learn(id, Found::Stale));
        }
    }

    /// A standby has refused what the primary may allow. Its answer is read to the end, unseen.
    async fn abandon_attempt(&mut self, ended: bool) {
        self.feed.give_up();
        if !ended {
            frontend::sync(&mut self.outgoing.bytes);
            self.feed.queue.push(Owed::swallow(What::Sync, Ack::Nothing));
        }
        let drained = matches!(self.pump_quietly(Until::Settled).await, Outcome::Done);
        self.feed.mute = false;
        if !drained {
            self.drop_server(NodeOutcome::Failed);
            return;
        }
        self.settle_server();
        self.note_reported();
        if self.feed.status != Some(TxStatus::Idle) && !self.hidden(b"ROLLBACK").await {
            self.drop_server(NodeOutcome::Failed);
            return;
        }
        self.feed.reset();
        self.group_open = false;
        self.release().await;
    }

    /// The held server is gone or not to be trusted.
    pub(super) fn drop_server(&mut self, outcome: NodeOutcome) {
        // A commit may have come through.
        self.note_hidden_ddl();
        self.feed.abandon();
        self.outgoing = crate::relay::Outgoing::default();
        self.group_open = false;
        self.cursors = Cursors::default();
        self.portals.clear();
        self.pinned = None;
        if let Some(held) = self.held.take() {
            self.account(&held, outcome);
            let Held { lease, .. } = held;
            match outcome {
                NodeOutcome::Failed => lease.gone(),
                NodeOutcome::Answered => drop(lease),
            }
        }
    }

    /// No server: the client hears why, as it would hear an error of the server.
    fn refuse(&mut self, load: &mut dyn Load, refusal: &Refusal) -> Result<(), End> {
        self.fail_locally();
        if !self.pins.any() {
            self.pinned = None;
        }
        self.last.refused = true;
        self.last.reason.get_or_insert(RouteReason::NoReplica);
        load.consume(self);
        self.unread = load.unread();
        refusal.write(self.client.say());
        self.undo_names();
        self.after_error_of_ours(load.ends_cycle());
        Ok(())
    }

    /// An ErrorResponse of ours was written and no server is involved.
    pub(super) fn after_error_of_ours(&mut self, cycle_ends: bool) {
        if cycle_ends {
            let status = self.status();
            backend::ready_for_query(self.client.say(), status);
        } else {
            self.skipping = true;
        }
    }

    /// The server went away in the middle of a request.
    fn lost(&mut self, load: &mut dyn Load, only_reads: bool) -> Result<(), End> {
        let in_transaction = self.feed.status.is_some_and(|s| s != TxStatus::Idle) || self.tx != Tx::Idle;
        let told = self.feed.error.is_some();
        let broken = self.feed.is_mid_message();
        let ready = self.feed.queue.ready_owed();
        let fatal = self.feed.fatal.take();
        let had_state = self.pins.any() || self.tenant.database.pool.mode == crate::config::PoolMode::Session;
        let ending = self.deeds.ending;
        // What the client sends next it means for the transaction it believes to be in; outside it would be committed at once.
        let open = self.deeds.leaves_open.unwrap_or(in_transaction);
        if self.deeds.wrote {
            // It may have been committed all the same.
            self.dirty();
        }
        self.settle_told();
        // The rest of a message that was streaming through.
        self.unread += self.outgoing.stream;
        self.undo_names();
        self.drop_server(NodeOutcome::Failed);
        self.tx = if open { Tx::Failed(Deferred::plain()) } else { Tx::Idle };
        self.deeds = super::deeds::Deeds::default();
        if broken {
            return Err(End::Left);
        }
        let why = fatal.map(|said| format!(": {}", said.1)).unwrap_or_default();
        let (sqlstate, message) = if ending || !(only_reads || in_transaction) {
            (
                SqlState::OUTCOME_UNKNOWN,
                format!("the server connection was lost and it is not known whether the statement took effect{why}"),
            )
        } else if in_transaction {
            (
                SqlState::CONNECTION_FAILURE,
                format!("the server connection was lost; the transaction was rolled back and can be tried again{why}"),
            )
        } else {
            (SqlState::CONNECTION_FAILURE, format!("the server connection was lost{why}"))
        };
        if had_state {
            return Err(End::Fatal(sqlstate, message));
        }
        if !told {
            super::local::write_error(self.client.say(), sqlstate, &message);
        }
        let status = self.status();
        for _ in 0..ready {
            backend::ready_for_query(self.client.say(), status);
        }
        if !load.ends_cycle() {
            self.skipping = true;
        }
        Ok(())
    }
}

/// Counts the client as active while it lives.
struct Busy {
    worker: Rc<Worker>,
    slot: usize,
}

impl Busy {
    fn new(worker: &Rc<Worker>, slot: usize) -> Self {
        worker.metrics.client_turns(slot, ClientState::Idle, ClientState::Active);
        Self { worker: Rc::clone(worker), slot }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.worker.metrics.client_turns(self.slot, ClientState::Active, ClientState::Idle);
    }
}
