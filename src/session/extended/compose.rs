//! A group's messages as they are written for the held server, and what is owed for each.

use super::{
    answer::describe_local,
    gather::{Batch, Ends, Item, MOST_TEXT},
    ready::{Ready, cursor_exists, not_again},
};
use crate::{
    base::SqlState,
    config::Feature,
    pool::{Found, StatementId},
    relay::{Ack, Names, Owed, Until, What},
    session::{
        cycle::{Composing, Load},
        local::{Local, Ran},
        metering::Metered,
        rules::Protocol,
        state::Session,
        statements::Named,
    },
    sql::Route,
    wire::{
        HEAD_BYTES, Head,
        backend::{self, TxStatus},
        frontend::{self, BindPrefix, Close, Describe, Execute, Parse, tag},
    },
};
/// Most prepared statements of one client.
pub(super) const MOST_NAMES: usize = 1 << 16;

impl Load for Batch {
    fn rewind(&mut self) {
        (self.next, self.asked, self.poisoned) = (0, false, false);
        self.metered = None;
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
        let begins = !std::mem::replace(&mut session.group_open, true);
        let idle = |item: &Item| matches!(item.tag, tag::CLOSE | tag::SYNC | tag::FLUSH);
        if begins && session.status() == TxStatus::InTransaction && self.items.iter().all(idle) {
            session.wake_transaction();
        }
        if let Some(error) = self.metered.take().and_then(|metered| session.settle_meter(&metered)) {
            // The server has carried it out to its end; what it belongs to fails here.
            session.write_failing(error);
            self.poisoned = true;
        }
        while let Some(item) = self.items.get(self.next) {
            // Behind an error of the server's, which can only be there if it was asked something in between, or of ours.
            if item.tag == tag::SYNC || !(self.poisoned || session.feed.skipping) {
                match session.compose_item(item, std::mem::take(&mut self.asked)) {
                    Composed::Sent => {}
                    Composed::Poisoned => self.poisoned = true,
                    Composed::Metered(metered) => {
                        // What follows hangs on its length.
                        frontend::flush(&mut session.outgoing.bytes);
                        self.metered = Some(metered);
                        self.next += 1;
                        return Composing::Pauses;
                    }
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

    fn routes(&self, session: &Session) -> Vec<Route> {
        let statements = self.items.iter().filter_map(|item| item.statement.as_ref());
        statements.map(|statement| session.classified(statement).known.route).collect()
    }

    fn parses(&self, session: &Session) -> Vec<StatementId> {
        let parses = self.items.iter().filter(|item| item.tag == tag::PARSE);
        parses.filter_map(|parse| Some(parse.statement.as_ref()?.id(session.meaning()))).collect()
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

pub(super) enum Composed {
    Sent,
    /// The server will fail here; what follows is skipped.
    Poisoned,
    /// Not sent: the server is asked something first.
    Asked,
    /// Sent, and nothing else until its result is in.
    Metered(Metered),
}

impl Session {
    /// A Query behind extended messages without their Sync runs in the transaction that those have begun. From version 18 on that is an
    /// implicit block (postgres.c, start_xact_command): such a Query ends with T, and a Sync that comes next with I, but commits
    /// nothing, and whoever has the next statement is told XX000. With a message in front of it that begins a command, that Sync commits.
    /// Anywhere else such a message does nothing.
    fn wake_transaction(&mut self) {
        frontend::parse(&mut self.outgoing.bytes, b"", b"", &[]);
        self.feed.queue.push(Owed::swallow(What::Parse, Ack::Nothing));
        if let Some(server) = self.server() {
            server.unnamed = None;
        }
    }

    /// Writes one message for the held server, and notes what is owed for it.
    pub(super) fn compose_item(&mut self, item: &Item, asked: bool) -> Composed {
        if let Some(refusal) = &item.refused {
            if item.is_unnamed_parse(self) {
                self.lose_unnamed();
            }
            self.write_failing(refusal.bytes());
            if item.tag == tag::SYNC {
                // A Sync with something in it is still one.
                frontend::sync(&mut self.outgoing.bytes);
                self.owe(What::Sync, Ack::Nothing, Names::Untouched);
            }
            return Composed::Poisoned;
        }
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
            tag::PARSE => self.compose_parse(item, local.as_ref()),
            tag::BIND => self.compose_bind(item, local.as_ref(), asked),
            tag::DESCRIBE => self.compose_describe(item, local.as_ref(), asked),
            tag::EXECUTE => self.compose_execute(item, local.as_ref()),
            tag::CLOSE => self.compose_close(item),
            tag::SYNC => {
                self.send_raw(item);
                self.owe(What::Sync, Ack::Nothing, Names::Untouched);
                Composed::Sent
            }
            // FLUSH; nothing else is ever gathered.
            _ => {
                self.send_raw(item);
                Composed::Sent
            }
        }
    }

    /// A named statement the server has under our name need not travel again.
    fn compose_parse(&mut self, item: &Item, local: Option<&Local>) -> Composed {
        let body = item.body(self);
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
            let own = statement.own_id(self.meaning(), self.pid);
            match &statement.original {
                // What the client has written is not what is to run.
                Some(_) => frontend::parse(&mut self.outgoing.bytes, b"", &statement.text, &statement.oids),
                None => self.send_raw(item),
            }
            self.owe(What::Parse, Ack::Unnamed(own), Names::Change);
            if let Some(server) = self.server() {
                server.unnamed = Some(own);
            }
            return Composed::Sent;
        }
        let id = statement.id(self.meaning());
        let statement = statement.clone();
        if self.pins.has(Feature::Prepare) || self.deeds.living {
            // A PREPARE may have taken the name: then the server refuses it, as it would have; but the text's own faults come first.
            self.try_text(&statement);
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
        Composed::Sent
    }

    /// Under the name the statement has on the server.
    fn compose_bind(&mut self, item: &Item, local: Option<&Local>, asked: bool) -> Composed {
        let body = item.body(self);
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
        let body = &self.client.pending()[item.start + HEAD_BYTES..item.start + item.here];
        let Ok(Some(prefix)) = BindPrefix::parse(body) else { return self.poison_malformed() };
        let head = Head { tag: tag::BIND, len: (item.total - 1) as u32 };
        let renamed = frontend::bind_with_names(&mut self.outgoing.bytes, head, &prefix, server_name.as_bytes());
        let Ok(rest) = renamed else { return self.poison_malformed() };
        self.outgoing.bytes.extend_from_slice(&body[rest..]);
        self.outgoing.stream = item.total - item.here;
        let ack = Ack::Bound(self.bound.len() as u32);
        self.bound.push(name);
        self.owe(What::Bind, ack, Names::Untouched);
        Composed::Sent
    }

    /// What it gives is noted, so that it can be checked before the statement runs elsewhere.
    fn compose_describe(&mut self, item: &Item, local: Option<&Local>, asked: bool) -> Composed {
        let body = item.body(self);
        let Ok(describe) = Describe::parse(body) else { return self.poison_malformed() };
        let (what, name): (_, Box<[u8]>) = (describe.what, describe.name.into());
        let finished = what == frontend::What::Portal && self.is_finished(&name);
        if local.is_some() || finished {
            let mut out = Vec::new();
            describe_local(local, what, &mut out);
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
        Composed::Sent
    }

    /// Runs a portal; transaction control that is still to be sent is answered in its turn.
    fn compose_execute(&mut self, item: &Item, local: Option<&Local>) -> Composed {
        let Ok(execute) = Execute::parse(item.body(self)) else { return self.poison_malformed() };
        if self.is_finished(execute.portal) {
            let message = not_again(execute.portal);
            return self.poison(SqlState::NOT_IN_PREREQUISITE_STATE, message);
        }
        if let (Some(local), Some(statement)) = (local, &item.statement) {
            let (portal, text) = (Box::<[u8]>::from(execute.portal), statement.text.clone());
            let ran = self.run_local(local, &text, false);
            self.finish_portal(local, &portal);
            return match ran {
                Ran::Done => Composed::Sent,
                Ran::Error => Composed::Poisoned,
            };
        }
        let metered = self.metered_execute(item, execute.portal);
        self.send_raw(item);
        if let Some(metered) = metered {
            self.set_meter(&metered);
            self.feed.queue.push(Owed::metered(What::Execute));
            return Composed::Metered(metered);
        }
        let Some(statement) = &item.statement else {
            self.owe(What::Execute, Ack::Nothing, Names::Untouched);
            return Composed::Sent;
        };
        if !statement.is_plain || self.server().is_some_and(|server| server.temporary) {
            let known = self.classified(statement).known;
            self.note_temporary(&known.facts);
            self.lose_portals(&known.facts);
        }
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
        Composed::Sent
    }

    /// What limits the result of a portal. Transaction control and the like give none.
    fn metered_execute(&self, item: &Item, portal: &[u8]) -> Option<Metered> {
        if !self.is_ruled() {
            return None;
        }
        let Some(statement) = &item.statement else {
            return self.metered(None, None, Some(portal), Protocol::Extended);
        };
        let known = self.classified(statement).known;
        let gives = known.facts.tx.is_empty()
            && !(statement.copies_in || statement.forgets_names || !statement.deallocates.is_empty());
        if !gives {
            return None;
        }
        self.metered(Some(&known.facts), item.verdict.as_ref(), Some(portal), Protocol::Extended)
    }

    /// A name of the client's ends; what the server keeps under ours stays for others.
    fn compose_close(&mut self, item: &Item) -> Composed {
        let body = item.body(self);
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
        Composed::Sent
    }
}
