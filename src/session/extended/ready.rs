//! What stands around a client's messages: statements a server lacks, errors of ours in the middle of a pipeline.

use super::{compose::Composed, gather::Item};
use crate::{
    base::SqlState,
    pool::{Found, ServerName},
    relay::{Ack, NO_SUCH, Names, Owed, Show, What},
    session::{
        refusal::Refusal,
        state::Session,
        statements::{Named, Statement},
    },
    wire::frontend,
};
pub(super) fn cursor_exists(portal: &[u8]) -> String {
    format!("cursor \"{}\" already exists", String::from_utf8_lossy(portal))
}

pub(super) fn not_again(portal: &[u8]) -> String {
    format!("portal \"{}\" cannot be run", String::from_utf8_lossy(portal))
}

pub(super) fn duplicate(name: &[u8]) -> String {
    format!("prepared statement \"{}\" already exists", String::from_utf8_lossy(name))
}

impl Session {
    pub(super) fn server(&mut self) -> Option<&mut crate::pool::Server> {
        self.held.as_mut().and_then(|held| held.lease.server())
    }

    /// Somebody else's unnamed statement may be on the server; the client has none.
    pub(super) fn close_unnamed(&mut self) {
        if let Some(server) = self.server() {
            server.unnamed = None;
            frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, b"");
            self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        }
    }

    /// A server drops the unnamed statement before it looks at the text of the next one.
    pub(super) fn lose_unnamed(&mut self) {
        self.names.change(b"", None);
        if let Some(server) = self.server() {
            server.unnamed = None;
        }
        frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, b"");
        let (what, show, ack, names) = (What::Close, Show::Swallow, Ack::Nothing, Names::Change);
        self.feed.queue.push(Owed::Reply { what, show, ack, names });
    }

    pub(super) fn send_raw(&mut self, item: &Item) {
        let raw = &self.client.pending()[item.start..item.start + item.here];
        self.outgoing.bytes.extend_from_slice(raw);
        self.outgoing.stream = item.total - item.here;
    }

    pub(super) fn owe(&mut self, what: What, ack: Ack, names: Names) {
        self.feed.queue.push(Owed::Reply { what, show: crate::relay::Show::Pass, ack, names });
    }

    pub(super) fn say_in_turn(&mut self, names: Names, write: impl FnOnce(&mut Vec<u8>)) -> Composed {
        let mut out = Vec::with_capacity(8);
        write(&mut out);
        self.feed.queue.push(Owed::Local(out.into(), names));
        Composed::Sent
    }

    /// The held server gets the statement if it lacks it.
    pub(super) fn ensure(&mut self, statement: &Named, name: &[u8], asked: bool) -> Ready {
        let told = self.told(statement);
        if name.is_empty() {
            let own = statement.own_id(self.meaning(), self.pid);
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
        let id = statement.id(self.meaning());
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
    pub(super) fn poison(
        &mut self,
        sqlstate: SqlState,
        message: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Composed {
        self.write_failing(Refusal::new(sqlstate, message).bytes());
        Composed::Poisoned
    }

    /// Other columns than the client was told. pgjdbc prepares anew if the error is of this routine (plancache.c), whatever its text.
    pub(super) fn poison_changed(&mut self) -> Composed {
        let changed = Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, CHANGED).of_routine("RevalidateCachedQuery");
        self.write_failing(changed.bytes());
        Composed::Poisoned
    }

    /// A name that is in use: as on a server, the text's own faults come first.
    pub(super) fn poison_duplicate(&mut self, statement: &Statement, name: &[u8]) -> Composed {
        self.try_text(statement);
        frontend::parse(&mut self.outgoing.bytes, NO_SUCH, b"", &[]);
        self.feed.queue.push(Owed::Poison(Refusal::new(SqlState::DUPLICATE_STATEMENT, duplicate(name)).bytes()));
        Composed::Poisoned
    }

    /// Has the server look at a text under a name that means nothing. If it refuses it, that is the client's error.
    pub(super) fn try_text(&mut self, statement: &Statement) {
        frontend::close(&mut self.outgoing.bytes, frontend::What::Statement, NO_SUCH);
        self.feed.queue.push(Owed::swallow(What::Close, Ack::Nothing));
        frontend::parse(&mut self.outgoing.bytes, NO_SUCH, &statement.text, &statement.oids);
        self.feed.queue.push(Owed::swallow(What::Parse, Ack::Nothing));
    }

    pub(super) fn poison_malformed(&mut self) -> Composed {
        self.poison(SqlState::PROTOCOL_VIOLATION, "invalid message format")
    }
}

/// Under which name a statement can be used on the held server.
#[derive(Clone, Copy)]
pub(super) enum Ready {
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
