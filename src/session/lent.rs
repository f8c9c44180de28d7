//! One name space for both ways of preparing: SQL may name a statement that the client prepared by the protocol, and a server knows
//! that one by a name of ours. So the server is lent the statement under the client's own name, until the transaction is over.

use super::state::Session;
use crate::{
    relay::{Ack, Owed, What},
    wire::{backend::TxStatus, frontend},
};

impl Session {
    /// Prepares on the held server, under the client's own names, what the simple Query about to be sent names.
    pub(super) fn lend_names_in_sql(&mut self) {
        if self.names_in_sql.is_empty() || self.status() == TxStatus::Failed {
            self.names_in_sql.clear();
            return;
        }
        // What stops a Query stops it alone; in a group it is an error of the group.
        let ack = if self.group_open { Ack::Nothing } else { Ack::Lent };
        for name in std::mem::take(&mut self.names_in_sql) {
            self.lend_name(&name, ack);
        }
        if !self.group_open {
            // Outside of a group an error would make the server skip the Query, too.
            frontend::sync(&mut self.outgoing.bytes);
            self.feed.queue.push(Owed::swallow(What::Sync, Ack::Nothing));
        }
    }

    /// Prepares a statement of the client on the held server under the client's own name.
    pub(super) fn lend_name(&mut self, name: &[u8], ack: Ack) {
        let (Some(statement), Some(held)) = (self.names.find(name).filter(|_| !name.is_empty()), &mut self.held) else {
            return;
        };
        // Whatever has become of an earlier one: closing what is not there is no error.
        frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, name);
        self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        frontend::parse(&mut self.outgoing.bytes, name, &statement.text, &statement.oids);
        self.feed.queue.push(Owed::swallow(What::Parse, ack));
        if !held.lent_names.iter().any(|lent| **lent == *name) {
            held.lent_names.push(name.into());
        }
    }

    /// The client gives a name up. Was it lent?
    pub(super) fn no_longer_lent(&mut self, name: &[u8]) -> bool {
        let Some(held) = &mut self.held else { return false };
        let before = held.lent_names.len();
        held.lent_names.retain(|lent| **lent != *name);
        held.lent_names.len() < before
    }

    /// The transaction is over: the server forgets the names again. False: it is not to be trusted any more.
    pub(super) async fn take_names_back(&mut self) -> bool {
        self.handle.cancels_have_arrived().await;
        let Some(held) = &mut self.held else { return true };
        self.feed.reset();
        for name in held.lent_names.drain(..) {
            frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, &name);
            self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        }
        frontend::sync(&mut self.outgoing.bytes);
        self.feed.queue.push(Owed::swallow(What::Sync, Ack::Nothing));
        self.hidden_is_answered().await
    }
}
