//! The extended protocol: messages are gathered up to Sync or Flush, judged together, and sent to one server.

mod answer;
mod compose;
mod gather;
mod ready;

use super::{
    end::End,
    guard::Standing,
    local::Local,
    refusal::FailedGroup,
    rewriting::{Original, Outcome},
    rules::{Protocol, begins},
    state::Session,
};
use crate::{
    relay::{Ack, Owed, Until, What},
    route::{Role, RouteReason, Where, Wish},
    sql::{Facts, facts::Effect},
    wire::{
        HEAD_BYTES,
        backend::{self, TxStatus},
        frontend::{self, BindPrefix, Execute, Parse, tag},
    },
};
use gather::{Batch, Ends, Item};
impl Session {
    /// Reads a group of messages and carries it.
    pub(super) async fn extended(&mut self) -> Result<(), End> {
        self.take_seat();
        let mut batch = self.gather().await?;
        if self.group_has_failed() {
            return Box::pin(self.skip(batch)).await;
        }
        if !self.group_open {
            self.clear_orders();
            self.group_controls = false;
            self.group_moves_names = false;
        }
        self.take_seat();
        self.judge_batch(&mut batch);
        let done = self.answer_leading(&mut batch);
        if self.skipping {
            batch.items.drain(..done);
            return Box::pin(self.skip(batch)).await;
        }
        if done == batch.items.len() {
            self.client.consume(batch.bytes);
            return Ok(());
        }
        batch.items.drain(..done);
        if !self.group_open {
            self.deeds.next();
        }
        self.deeds.ending = false;
        let mut wish = Wish::nothing();
        let mut moved = false;
        for (i, item) in batch.items.iter().enumerate() {
            if item.refused.is_some() {
                break;
            }
            if item.tag == tag::EXECUTE && self.is_ruled() {
                self.follow_portal(&item.portal(self));
            }
            if let Some(statement) = &item.statement {
                // Mostly all messages of a group are about one statement; it need not be asked four times.
                let seen = i > 0 && batch.items[i - 1].statement.as_ref().is_some_and(|s| s.is(statement));
                if seen && item.tag != tag::EXECUTE {
                    continue;
                }
                let classified = self.classified(statement);
                let consult = || self.consult(&classified.known, &statement.text, Protocol::Extended);
                // What it was judged by, which the rest of the group may have changed since.
                let verdict = item.verdict.clone().or_else(consult);
                if !seen {
                    let own = self.wish(&classified, verdict.as_ref());
                    // What names mean from here on is not known yet.
                    let known = !moved || own.place != Where::Replica;
                    let place = if known { own.place } else { Where::Primary };
                    wish = wish.and(Wish { place, ..own });
                }
                if item.tag == tag::EXECUTE {
                    moved |= self.moves_names(&classified.known.facts);
                    self.follow(verdict.as_ref(), classified.hints);
                    self.follow_named(&classified.known.facts, Protocol::Extended);
                    self.note_named(statement);
                    let original = statement.original.as_ref();
                    self.prepared_by_sql.remember(&classified.known, &statement.text, original);
                    self.note_cursors(&classified.known, &statement.text, Protocol::Extended);
                    if self.deeds.is_blind() {
                        self.note_bound(&batch.items, &classified.known.facts);
                    }
                    for name in &statement.names_in_sql {
                        if let Some(named) = self.names.find(name.as_bytes()).cloned() {
                            self.note_named(&named);
                        }
                    }
                }
            } else if matches!(item.tag, tag::BIND | tag::EXECUTE | tag::DESCRIBE) {
                wish = wish.and(Wish { place: Where::Any, reason: RouteReason::SessionState, repeatable: false });
            }
        }
        if batch.ends != Ends::Sync
            && wish.place != Where::Primary
            && (self.deeds.left_something() || self.leaves_portals(&batch.items))
        {
            // A replica could not go on with them if the group turns out to write; and its session's state would be left there.
            wish = wish.and(Wish { place: Where::Primary, reason: RouteReason::SessionState, repeatable: false });
        }
        if self.outgrows_replica(wish) {
            Box::pin(self.leave_replica()).await;
            if self.skipping {
                return Box::pin(self.skip(batch)).await;
            }
        }
        self.exchange(&mut batch, wish).await?;
        self.settle().await?;
        Ok(())
    }

