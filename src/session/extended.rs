//! The extended protocol: messages are gathered up to Sync or Flush, judged together, and sent to one server.

use super::{
    cycle::{Composing, Load},
    end::End,
    guard::Standing,
    local::{Local, Ran},
    refusal::Refusal,
    simple::{failed, is_refused_when_failed},
    state::{Portal, Session},
    statements::{Named, Statement},
    tx::Tx,
};
use crate::{
    base::SqlState,
    config::Feature,
    observe::Sent,
    pool::{Found, ServerName, StatementId},
    relay::{Ack, Names, Owed, Until, What},
    route::{Role, RouteReason, Where, Wish},
    sql::{Facts, Shape},
    wire::{
        HEAD_BYTES, Head, WireError,
        backend::{self, TxStatus},
        frontend::{self, Bind, BindPrefix, Close, Describe, Execute, Parse, tag},
    },
};

/// A Bind longer than this streams through.
const LONG_BIND: usize = 64 * 1024;
/// Messages without Sync or Flush beyond this many bytes are sent without waiting for one.
const BATCH: usize = 256 * 1024;
/// Longest message of the kinds that hold a name at most (`PQ_SMALL_MESSAGE_LIMIT`).
const SHORT: u32 = 10_000;
/// Most prepared statements of one client.
const MOST_NAMES: usize = 1 << 16;
/// Most bytes of statement text one client may keep, and the longest Parse.
const MOST_TEXT: usize = 64 << 20;

/// One message of the group.
struct Item {
    tag: u8,
    /// Offset in the inbox.
    start: usize,
    /// Bytes of it that are in the inbox.
    here: usize,
    total: usize,
    /// The statement it is about.
    statement: Option<Named>,
    /// Why it, and with it what follows up to Sync, is not carried out.
    refused: Option<Box<Refusal>>,
}

impl Item {
    fn refused(head: Head, start: usize, here: usize, refusal: Refusal) -> Self {
        Self { tag: head.tag, start, here, total: head.total(), statement: None, refused: Some(Box::new(refusal)) }
    }

    /// One that the server would raise an error for.
    fn malformed(head: Head, start: usize, here: usize, error: WireError) -> Self {
        Self::refused(head, start, here, Refusal::new(SqlState::PROTOCOL_VIOLATION, error.to_string()))
    }

    fn body<'a>(&self, session: &'a Session) -> &'a [u8] {
        &session.client.pending()[self.start + HEAD_BYTES..self.start + self.here]
    }
}

/// Messages that are sent together.
struct Batch {
    items: Vec<Item>,
    /// Bytes of the inbox before the first item that are done with when the batch is.
    bytes: usize,
    ends: Ends,
    consumed: bool,
    /// The first item that has not been composed.
    next: usize,
    /// The server was asked about that item's statement, and has answered.
    asked: bool,
    /// An item before it fails on the server by our doing.
    poisoned: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With Sync.
    Sync,
    /// With Flush, or with an Execute that begins a COPY: the replies are awaited.
    Flush,
    /// Nowhere: more follows, nothing is owed yet.
    Open,
}

