//! One Query string: one implicit transaction, one target. Function calls, too: they end the same way.

use std::rc::Rc;

use super::{
    cycle::{Composing, Load},
    deeds::Deeds,
    end::End,
    guard::Standing,
    local::Local,
    metering::Metered,
    refusal::{FailedGroup, Refusal},
    rewriting::{Original, Outcome},
    rules::Protocol,
    state::Session,
    statements::{Named, deallocated, names_in_sql},
    tx::Tx,
};
use crate::{
    base::SqlState,
    observe::{self, Sent},
    policy::Changed,
    relay::{Owed, Until, What},
    route::{RouteReason, Where, Wish},
    sql::{
        Classified, ClassifyPath, Facts, Hints, Known, Route, StringRules,
        catalog::Scope,
        facts::{Effect, Verb},
    },
    wire::{
        HEAD_BYTES, Head, WireError,
        backend::{self, TxStatus},
        frontend::{self, FunctionCall, Query},
    },
};

/// Longer function calls are not looked into.
const LONGEST_CALL: usize = 64 * 1024;

/// A Query that may run.
struct Judged {
    known: Rc<Known>,
    load: Whole,
    wish: Wish,
    /// The unnamed statement, which the server will drop.
    unnamed: Option<Named>,
    /// What it prepares or declares, if that is to be remembered.
    said: Option<Box<Said>>,
}

/// The text as it is sent, and the client's own, if that is another.
struct Said {
    text: Vec<u8>,
    original: Option<Original>,
}

/// A message that goes to the server as it came.
struct Whole {
    total: usize,
    /// Bytes in the inbox when it was judged; less than `total` for one that streams through.
    here: usize,
    consumed: bool,
    route: Option<Route>,
    /// What is sent in its place.
    changed: Option<Rc<Changed>>,
    /// What its result may hold.
    metered: Option<Metered>,
}

impl Load for Whole {
    fn compose(&mut self, session: &mut Session) -> Composing {
        match &self.changed {
            Some(changed) => frontend::query(&mut session.outgoing.bytes, changed.text.as_bytes()),
            None => session.outgoing.bytes.extend_from_slice(&session.client.pending()[..self.here]),
        }
        session.outgoing.stream = self.total - self.here;
        session.feed.queue.push(match &self.metered {
            Some(_) => Owed::metered(What::Query),
            None => Owed::pass(What::Query),
        });
        if let Some(metered) = &self.metered {
            session.set_meter(metered);
        }
        if let Some(server) = session.held.as_mut().and_then(|held| held.lease.server()) {
            // A simple Query destroys the unnamed statement (protocol documentation, "Extended Query").
            server.unnamed = None;
        }
        Composing::Done
    }

    fn is_whole(&self) -> bool {
        self.here == self.total
    }

    fn until(&self) -> Until {
        Until::Settled
    }

    fn ends_cycle(&self) -> bool {
        true
    }

    fn routes(&self, _: &Session) -> Vec<Route> {
        self.route.into_iter().collect()
    }

    fn unread(&self) -> usize {
        self.total - self.here
    }

    fn statements(&self) -> u32 {
        1
    }

    fn consume(&mut self, session: &mut Session) {
        if !std::mem::replace(&mut self.consumed, true) {
            session.client.consume(self.here);
        }
    }
}

impl Session {
    /// Query.
    pub(super) async fn simple(&mut self, head: Head) -> Result<(), End> {
        let longest = self.tenant.limits.parse + HEAD_BYTES + 1;
        let total = head.total();
        let (classified, here) = if total <= longest {
            self.whole(head).await?;
            if self.group_has_failed() {
                return self.discard(head.total()).await;
            }
            let text = match Query::parse(&self.client.pending()[HEAD_BYTES..total]) {
                Ok(text) => text,
                Err(error) => return Box::pin(self.malformed(total, error)).await,
            };
            (self.classify(text), total)
        } else {
            (self.worker.unread(), self.client.pending().len().min(total))
        };
        let mut judged = match self.judge_query(classified, total, here) {
            Ok(Some(judged)) => judged,
            Ok(None) => return Ok(()),
            Err(refusal) => return Box::pin(self.refuse_query(total, &refusal)).await,
        };
        if self.outgrows_replica(judged.wish) {
            Box::pin(self.leave_replica()).await;
            if self.skipping {
                self.names.put_unnamed(judged.unnamed);
                return Box::pin(self.never_ran(total)).await;
            }
        }
        self.note_query(&judged.known, judged.said.take());
        self.exchange(&mut judged.load, judged.wish).await?;
        let facts = &judged.known.facts;
        self.note_temporary(facts);
        if self.group_has_failed() {
            // The server never saw it.
            self.names.put_unnamed(judged.unnamed.take());
        }
        if self.feed.forgot_statements {
            // Also if something behind it failed: neither is undone by a rollback.
            self.names.clear();
            self.forget_statements();
        }
        for name in deallocated(facts).take(self.feed.deallocated) {
            self.prepared_by_sql.remove(name);
            self.names.remove(name.as_bytes());
            self.no_longer_lent(name.as_bytes());
        }
        if let Some(metered) = judged.load.metered.take() {
            Box::pin(self.end_metered(&metered)).await?;
        }
        self.settle().await
    }

