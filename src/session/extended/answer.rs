//! What needs no server is answered at once: transaction control that is still to be sent, names, Sync.

use super::{
    gather::{Batch, Item},
    ready::{cursor_exists, duplicate, not_again},
};
use crate::{
    base::SqlState,
    observe::Sent,
    relay::Amount,
    route::RouteReason,
    session::{
        local::{Local, Ran},
        refusal::Refusal,
        simple::{failed, is_refused_when_failed},
        state::{Bound, Portal, Session},
        statements::Named,
        tx::Tx,
    },
    wire::{
        backend::{self, TxStatus},
        frontend::{self, Bind, Close, Describe, Execute, Parse, tag},
    },
};
impl Session {
    /// Answers the messages at the front that need no server, and says how many they were.
    pub(super) fn answer_leading(&mut self, batch: &mut Batch) -> usize {
        for (i, item) in batch.items.iter().enumerate() {
            if self.held.is_some() || self.group_open {
                return i;
            }
            let local = item.statement.as_ref().and_then(|s| s.local.clone());
            let in_failed = || {
                // A statement or portal that does not exist is a fault that counts more.
                let statement = item.statement.as_ref().filter(|_| matches!(self.tx, Tx::Failed(_)))?;
                let refused = is_refused_when_failed(&self.classified(statement).known.facts);
                refused.then(|| Box::new(failed()))
            };
            if let Some(refusal) = item.refused.clone().or_else(in_failed) {
                if item.is_unnamed_parse(self) {
                    // As a server does before it looks at the text.
                    self.names.take_unnamed();
                }
                refusal.write(self.client.say());
                self.note_refused(&refusal, 1);
                self.unread += item.total - item.here;
                self.fail_locally();
                // A Sync with something in it is still one.
                self.skipping = item.tag != tag::SYNC;
                if item.tag == tag::SYNC {
                    let status = self.status();
                    backend::ready_for_query(self.client.say(), status);
                }
                return i + 1;
            }
            if !self.answer_item(item, local.as_ref(), &batch.items[i + 1..]) {
                return i;
            }
            if self.skipping {
                return i + 1;
            }
        }
        batch.items.len()
    }

    /// Answers one message without a server; false if it needs one.
    fn answer_item(&mut self, item: &Item, local: Option<&Local>, rest: &[Item]) -> bool {
        let fits = local.is_some_and(|local| self.may_answer(local));
        match item.tag {
            tag::PARSE if fits => {
                let Ok(parse) = Parse::parse(item.body(self)) else { return false };
                let name: Box<[u8]> = parse.name.into();
                if !name.is_empty() && self.names.find(&name).is_some() {
                    self.fail_here(SqlState::DUPLICATE_STATEMENT, &duplicate(&name));
                    return true;
                }
                self.names.change(&name, item.statement.clone());
                self.names.settle(1, false);
                backend::parse_complete(self.client.say());
            }
            tag::BIND if fits => {
                let Ok(bind) = Bind::parse(item.body(self)) else { return false };
                let portal: Box<[u8]> = bind.portal.into();
                if bind.count > 0 || !self.is_executed_at_once(&portal, rest) {
                    return false;
                }
                if !portal.is_empty() && self.is_finished(&portal) {
                    self.fail_here(SqlState::DUPLICATE_CURSOR, &cursor_exists(&portal));
                    return true;
                }
                if let Some(statement) = &item.statement {
                    self.portals.retain(|bound| bound.name != portal);
                    self.bind(portal, statement.clone());
                }
                backend::bind_complete(self.client.say());
            }
            tag::DESCRIBE if fits => {
                let Ok(describe) = Describe::parse(item.body(self)) else { return false };
                let what = describe.what;
                describe_local(local, what, self.client.say());
            }
            tag::EXECUTE if fits => {
                let (Some(local), Some(statement)) = (local, &item.statement) else { return false };
                let Ok(execute) = Execute::parse(item.body(self)) else { return false };
                let portal: Box<[u8]> = execute.portal.into();
                if self.is_finished(&portal) {
                    self.fail_here(SqlState::NOT_IN_PREREQUISITE_STATE, &not_again(&portal));
                    return true;
                }
                if self.portal(&portal).is_none() {
                    return false;
                }
                let text = statement.text.clone();
                let ran = self.run_local(local, &text, false);
                let reason = RouteReason::TransactionControl.index();
                self.worker.metrics.statement(self.tenant.slot, Sent::Answered, reason);
                self.feed.say_locals(self.client.say());
                self.settle_names();
                self.finish_portal(local, &portal);
                if ran == Ran::Error {
                    self.skipping = true;
                }
            }
            tag::CLOSE => {
                let Ok(close) = Close::parse(item.body(self)) else { return false };
                let name: Box<[u8]> = close.name.into();
                match close.what {
                    frontend::What::Statement => self.names.remove(&name),
                    frontend::What::Portal => self.portals.retain(|portal| portal.name != name),
                }
                backend::close_complete(self.client.say());
            }
            tag::SYNC => {
                let status = self.status();
                if status == TxStatus::Idle {
                    self.portals.clear();
                }
                backend::ready_for_query(self.client.say(), status);
            }
            tag::FLUSH => {}
            _ => return false,
        }
        true
    }

    pub(super) fn bind(&mut self, portal: Box<[u8]>, statement: Named) {
        let (finished, bound, given) = (false, Bound::Now, Amount::default());
        self.portals.push(Portal { name: portal, statement, finished, bound, given });
    }

    /// It ran. What gives rows would give none the next time; anything else is refused.
    pub(super) fn finish_portal(&mut self, local: &Local, name: &[u8]) {
        if local.columns().is_none() {
            let newest = self.portals.iter_mut().rev().find(|portal| *portal.name == *name);
            newest.into_iter().for_each(|portal| portal.finished = true);
        }
    }

    /// An error of ours while no server is held.
    fn fail_here(&mut self, sqlstate: SqlState, message: &str) {
        Refusal::new(sqlstate, message.to_owned()).write(self.client.say());
        self.fail_locally();
        self.skipping = true;
    }

    /// Is a portal run, and only described before? Otherwise a server must hold it, since it may see what comes in between.
    fn is_executed_at_once(&self, portal: &[u8], rest: &[Item]) -> bool {
        let next = rest.iter().find(|item| item.tag != tag::DESCRIBE);
        next.is_some_and(|item| {
            item.tag == tag::EXECUTE && Execute::parse(item.body(self)).is_ok_and(|execute| execute.portal == portal)
        })
    }
}

pub(super) fn describe_local(local: Option<&Local>, what: frontend::What, out: &mut Vec<u8>) {
    if what == frontend::What::Statement {
        backend::parameter_description(out, &[]);
    }
    match local.and_then(|local| local.columns()) {
        Some(columns) => backend::row_description_text(out, columns),
        None => backend::no_data(out),
    }
}