impl Session {
    /// Reads a group of messages and carries it.
    pub(super) async fn extended(&mut self) -> Result<(), End> {
        let mut batch = self.gather().await?;
        if self.group_has_failed() {
            return self.skip(batch).await;
        }
        self.judge_batch(&mut batch);
        let done = self.answer_leading(&mut batch);
        if self.skipping {
            batch.items.drain(..done);
            return self.skip(batch).await;
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
        for (i, item) in batch.items.iter().enumerate() {
            if item.refused.is_some() {
                break;
            }
            if let Some(statement) = &item.statement {
                // Mostly all messages of a group are about one statement; it need not be asked four times.
                let seen = i > 0 && batch.items[i - 1].statement.as_ref().is_some_and(|s| s.is(statement));
                if seen && item.tag != tag::EXECUTE {
                    continue;
                }
                let classified = statement.classified(&self.worker);
                if !seen {
                    wish = wish.and(self.wish(&classified));
                }
                if item.tag == tag::EXECUTE {
                    self.note_named(statement);
                    self.remember_prepared(&classified.known);
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
            self.leave_replica().await;
            if self.skipping {
                return self.skip(batch).await;
            }
        }
        self.exchange(&mut batch, wish).await?;
        self.settle().await?;
        Ok(())
    }

    /// Finds the first message that is not carried out.
    fn judge_batch(&mut self, batch: &mut Batch) {
        let mut standing = self.standing();
        for item in &mut batch.items {
            if item.refused.is_some() {
                return;
            }
            let Some(statement) = item.statement.as_ref().filter(|statement| !statement.is_plain) else { continue };
            if !matches!(item.tag, tag::PARSE | tag::EXECUTE) {
                continue;
            }
            let known = statement.classified(&self.worker).known;
            item.refused = self.judge(&known.facts, standing).map(Box::new);
            if !known.facts.tx.is_empty() {
                standing = Standing::Open;
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

    /// Reads messages up to Sync, Flush, the Execute of a COPY FROM, or a long message.
    async fn gather(&mut self) -> Result<Batch, End> {
        let mut items: Vec<Item> = Vec::with_capacity(8);
        let mut at = 0;
        let mut ends = Ends::Open;
        loop {
            if at >= BATCH {
                break;
            }
            let Some(head) = crate::wire::next_head(&self.client.pending()[at..], self.message_cap())? else {
                self.idle().await?;
                continue;
            };
            let here = self.client.pending().len() - at;
            let total = head.total();
            if !is_extended(head.tag) {
                // What follows belongs to something else (a Query inside an open group, Terminate, …); PostgreSQL takes
                // messages as they come, so what was gathered goes first.
                break;
            }
            match head.tag {
                // Longer than limits.parse is not read but sent to the primary; it is kept all the same, for other servers.
                tag::PARSE if total > MOST_TEXT => {
                    let refusal = Refusal::new(SqlState::PROGRAM_LIMIT_EXCEEDED, too_long(total));
                    items.push(Item::refused(head, at, here.min(total), refusal));
                    at += here.min(total);
                    break;
                }
                tag::PARSE | tag::BIND => {}
                _ if head.len > SHORT => {
                    return Err(WireError::BadLength { tag: head.tag, len: head.len, cap: SHORT }.into());
                }
                _ => {}
            }
            if here < total {
                let long = match head.tag {
                    tag::BIND => total > LONG_BIND && self.has_names(at),
                    _ => false,
                };
                if !long {
                    self.idle().await?;
                    continue;
                }
                let item = self.read_item(head, at, here, &items);
                let item = item.unwrap_or_else(|error| Item::malformed(head, at, here, error));
                items.push(item);
                at += here;
                break;
            }
            let item =
                self.read_item(head, at, total, &items).unwrap_or_else(|error| Item::malformed(head, at, total, error));
            let copies = head.tag == tag::EXECUTE && item.statement.as_ref().is_some_and(|s| s.copies_in);
            items.push(item);
            at += total;
            match head.tag {
                tag::SYNC => ends = Ends::Sync,
                tag::FLUSH => ends = Ends::Flush,
                _ if copies => ends = Ends::Flush,
                _ => continue,
            }
            break;
        }
        Ok(Batch { items, bytes: at, ends, consumed: false, next: 0, asked: false, poisoned: false })
    }

    fn has_names(&self, at: usize) -> bool {
        matches!(BindPrefix::parse(&self.client.pending()[at + HEAD_BYTES..]), Ok(Some(_)) | Err(_))
    }

    /// Looks at one message, and finds the statement it is about.
    fn read_item(&mut self, head: Head, start: usize, here: usize, before: &[Item]) -> Result<Item, WireError> {
        let mut item = Item { tag: head.tag, start, here, total: head.total(), statement: None, refused: None };
        let body = item.body(self);
        item.statement = match head.tag {
            tag::PARSE => {
                let parse = Parse::parse(body)?;
                Some(self.statement(&parse))
            }
            tag::BIND if item.here < item.total => {
                let prefix = BindPrefix::parse(body)?.ok_or(WireError::Truncated)?;
                self.statement_in(prefix.statement, before)
            }
            tag::BIND => {
                let bind = Bind::parse(body)?;
                self.statement_in(bind.statement, before)
            }
            tag::DESCRIBE => {
                let describe = Describe::parse(body)?;
                match describe.what {
                    frontend::What::Statement => self.statement_in(describe.name, before),
                    frontend::What::Portal => self.portal_in(describe.name, before),
                }
            }
            tag::EXECUTE => {
                let execute = Execute::parse(body)?;
                self.portal_in(execute.portal, before)
            }
            tag::CLOSE => {
                Close::parse(body)?;
                None
            }
            _ if body.is_empty() => None,
            _ => return Err(WireError::Trailing),
        };
        Ok(item)
    }

    /// What a name will stand for when the messages before it have been carried out.
    fn statement_in(&self, name: &[u8], before: &[Item]) -> Option<Named> {
        for item in before.iter().rev() {
            match item.tag {
                tag::EXECUTE if !name.is_empty() && item.statement.as_ref().is_some_and(|s| s.forgets_names) => {
                    return None;
                }
                tag::PARSE if Parse::parse(item.body(self)).is_ok_and(|parse| parse.name == name) => {
                    return item.statement.clone();
                }
                tag::CLOSE
                    if Close::parse(item.body(self))
                        .is_ok_and(|c| c.what == frontend::What::Statement && c.name == name) =>
                {
                    return None;
                }
                _ => {}
            }
        }
        self.names.find(name).cloned()
    }

    fn portal_in(&self, name: &[u8], before: &[Item]) -> Option<Named> {
        for item in before.iter().rev().filter(|item| item.tag == tag::BIND) {
            if BindPrefix::parse(item.body(self)).is_ok_and(|p| p.is_some_and(|p| p.portal == name)) {
                return item.statement.clone();
            }
        }
        self.portal(name).cloned()
    }

    /// Answers the messages at the front that need no server, and says how many they were.
    fn answer_leading(&mut self, batch: &mut Batch) -> usize {
        for (i, item) in batch.items.iter().enumerate() {
            if self.held.is_some() || self.group_open {
                return i;
            }
            let local = item.statement.as_ref().and_then(|s| s.local.clone());
            let in_failed = || {
                // A statement or portal that does not exist is a fault that counts more.
                let statement = item.statement.as_ref().filter(|_| matches!(self.tx, Tx::Failed(_)))?;
                let refused = is_refused_when_failed(&statement.classified(&self.worker).known.facts);
                refused.then(|| Box::new(failed()))
            };
            if let Some(refusal) = item.refused.clone().or_else(in_failed) {
                refusal.write(self.client.say());
                self.note_refused(1);
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

    fn bind(&mut self, portal: Box<[u8]>, statement: Named) {
        self.portals.retain(|bound| bound.name != portal);
        self.portals.push(Portal { name: portal, statement, finished: false });
    }

    /// It ran. What gives rows would give none the next time; anything else is refused.
    fn finish_portal(&mut self, local: &Local, name: &[u8]) {
        if local.columns().is_none() {
            self.portals.iter_mut().filter(|portal| *portal.name == *name).for_each(|portal| portal.finished = true);
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

    /// After an error everything up to Sync is ignored.
    async fn skip(&mut self, batch: Batch) -> Result<(), End> {
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
            let mut sync = OwedSync;
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

fn is_extended(tag: u8) -> bool {
    matches!(tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::SYNC | tag::FLUSH)
}

fn cursor_exists(portal: &[u8]) -> String {
    format!("cursor \"{}\" already exists", String::from_utf8_lossy(portal))
}

fn not_again(portal: &[u8]) -> String {
    format!("portal \"{}\" cannot be run", String::from_utf8_lossy(portal))
}

fn too_long(bytes: usize) -> String {
    format!("a statement of {bytes} bytes is too long to be prepared, {MOST_TEXT} are possible")
}

fn duplicate(name: &[u8]) -> String {
    format!("prepared statement \"{}\" already exists", String::from_utf8_lossy(name))
}

fn describe_local(local: Option<&Local>, what: frontend::What, out: &mut Vec<u8>) {
    if what == frontend::What::Statement {
        backend::parameter_description(out, &[]);
    }
    match local.and_then(|local| local.columns()) {
        Some(columns) => backend::row_description_text(out, columns),
        None => backend::no_data(out),
    }
}

/// The Sync of a group that failed.
struct OwedSync;

impl Load for OwedSync {
    fn compose(&mut self, session: &mut Session) -> Composing {
        frontend::sync(&mut session.outgoing.bytes);
        session.feed.queue.push(Owed::pass(What::Sync));
        Composing::Done
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn until(&self) -> Until {
        Until::Settled
    }

    fn ends_cycle(&self) -> bool {
        true
    }

    fn shapes(&self, _: &Session) -> Vec<Shape> {
        Vec::new()
    }

    fn statements(&self) -> u32 {
        0
    }

    fn consume(&mut self, _: &mut Session) {}
}

impl Load for Batch {
    fn rewind(&mut self) {
        (self.next, self.asked, self.poisoned) = (0, false, false);
    }

    fn try_out(&self, session: &mut Session) -> bool {
        let before = session.feed.queue.len();
        for item in self.items.iter().filter(|item| matches!(item.tag, tag::BIND | tag::DESCRIBE)) {
            if let Some(statement) = &item.statement {
                session.try_out(statement);
            }
        }
        session.feed.queue.len() > before
    }

    fn compose(&mut self, session: &mut Session) -> Composing {
        session.group_open = true;
        while let Some(item) = self.items.get(self.next) {
            // Behind an error of the server's, which can only be there if it was asked something in between, or of ours.
            if item.tag == tag::SYNC || !(self.poisoned || session.feed.skipping) {
                match session.compose_item(item, std::mem::take(&mut self.asked)) {
                    Composed::Sent => {}
                    Composed::Poisoned => self.poisoned = true,
                    Composed::Asked => {
                        frontend::flush(&mut session.outgoing.bytes);
                        self.asked = true;
                        return Composing::Pauses;
                    }
                }
            }
            if session.outgoing.stream == 0 {
                session.unread += item.total - item.here;
            }
            self.next += 1;
        }
        if self.ends == Ends::Flush && self.items.last().is_some_and(|item| item.tag == tag::EXECUTE) {
            frontend::flush(&mut session.outgoing.bytes);
        }
        Composing::Done
    }

    fn is_whole(&self) -> bool {
        self.ends != Ends::Open && self.items.iter().all(|item| item.here == item.total)
    }

    fn until(&self) -> Until {
        match self.ends {
            Ends::Sync | Ends::Flush => Until::Settled,
            Ends::Open => Until::Sent,
        }
    }

    fn ends_cycle(&self) -> bool {
        self.ends == Ends::Sync
    }

    fn shapes(&self, session: &Session) -> Vec<Shape> {
        let statements = self.items.iter().filter_map(|item| item.statement.as_ref());
        statements.map(|statement| statement.classified(&session.worker).known.shape).collect()
    }

    fn parses(&self, session: &Session) -> Vec<StatementId> {
        let parses = self.items.iter().filter(|item| item.tag == tag::PARSE);
        parses.filter_map(|parse| Some(parse.statement.as_ref()?.id(&session.params))).collect()
    }

    fn unread(&self) -> usize {
        self.items.last().map_or(0, |item| item.total - item.here)
    }

    fn statements(&self) -> u32 {
        self.items.iter().filter(|item| item.tag == tag::EXECUTE).count() as u32
    }

    fn consume(&mut self, session: &mut Session) {
        if !std::mem::replace(&mut self.consumed, true) {
            session.client.consume(self.bytes);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Composed {
    Sent,
    /// The server will fail here; what follows is skipped.
    Poisoned,
    /// Not sent: the server is asked something first.
    Asked,
}

impl Session {
    /// Writes one message for the held server, and notes what is owed for it.
    fn compose_item(&mut self, item: &Item, asked: bool) -> Composed {
        if let Some(refusal) = &item.refused {
            self.write_failing(refusal.bytes());
            if item.tag == tag::SYNC {
                // A Sync with something in it is still one.
                frontend::sync(&mut self.outgoing.bytes);
                self.owe(What::Sync, Ack::Nothing, Names::Untouched);
            }
            return Composed::Poisoned;
        }
        let raw_range = item.start..item.start + item.here;
        let local = item.statement.as_ref().and_then(|s| s.local.as_ref()).filter(|local| self.is_ours(local)).cloned();
        // Parse does not look at what it names (parse_utilcmd.c, prepare.c: EXECUTE looks when it is bound).
        let names_others =
            |s: &&Named| !s.names_in_sql.is_empty() && local.is_none() && item.tag != tag::PARSE && !asked;
        if let Some(statement) = item.statement.as_ref().filter(names_others) {
            for name in &statement.names_in_sql {
                self.lend_name(name.as_bytes(), Ack::Nothing);
            }
        }
        match item.tag {
            tag::PARSE => {
                let body = &self.client.pending()[raw_range.start + HEAD_BYTES..raw_range.end];
                let (Ok(parse), Some(statement)) = (Parse::parse(body), &item.statement) else {
                    return self.poison_malformed();
                };
                let name: Box<[u8]> = parse.name.into();
                if !name.is_empty() {
                    if self.names.find(&name).is_some() {
                        return self.poison_duplicate(statement, &name);
                    }
                    if self.names.len() >= MOST_NAMES || self.names.bytes() + statement.text.len() > MOST_TEXT {
                        return self.poison(
                            SqlState::LIMIT_EXCEEDED,
                            "this session holds too many prepared statements (65536, or 64 MiB of text, are possible); close some, \
                             or use unnamed ones",
                        );
                    }
                }
                self.names.change(&name, Some(statement.clone()));
                if local.is_some() {
                    return self.say_in_turn(Names::Change, backend::parse_complete);
                }
                if name.is_empty() {
                    let own = statement.own_id(&self.params, self.pid);
                    self.outgoing.bytes.extend_from_slice(&self.client.pending()[raw_range]);
                    self.owe(What::Parse, Ack::Unnamed(own), Names::Change);
                    if let Some(server) = self.server() {
                        server.unnamed = Some(own);
                    }
                    return Composed::Sent;
                }
                let id = statement.id(&self.params);
                let statement = statement.clone();
                if self.pins.has(Feature::Prepare) || self.deeds.living {
                    // A PREPARE may have taken the name: then the server refuses it, as it would have.
                    frontend::parse(&mut self.outgoing.bytes, &name, b"", &[]);
                    self.feed.queue.push(Owed::swallow(What::Parse, Ack::Nothing));
                    frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, &name);
                    self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
                }
                let found = self.server().map_or(Found::Nothing, |server| server.prepared.touch(id));
                if !matches!(found, Found::Nothing | Found::Stale) {
                    if self.status() == TxStatus::Failed {
                        // Only the server knows whether it takes this text now.
                        self.try_text(&statement);
                    }
                    return self.say_in_turn(Names::Change, backend::parse_complete);
                }
                self.make(&statement, Found::Something);
                self.owe(What::Parse, Ack::Prepared(id), Names::Change);
            }
            tag::BIND => {
                let body = &self.client.pending()[raw_range.start + HEAD_BYTES..raw_range.end];
                let Ok(Some(prefix)) = BindPrefix::parse(body) else { return self.poison_malformed() };
                let (portal, name): (Box<[u8]>, Box<[u8]>) = (prefix.portal.into(), prefix.statement.into());
                let Some(statement) = item.statement.clone() else {
                    if name.is_empty() {
                        self.close_unnamed();
                    }
                    self.send_raw(item);
                    self.owe(What::Bind, Ack::Nothing, Names::Untouched);
                    return Composed::Sent;
                };
                if !portal.is_empty() && self.is_finished(&portal) {
                    return self.poison(SqlState::DUPLICATE_CURSOR, cursor_exists(&portal));
                }
                let ready = if local.is_some() { Ready::Raw } else { self.ensure(&statement, &name, asked) };
                match ready {
                    Ready::Asked => return Composed::Asked,
                    Ready::Changed => return self.poison_changed(),
                    Ready::Raw | Ready::Named(_) => {}
                }
                self.bind(portal, statement);
                if local.is_some() {
                    return self.say_in_turn(Names::Untouched, backend::bind_complete);
                }
                let Ready::Named(server_name) = ready else {
                    self.send_raw(item);
                    self.owe(What::Bind, Ack::Nothing, Names::Untouched);
                    return Composed::Sent;
                };
                let body = &self.client.pending()[raw_range.start + HEAD_BYTES..raw_range.end];
                let Ok(Some(prefix)) = BindPrefix::parse(body) else { return self.poison_malformed() };
                let head = Head { tag: tag::BIND, len: (item.total - 1) as u32 };
                let renamed =
                    frontend::bind_with_names(&mut self.outgoing.bytes, head, &prefix, server_name.as_bytes());
                let Ok(rest) = renamed else { return self.poison_malformed() };
                self.outgoing.bytes.extend_from_slice(&body[rest..]);
                self.outgoing.stream = item.total - item.here;
                let ack = Ack::Bound(self.bound.len() as u32);
                self.bound.push(name);
                self.owe(What::Bind, ack, Names::Untouched);
            }
            tag::DESCRIBE => {
                let body = &self.client.pending()[raw_range.start + HEAD_BYTES..raw_range.end];
                let Ok(describe) = Describe::parse(body) else { return self.poison_malformed() };
                let (what, name): (_, Box<[u8]>) = (describe.what, describe.name.into());
                let finished = what == frontend::What::Portal && self.is_finished(&name);
                if local.is_some() || finished {
                    let mut out = Vec::new();
                    describe_local(local.as_ref(), what, &mut out);
                    self.feed.queue.push(Owed::Local(out.into(), Names::Untouched));
                    return Composed::Sent;
                }
                match (what, item.statement.clone()) {
                    (frontend::What::Portal, statement) => {
                        self.send_raw(item);
                        let ack = statement.map_or(Ack::Nothing, |statement| {
                            let by_our_name = !statement.is_unnamed();
                            self.tell(statement, what, by_our_name)
                        });
                        self.owe(What::DescribePortal, ack, Names::Untouched);
                    }
                    (frontend::What::Statement, Some(statement)) => {
                        let ready = self.ensure(&statement, &name, asked);
                        match ready {
                            Ready::Asked => return Composed::Asked,
                            Ready::Changed => return self.poison_changed(),
                            Ready::Raw => self.send_raw(item),
                            Ready::Named(server_name) => {
                                frontend::describe(&mut self.outgoing.bytes, what, server_name.as_bytes());
                            }
                        }
                        let ack = self.tell(statement, what, matches!(ready, Ready::Named(_)));
                        self.owe(What::DescribeStatement, ack, Names::Untouched);
                    }
                    (frontend::What::Statement, None) => {
                        if name.is_empty() {
                            self.close_unnamed();
                        }
                        self.send_raw(item);
                        self.owe(What::DescribeStatement, Ack::Nothing, Names::Untouched);
                    }
                }
            }
            tag::EXECUTE => {
                let Ok(execute) = Execute::parse(item.body(self)) else { return self.poison_malformed() };
                if self.is_finished(execute.portal) {
                    let message = not_again(execute.portal);
                    return self.poison(SqlState::NOT_IN_PREREQUISITE_STATE, message);
                }
                if let (Some(local), Some(statement)) = (&local, &item.statement) {
                    let (portal, text) = (Box::<[u8]>::from(execute.portal), statement.text.clone());
                    let ran = self.run_local(local, &text, false);
                    self.finish_portal(local, &portal);
                    return match ran {
                        Ran::Done => Composed::Sent,
                        Ran::Error => Composed::Poisoned,
                    };
                }
                self.send_raw(item);
                let Some(statement) = &item.statement else {
                    self.owe(What::Execute, Ack::Nothing, Names::Untouched);
                    return Composed::Sent;
                };
                if statement.forgets_names {
                    self.names.change_all();
                    self.forget_statements();
                    self.owe(What::Execute, Ack::Nothing, Names::Change);
                } else if let Some(name) = statement.deallocates.first() {
                    // The protocol runs one statement at a time, so there is one name.
                    self.names.change(name.as_bytes(), None);
                    self.no_longer_lent(name.as_bytes());
                    self.owe(What::Execute, Ack::Nothing, Names::Change);
                } else {
                    self.owe(What::Execute, Ack::Nothing, Names::Untouched);
                }
            }
            tag::CLOSE => {
                let body = &self.client.pending()[raw_range.start + HEAD_BYTES..raw_range.end];
                let Ok(close) = Close::parse(body) else { return self.poison_malformed() };
                let (what, name): (_, Box<[u8]>) = (close.what, close.name.into());
                match what {
                    frontend::What::Statement => {
                        // Other clients may use it on this server; it leaves by the server's own limit.
                        self.names.change(&name, None);
                        // What PREPARE has made goes by the same names.
                        let by_sql = self.pins.has(Feature::Prepare) || self.deeds.living;
                        self.deeds.living |= self.pins.has(Feature::Prepare);
                        if self.no_longer_lent(&name) || by_sql {
                            self.send_raw(item);
                            self.owe(What::Close, Ack::Nothing, Names::Change);
                            return Composed::Sent;
                        }
                        return self.say_in_turn(Names::Change, backend::close_complete);
                    }
                    frontend::What::Portal => {
                        self.portals.retain(|portal| portal.name != name);
                        self.send_raw(item);
                        self.owe(What::Close, Ack::Nothing, Names::Untouched);
                    }
                }
            }
            tag::SYNC => {
                self.send_raw(item);
                self.owe(What::Sync, Ack::Nothing, Names::Untouched);
            }
            // FLUSH; nothing else is ever gathered.
            _ => self.send_raw(item),
        }
        Composed::Sent
    }

    fn server(&mut self) -> Option<&mut crate::pool::Server> {
        self.held.as_mut().and_then(|held| held.lease.server())
    }

    /// Somebody else's unnamed statement may be on the server; the client has none.
    fn close_unnamed(&mut self) {
        if let Some(server) = self.server() {
            server.unnamed = None;
            frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, b"");
            self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        }
    }

    fn send_raw(&mut self, item: &Item) {
        let raw = &self.client.pending()[item.start..item.start + item.here];
        self.outgoing.bytes.extend_from_slice(raw);
        self.outgoing.stream = item.total - item.here;
    }

    fn owe(&mut self, what: What, ack: Ack, names: Names) {
        self.feed.queue.push(Owed::Reply { what, show: crate::relay::Show::Pass, ack, names });
    }

    fn say_in_turn(&mut self, names: Names, write: impl FnOnce(&mut Vec<u8>)) -> Composed {
        let mut out = Vec::with_capacity(8);
        write(&mut out);
        self.feed.queue.push(Owed::Local(out.into(), names));
        Composed::Sent
    }

    /// The held server gets the statement if it lacks it.
    fn ensure(&mut self, statement: &Named, name: &[u8], asked: bool) -> Ready {
        let told = self.told(statement);
        if name.is_empty() {
            let own = statement.own_id(&self.params, self.pid);
            let Some(server) = self.server() else { return Ready::Raw };
            if server.unnamed == Some(own) {
                return Ready::Raw;
            }
            if told.is_none() {
                server.unnamed = Some(own);
                frontend::parse(&mut self.outgoing.bytes, b"", &statement.text, &statement.oids);
                self.feed.queue.push(Owed::swallow(What::Parse, Ack::Unnamed(own)));
                return Ready::Raw;
            }
        }
        let id = statement.id(&self.params);
        let Some(server) = self.server() else { return Ready::Raw };
        let (server_name, found) = (server.prepared.name_of(id), server.prepared.touch(id));
        match (found, told) {
            (Found::Giving(is), Some(told)) if is.is(told) => {}
            (Found::Something | Found::Giving(_), None) => {}
            (Found::Nothing | Found::Stale, None) => {
                self.make(statement, Found::Something);
                self.feed.queue.push(Owed::swallow(What::Parse, Ack::Prepared(id)));
            }
            (_, Some(_)) if asked => return Ready::Changed,
            (_, Some(_)) => {
                self.ask(statement, found, None);
                return Ready::Asked;
            }
        }
        Ready::Named(server_name)
    }

    /// An error of ours in the middle of a pipeline.
    fn poison(&mut self, sqlstate: SqlState, message: impl Into<std::borrow::Cow<'static, str>>) -> Composed {
        self.write_failing(Refusal::new(sqlstate, message).bytes());
        Composed::Poisoned
    }

    /// Other columns than the client was told. pgjdbc prepares anew if the error is of this routine (plancache.c), whatever its text.
    fn poison_changed(&mut self) -> Composed {
        let changed = Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, CHANGED).of_routine("RevalidateCachedQuery");
        self.write_failing(changed.bytes());
        Composed::Poisoned
    }

    /// A name that is in use: as on a server, the text's own faults come first.
    fn poison_duplicate(&mut self, statement: &Statement, name: &[u8]) -> Composed {
        self.try_text(statement);
        frontend::parse(&mut self.outgoing.bytes, super::refusal::NO_SUCH, b"", &[]);
        self.feed.queue.push(Owed::Poison(Refusal::new(SqlState::DUPLICATE_STATEMENT, duplicate(name)).bytes()));
        Composed::Poisoned
    }

    /// Has the server look at a text under a name that means nothing. If it refuses it, that is the client's error.
    fn try_text(&mut self, statement: &Statement) {
        frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, super::refusal::NO_SUCH);
        self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        frontend::parse(&mut self.outgoing.bytes, super::refusal::NO_SUCH, &statement.text, &statement.oids);
        self.feed.queue.push(Owed::swallow(What::Parse, Ack::Nothing));
    }

    fn poison_malformed(&mut self) -> Composed {
        self.poison(SqlState::PROTOCOL_VIOLATION, "invalid message format")
    }
}

/// Under which name a statement can be used on the held server.
#[derive(Clone, Copy)]
enum Ready {
    /// The client's own, as its message stands.
    Raw,
    /// Ours.
    Named(ServerName),
    /// Not yet known: the server is asked.
    Asked,
    /// It does not give there what the client was told.
    Changed,
}

/// What a server says when a plan made anew gives other columns than before.
const CHANGED: &str = "cached plan must not change result type";