    /// May a Query run, and what will then be sent? `None`: it was answered here.
    fn judge_query(&mut self, classified: Classified, total: usize, here: usize) -> Result<Option<Judged>, Refusal> {
        let unnamed = self.names.take_unnamed();
        self.take_seat();
        self.group_controls = false;
        let facts = &classified.known.facts;
        self.group_moves_names = facts.statements > 1 && self.moves_names(facts);
        if let Some(refusal) = self.refused_by_rate(&classified.known.facts) {
            return Err(refusal);
        }
        self.clear_orders();
        let text = self.client.pending().get(HEAD_BYTES..total.saturating_sub(1)).unwrap_or_default();
        let changed = match self.change(&classified.known, text, Protocol::Simple) {
            Ok(changed) => changed,
            // The server says what it says to anything then.
            Err(_) if self.standing() == Standing::Failed && is_refused_when_failed(&classified.known.facts) => None,
            Err(refusal) => return Err(refusal),
        };
        let original = changed.as_ref().map(|changed| Original {
            known: Rc::clone(&classified.known),
            text: text.into(),
            outcome: Outcome::Changed(Rc::clone(changed)),
        });
        let classified = match &changed {
            // Its hints are those of the client's text.
            Some(changed) => Classified { hints: classified.hints, ..self.classify(changed.text.as_bytes()) },
            None => classified,
        };
        let facts = &classified.known.facts;
        let text = changed.as_ref().map_or(text, |changed| changed.text.as_bytes());
        let verdict = self.consult(&classified.known, text, Protocol::Simple);
        let about_us = matches!(facts.verb, Verb::Show | Verb::Unknown)
            && Local::of(facts, text).is_some_and(|local| local.is_about_us());
        if !about_us && let Some(refusal) = self.police(facts, verdict.as_ref(), self.standing(), Protocol::Simple, &[])
        {
            return Err(refusal);
        }
        if facts.statements > 0 && facts.error.is_none() && self.standing() == Standing::Open {
            // Each statement of a Query has the unnamed portal for itself (exec_simple_query).
            self.portals.retain(|portal| !portal.name.is_empty());
        }
        if here == total && self.answered_here(facts, total) {
            return Ok(None);
        }
        if matches!(self.tx, Tx::Failed(_)) && is_refused_when_failed(facts) {
            return Err(failed());
        }
        if let Some(refusal) = self.judge(facts, self.standing()) {
            return Err(refusal);
        }
        self.deeds.next();
        self.note(&classified.known);
        if here == total && self.deeds.is_blind() {
            let text = self.client.pending().get(HEAD_BYTES..total).unwrap_or_default();
            self.deeds.note_dotted(facts, text);
        }
        let keeps = facts.effects.iter().any(|effect| matches!(effect, Effect::Prepare(_) | Effect::Declare { .. }));
        let said = keeps.then(|| {
            let text = match &changed {
                _ if here < total => Vec::new(),
                Some(changed) => changed.text.as_bytes().to_vec(),
                None => self.client.pending().get(HEAD_BYTES..total.saturating_sub(1)).unwrap_or_default().to_vec(),
            };
            Box::new(Said { text, original })
        });
        if let Some(changed) = &changed {
            self.note_change(changed);
        }
        self.follow(verdict.as_ref(), classified.hints);
        self.follow_named(facts, Protocol::Simple);
        let metered = self.metered(Some(facts), verdict.as_ref(), None, Protocol::Simple);
        let wish = self.wish(&classified, verdict.as_ref());
        for name in names_in_sql(facts) {
            if let Some(statement) = self.names.find(name.as_bytes()).cloned() {
                self.note_named(&statement);
                self.names_in_sql.push(name.as_bytes().into());
            }
        }
        let load = Whole { total, here, consumed: false, route: Some(classified.known.route), changed, metered };
        Ok(Some(Judged { known: classified.known, load, wish, unnamed, said }))
    }

    /// A Query is about to be sent.
    fn note_query(&mut self, known: &Rc<Known>, said: Option<Box<Said>>) {
        self.lose_portals(&known.facts);
        let (text, original) = said.map_or((Vec::new(), None), |said| (said.text, said.original));
        self.prepared_by_sql.remember(known, &text, original.as_ref());
        self.note_cursors(known, &text, Protocol::Simple);
    }

    /// A result was longer than it may be, and its transaction is open: it fails, as by an error of the server's.
    async fn end_metered(&mut self, metered: &Metered) -> Result<(), End> {
        let Some(error) = self.settle_meter(metered) else { return Ok(()) };
        if self.held.is_none() || self.status() != TxStatus::InTransaction {
            // The server is lost, and the client was told that.
            return Ok(());
        }
        self.exchange(&mut FailedGroup(Some(error)), Wish::nothing()).await
    }

