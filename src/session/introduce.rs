//! A statement comes to a server that does not have it, perhaps after the schema has changed. What the client was told of its columns
//! must be what it gets; PostgreSQL sees to that for a statement it has, so it is enough to ask once, when it is made there.

use super::{state::Session, statements::Named};
use crate::{
    pool::{Found, StatementId},
    relay::{Ack, Asked, Owed, What},
    wire::{backend::ResultType, frontend},
};

impl Session {
    /// Sends the Parse of a statement under its name on the held server; what is owed for it is the caller's affair.
    pub(super) fn make(&mut self, statement: &Named, found: Found) {
        let id = statement.id(self.meaning());
        let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) else { return };
        let name = server.prepared.name_of(id);
        let there = server.prepared.touch(id) != Found::Nothing;
        // Either it gives way to itself, or the oldest one does.
        let mut gives_way = if there { Some(id) } else { server.prepared.make_room() };
        while let Some(old) = gives_way {
            let old_name = server.prepared.name_of(old);
            frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, old_name.as_bytes());
            self.feed.queue.push(Owed::swallow(What::Close, Ack::Closed(old)));
            gives_way = if there { None } else { server.prepared.make_room() };
        }
        server.prepared.insert(id, found);
        frontend::parse(&mut self.outgoing.bytes, name.as_bytes(), &statement.text, &statement.oids);
    }

    /// Asks the held server what the statement gives there, and makes it first unless `found` will do.
    pub(super) fn ask(&mut self, statement: &Named, found: Found, must_be: Option<ResultType>) {
        let id = statement.id(self.meaning());
        let expected = must_be.map_or(Found::Something, Found::Giving);
        if found != Found::Something {
            self.make(statement, expected);
            let ack = if must_be.is_some() { Ack::OnTrial(id) } else { Ack::Prepared(id) };
            self.feed.queue.push(Owed::swallow(What::Parse, ack));
        }
        let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) else { return };
        server.prepared.learn(id, expected);
        let name = server.prepared.name_of(id);
        frontend::describe(&mut self.outgoing.bytes, frontend::What::Statement, name.as_bytes());
        self.feed.queue.push(Owed::swallow(What::DescribeStatement, Ack::Asked(self.feed.asked.len() as u32)));
        self.feed.asked.push(Asked { id, must_be, is: None });
    }

    /// Before a read is sent: if the client was told what the statement gives, the held server must give the same, or the read goes
    /// elsewhere. The question travels in front of it in the same write, because nobody is hurt if it ran in vain.
    pub(super) fn try_out(&mut self, statement: &Named) {
        let Some(told) = self.told(statement) else { return };
        let (id, own) = (statement.id(self.meaning()), statement.own_id(self.meaning(), self.pid));
        let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) else { return };
        if server.unnamed == Some(own) {
            return;
        }
        let found = server.prepared.touch(id);
        if !matches!(found, Found::Giving(is) if is.is(told)) {
            self.ask(statement, found, Some(told));
        }
    }

    /// The client is about to be told what a statement gives, which the held server has under a name of ours or not. Noted unless
    /// it is known.
    pub(super) fn tell(&mut self, statement: Named, what: frontend::What, by_our_name: bool) -> Ack {
        let known = self.told(&statement).is_some_and(|told| what == frontend::What::Portal || told.is_complete());
        if known {
            return Ack::Nothing;
        }
        let on_server = by_our_name.then(|| statement.id(self.meaning()));
        self.describing.push(Describing { statement, on_server });
        Ack::Told(self.describing.len() as u32 - 1)
    }

    /// Replies for our own bookkeeping are in.
    pub(super) fn settle_server(&mut self) {
        self.settle_told();
        if self.feed.is_settled() {
            self.describing.clear();
            self.bound.clear();
        }
        let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) else { return };
        for asked in self.feed.asked.drain(..) {
            server.prepared.learn(asked.id, asked.is.map_or(Found::Something, Found::Giving));
        }
        self.feed.settle_statements(&mut server.prepared, &mut server.unnamed);
    }
    /// What the client has been told it was told, whatever else became of the request.
    pub(super) fn settle_told(&mut self) {
        let mut told = std::mem::take(&mut self.feed.told);
        for (number, is) in told.drain(..) {
            let Some(Describing { statement, on_server }) = self.describing.get(number as usize).cloned() else {
                continue;
            };
            self.note_told(&statement, is);
            if let (Some(id), Some(held)) = (on_server, &mut self.held)
                && let Some(server) = held.lease.server()
            {
                server.prepared.learn(id, Found::Giving(is));
            }
        }
        self.feed.told = told;
    }
}

/// A Describe of the client's that is under way.
#[derive(Clone, Debug)]
pub(super) struct Describing {
    statement: Named,
    /// What it is called on the server, if we called it so.
    on_server: Option<StatementId>,
}
