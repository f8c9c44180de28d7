//! The session's state, and the small questions other files ask of it.

use std::{
    cell::Cell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    admission::{Admitted, Connected},
    cancel::Handle,
    introduce::Describing,
    route_shown::LastRoute,
    statements::{Named, Names},
    tx::Tx,
    worker::{Tenant, Worker},
};
use crate::{
    pool::{Lease, Params},
    relay::{Client, Feed, Outgoing},
    route::Floor,
    sql::{Encoding, StringRules},
    wire::backend::{self, ResultType, TxStatus},
};

/// A server connection the session holds.
#[derive(Debug)]
pub(super) struct Held {
    pub lease: Lease,
    /// Index of its node in the database.
    pub node: usize,
    /// When the present request was sent.
    pub since: Instant,
    /// The client's statements that the server has under the client's own names, too, for statements that name them in SQL.
    pub lent_names: Vec<Box<[u8]>>,
}

/// A portal that was bound.
#[derive(Debug)]
pub(super) struct Portal {
    pub name: Box<[u8]>,
    pub statement: Named,
    /// Its statement was answered here, and has run.
    pub finished: bool,
}

/// Every pin reason, in the words of `session_guard`; label values of `pgsluice_pins_total`.
pub const PIN_REASONS: &[&str] =
    &["listen", "temp_table", "advisory_lock", "with_hold_cursor", "prepare", "set", "load"];

/// Why a session keeps its server between transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pins {
    pub listen: bool,
    pub temp_table: bool,
    pub advisory_lock: bool,
    pub with_hold_cursor: bool,
    pub prepare: bool,
    pub set: bool,
    pub load: bool,
}

impl Pins {
    pub(super) fn any(&self) -> bool {
        *self != Self::default()
    }

    /// The first reason, in the words of `session_guard`.
    pub(super) fn reason(&self) -> Option<&'static str> {
        let pinned = [
            self.listen,
            self.temp_table,
            self.advisory_lock,
            self.with_hold_cursor,
            self.prepare,
            self.set,
            self.load,
        ];
        pinned.iter().position(|pinned| *pinned).and_then(|i| PIN_REASONS.get(i)).copied()
    }
}

/// What was done to a parameter last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Set,
    Reset,
}

/// What a transaction has done to the state of its server's session; settled when it ends.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    /// Parameters set, reset or perhaps changed back by a rollback.
    pub touched: BTreeMap<Box<str>, Last>,
    /// RESET ALL: every parameter.
    pub reset_all: bool,
    /// Something that lives on in the server's session may have come or gone.
    pub living: bool,
    /// Code we cannot see into ran.
    pub opaque: bool,
    /// The same, or EXECUTE of something prepared by SQL, while the session is pinned: reset before anybody else gets the server.
    pub residue: bool,
    /// Parameters with names we do not know were set.
    pub unknown_parameter: bool,
    /// A library was loaded.
    pub load: bool,
    /// Something was written, or may have been.
    pub wrote: bool,
    /// The request under way may commit.
    pub ending: bool,
    /// Whether the request under way leaves a transaction open, if it begins or ends one.
    pub leaves_open: Option<bool>,
    /// Something may have been rolled back, explicitly or by an error.
    pub rolled_back: bool,
    /// Transactions were begun or ended by statements.
    pub controlled: bool,
    /// The schema may have changed.
    pub ddl: bool,
    /// `synchronous_commit` was touched, so the commit may be acknowledged before it is flushed.
    pub lazy_commit: bool,
}

/// One client.
pub(super) struct Session {
    pub worker: Rc<Worker>,
    pub tenant: Rc<Tenant>,
    /// The database name the client gave.
    pub database: Box<str>,
    pub client: Client,
    pub handle: Rc<Handle>,
    pub pid: u32,
    pub held: Option<Held>,
    pub feed: Feed,
    pub outgoing: Outgoing,
    /// The last moment that was looked at the clock.
    pub mark: Instant,
    pub tx: Tx,
    pub names: Names,
    /// How many statements it has parsed, and what was told of the unnamed one of that number.
    pub births: Cell<u32>,
    pub unnamed_told: Option<(u32, ResultType)>,
    /// Statements whose Describe is under way, by the numbers of [`Ack::Told`](crate::relay::Ack::Told).
    pub describing: Vec<Describing>,
    /// Names of statements that were bound, by the numbers of [`Ack::Bound`](crate::relay::Ack::Bound).
    pub bound: Vec<Box<[u8]>>,
    /// Portals bound in this transaction, and what they run.
    pub portals: Vec<Portal>,
    /// Statements of the protocol that the request under way names in SQL.
    pub names_in_sql: Vec<Box<[u8]>>,
    /// What the client has set, and what it asked for at login.
    pub params: Params,
    pub startup: Params,
    pub strings: StringRules,
    /// Reported parameters that the client asked for at login, and what it was told last that they are.
    pub told: Vec<(Box<str>, Box<str>)>,
    pub pins: Pins,
    pub deeds: Deeds,
    pub floor: Floor,
    /// A standby has said that the user's or the database's default isolation is not for it.
    pub serializable: bool,
    pub last: LastRoute,
    /// The replica it read from last.
    pub usual: Option<usize>,
    /// After an error of our own without a server: everything up to Sync is ignored.
    pub skipping: bool,
    /// Extended messages have been sent since the last Sync.
    pub group_open: bool,
    /// Bytes of the client's, next to come, that belong to a message nobody will read any more.
    pub unread: usize,
    /// The client half-closed its connection while replies were owed, and we know.
    pub closing: bool,
    pub _admitted: Admitted,
    pub _connected: Connected,
}

impl Session {
    /// What ReadyForQuery would say now.
    pub(super) fn status(&self) -> TxStatus {
        match (&self.held, self.feed.status) {
            (Some(_), Some(status)) => status,
            _ => self.tx.status(),
        }
    }

    /// [`Session::mark`] on the process's clock.
    pub(super) fn marked(&self) -> Duration {
        self.worker.shared.clock.at(self.mark)
    }

    /// What a portal of this transaction runs.
    pub(super) fn portal(&self, name: &[u8]) -> Option<&Named> {
        self.portals.iter().rev().find(|portal| *portal.name == *name).map(|portal| &portal.statement)
    }

    /// Is it a portal whose statement was answered here, to its end? A server would still have it, but not run it again.
    pub(super) fn is_finished(&self, portal: &[u8]) -> bool {
        self.portals.iter().any(|p| p.finished && *p.name == *portal)
    }

    /// The settings that decide how literals are read.
    pub(super) fn note_reported(&mut self) {
        for (name, value, was_told) in self.feed.reported.drain(..) {
            match &*name {
                "standard_conforming_strings" => self.strings.standard_conforming_strings = &*value == "on",
                "client_encoding" => self.strings.encoding = Encoding::of(&value),
                _ => {}
            }
            if let Some(told) = self.told.iter_mut().find(|(known, _)| was_told && *known == name) {
                told.1 = value;
            }
        }
    }

    /// A server resets a parameter to a default of its own, and reports that. The client's default is what it asked for at login.
    pub(super) fn tell_defaults(&mut self) {
        for (name, told) in &mut self.told {
            if let Some(value) = self.params.value(&name.to_ascii_lowercase()).filter(|value| *value != &**told) {
                backend::parameter_status(self.client.say(), name.as_bytes(), value.as_bytes());
                *told = value.into();
            }
        }
    }
}