    /// FunctionCall: the fast path of libpq's large objects. An unknown function as far as we can tell.
    pub(super) async fn function_call(&mut self, head: Head) -> Result<(), End> {
        let total = head.total();
        let mut refusal = None;
        let mut verdict = None;
        let here = if total <= LONGEST_CALL {
            self.whole(head).await?;
            if self.group_has_failed() {
                return self.discard(head.total()).await;
            }
            match FunctionCall::parse(&self.client.pending()[HEAD_BYTES..total]) {
                Ok(call) => match self.judge_call(call.function) {
                    Some(blocked) => refusal = Some(blocked),
                    None => match self.police_call(call.function) {
                        Ok(said) => verdict = said,
                        Err(denied) => refusal = Some(denied),
                    },
                },
                Err(error) => return Box::pin(self.malformed(total, error)).await,
            }
            total
        } else {
            while self.client.pending().len() < HEAD_BYTES + 4 {
                self.idle().await?;
            }
            let function = self.client.pending().get(HEAD_BYTES..).and_then(|body| body.first_chunk::<4>().copied());
            match function.map(|oid| self.police_call(u32::from_be_bytes(oid))).transpose() {
                Ok(said) => verdict = said.flatten(),
                Err(denied) => refusal = Some(denied),
            }
            self.client.pending().len().min(total)
        };
        if matches!(self.tx, Tx::Failed(_)) {
            refusal = Some(failed());
        }
        if let Some(too_many) = self.call_refused_by_rate() {
            refusal = Some(too_many);
        }
        if let Some(refusal) = refusal {
            return Box::pin(self.refuse_query(total, &refusal)).await;
        }
        self.deeds.next();
        self.deeds.opaque = true;
        self.deeds.wrote = true;
        self.clear_orders();
        self.follow(verdict.as_ref(), Hints::default());
        let metered = self.metered(None, verdict.as_ref(), None, Protocol::Simple);
        let wish = Wish { place: Where::Primary, reason: RouteReason::UnknownFunction, repeatable: false };
        let mut load = Whole { total, here, consumed: false, route: None, changed: None, metered };
        if self.outgrows_replica(wish) {
            Box::pin(self.leave_replica()).await;
            if self.skipping {
                return Box::pin(self.never_ran(total)).await;
            }
        }
        self.exchange(&mut load, wish).await?;
        if let Some(metered) = load.metered {
            Box::pin(self.end_metered(&metered)).await?;
        }
        self.settle().await
    }

    /// The group before this message has failed, so a server would have skipped it. What was noted of it did not happen.
    async fn never_ran(&mut self, total: usize) -> Result<(), End> {
        self.settle_sql_names(true);
        self.deeds = Deeds::default();
        self.names_in_sql.clear();
        self.discard(total).await
    }

    /// Answers what needs no server; false if it does.
    fn answered_here(&mut self, facts: &Facts, total: usize) -> bool {
        let text = &self.client.pending()[HEAD_BYTES..total - 1];
        let Some(local) = Local::of(facts, text).filter(|local| self.may_answer(local)) else { return false };
        let text = text.to_vec();
        self.run_local(&local, &text, true);
        self.worker.metrics.statement(self.tenant.slot, Sent::Answered, RouteReason::TransactionControl.index());
        self.client.consume(total);
        self.feed.say_locals(self.client.say());
        self.settle_names();
        let status = self.status();
        backend::ready_for_query(self.client.say(), status);
        true
    }

    /// A message whose length fits but whose inside does not: PostgreSQL raises an ERROR and goes on.
    async fn malformed(&mut self, total: usize, error: WireError) -> Result<(), End> {
        self.refuse_query(total, &Refusal::new(SqlState::PROTOCOL_VIOLATION, error.to_string())).await
    }
}

/// Of a failed transaction that no server has: is there one answer to it? Other texts end it, or have faults that count more.
pub(super) fn is_refused_when_failed(facts: &Facts) -> bool {
    let ends = matches!(
        facts.verb,
        Verb::Commit | Verb::Rollback | Verb::RollbackToSavepoint | Verb::PrepareTransaction | Verb::Unknown
    );
    facts.statements <= 1 && !ends
}

/// The answer.
pub(super) fn failed() -> Refusal {
    Refusal::new(SqlState::IN_FAILED_TRANSACTION, super::local::IN_FAILED)
}

impl super::worker::Worker {
    /// What a text says.
    pub(super) fn classify(&self, text: &[u8], rules: StringRules, scope: &Scope) -> Classified {
        let classified = self.classifier.borrow_mut().classify_in(text, rules, scope);
        self.metrics.classified(match classified.path {
            ClassifyPath::Table => observe::ClassifyPath::Table,
            ClassifyPath::Parse => observe::ClassifyPath::Parse,
            ClassifyPath::Unparsable => observe::ClassifyPath::Unparsable,
        });
        classified
    }

    /// What is known of a text that is too long to be read.
    pub(super) fn unread(&self) -> Classified {
        self.metrics.classified(observe::ClassifyPath::Unparsable);
        self.classifier.borrow().unread()
    }
}