    /// Finds the first message that is not carried out.
    fn judge_batch(&mut self, batch: &mut Batch) {
        let mut standing = self.standing();
        // What EXECUTE may run although it is not there yet; and is some of it prepared by SQL?
        let mut before: Vec<Box<str>> = Vec::new();
        let mut prepares = false;
        for item in &mut batch.items {
            if item.refused.is_some() {
                return;
            }
            if item.tag == tag::EXECUTE {
                item.refused = self.execute_refused_by_rate(item.statement.as_ref()).map(Box::new);
                if item.refused.is_some() {
                    return;
                }
            }
            if item.tag == tag::EXECUTE && self.is_ruled() && standing == Standing::Open {
                // Of a portal that was bound a statement is known; a cursor of that name may be SQL's.
                let portal = item.portal(self);
                item.refused = self.police_portal(&portal).map(Box::new);
                if item.refused.is_some() {
                    return;
                }
            }
            if item.tag == tag::BIND && item.statement.is_none() && self.is_ruled() {
                let name = BindPrefix::parse(item.body(self)).ok().flatten().map(|prefix| Box::from(prefix.statement));
                item.refused = name.and_then(|name: Box<[u8]>| self.police_bind(&name, prepares)).map(Box::new);
                if item.refused.is_some() {
                    return;
                }
            }
            if item.tag == tag::PARSE
                && self.is_ruled()
                && let Ok(parse) = Parse::parse(item.body(self))
            {
                // EXECUTE in SQL may run it; it is judged here.
                before.extend(std::str::from_utf8(parse.name).ok().map(Box::from));
            }
            let ruled =
                self.is_ruled() || item.statement.as_ref().is_some_and(|statement| statement.original.is_some());
            let Some(statement) = item.statement.as_ref().filter(|statement| ruled || !statement.is_plain) else {
                continue;
            };
            // Where there are rules, what was prepared under others is not planned either.
            let asked = matches!(item.tag, tag::PARSE | tag::EXECUTE) || (ruled && item.tag == tag::BIND);
            if !asked {
                continue;
            }
            let known = self.classified(statement).known;
            if let Err(refusal) =
                self.still_stands(statement.original.as_ref(), &known, &statement.text, Protocol::Extended)
            {
                item.refused = Some(Box::new(refusal));
                return;
            }
            if let Some(Original { outcome: Outcome::Changed(changed), .. }) = &statement.original {
                self.note_change(changed);
            }
            if !matches!(statement.local, Some(Local::ShowRoute | Local::ShowVersion)) {
                let verdict = self.consult(&known, &statement.text, Protocol::Extended);
                let refused = self.police(&known.facts, verdict.as_ref(), standing, Protocol::Extended, &before);
                item.refused = refused.map(Box::new);
                item.verdict = verdict;
            }
            if item.refused.is_none() && item.tag != tag::BIND {
                item.refused = self.judge(&known.facts, standing).map(Box::new);
            }
            if item.refused.is_some() {
                return;
            }
            if item.tag == tag::EXECUTE {
                self.group_moves_names |= self.moves_names(&known.facts);
                for effect in &known.facts.effects {
                    if let Effect::Prepare(name) = effect {
                        before.push(name.clone());
                        prepares = true;
                    }
                }
            }
            if !known.facts.tx.is_empty() {
                standing = Standing::Open;
                self.group_controls |= begins(&known.facts);
            }
        }
    }

    /// What is bound may name what unseen code sets.
    fn note_bound(&mut self, items: &[Item], facts: &Facts) {
        for item in items.iter().filter(|item| item.tag == tag::BIND) {
            let from = item.start + HEAD_BYTES;
            let body = self.client.pending().get(from..item.start + item.here).unwrap_or_default();
            self.deeds.note_dotted(facts, body);
        }
    }

    /// Is a portal bound here that is not run to its end here?
    fn leaves_portals(&self, items: &[Item]) -> bool {
        items.iter().enumerate().filter(|(_, item)| item.tag == tag::BIND).any(|(i, bind)| {
            let Ok(Some(prefix)) = BindPrefix::parse(bind.body(self)) else { return false };
            !items[i + 1..]
                .iter()
                .filter(|item| item.tag == tag::EXECUTE)
                .any(|item| Execute::parse(item.body(self)).is_ok_and(|e| e.portal == prefix.portal && e.max_rows == 0))
        })
    }

    /// After an error everything up to Sync is ignored.
    async fn skip(&mut self, batch: Batch) -> Result<(), End> {
        self.settle_sql_names(true);
        let last = batch.items.last().map_or(0, |item| item.total - item.here);
        self.client.consume(batch.bytes);
        let mut left = last;
        while left > 0 {
            self.idle().await?;
            let n = left.min(self.client.pending().len());
            self.client.consume(n);
            left -= n;
        }
        if batch.ends != Ends::Sync {
            return Ok(());
        }
        self.skipping = false;
        if self.group_open && self.held.is_some() {
            // The server is skipping, too: its Sync is owed.
            let mut sync = FailedGroup(None);
            let wish = Wish::nothing();
            self.exchange(&mut sync, wish).await?;
            self.settle().await?;
            return Ok(());
        }
        self.group_open = false;
        let status = self.status();
        if status == TxStatus::Idle {
            self.portals.clear();
        }
        backend::ready_for_query(self.client.say(), status);
        Ok(())
    }

    /// Is a group of messages open whose reads a replica has answered, while this is not for a replica?
    pub(super) fn outgrows_replica(&self, wish: Wish) -> bool {
        self.group_open
            && self.held.is_some()
            && wish.place == Where::Primary
            && self.status() == TxStatus::Idle
            && self.last.role == Some(Role::Replica)
    }

    /// The group turns out to write after reads of it were answered by a replica: their implicit transaction ends there, the rest goes
    /// to the primary. Allowed because each statement of it has its own snapshot under READ COMMITTED. If one of them is now heard to
    /// have failed, the rest is to be skipped.
    pub(super) async fn leave_replica(&mut self) {
        self.feed.reset();
        frontend::sync(&mut self.outgoing.bytes);
        self.feed.queue.push(Owed::swallow(What::Sync, Ack::Nothing));
        let outcome = self.pump_quietly(Until::Settled).await;
        if !matches!(outcome, crate::relay::Outcome::Done) {
            self.drop_server(crate::route::Outcome::Failed);
            return;
        }
        self.skipping = self.feed.error.is_some();
        self.settle_names();
        self.settle_server();
        self.group_open = false;
        self.portals.clear();
        self.release().await;
        self.group_open = false;
    }
}
