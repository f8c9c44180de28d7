//! The session's state, and the small questions other files ask of it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    admission::{Admitted, Connected},
    cancel::Handle,
    cursors::Cursors,
    deeds::Deeds,
    introduce::Describing,
    local::Local,
    prepared_by_sql::PreparedBySql,
    route_shown::LastRoute,
    rules::{Orders, Seat},
    scope::Seen,
    statements::{Named, Names},
    temporary::Temporary,
    tx::Tx,
    worker::{Tenant, Worker},
};
use crate::{
    config::Feature,
    pool::{Lease, Owner, Params, Pinned},
    relay::{Amount, Client, Feed, Outgoing},
    route::Floor,
    sql::{Encoding, Facts, StringRules, catalog::Doubt, facts::TxVerb},
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
    /// Whether the server has it.
    pub bound: Bound,
    /// What it has given so far, if anybody counts.
    pub given: Amount,
}

/// Whether a server has bound a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// The request under way does it.
    Now,
    /// It has.
    Surely,
    /// Its request has failed somewhere: perhaps the name still stands for what it stood for before.
    Perhaps,
}

/// Every pin reason, in the words of `session_guard`; label values of `pgsluice_pins_total`.
pub const PIN_REASONS: &[&str] = &{
    let mut words = [""; Feature::ALL.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = Feature::ALL[i].as_str();
        i += 1;
    }
    words
};

/// Why a session keeps its server between transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pins(u8);

impl Pins {
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    pub(super) fn has(self, feature: Feature) -> bool {
        self.0 & Self::bit(feature) != 0
    }

    /// Is it so or not?
    pub(super) fn put(&mut self, feature: Feature, pinned: bool) {
        if pinned {
            self.0 |= Self::bit(feature);
        } else {
            self.0 &= !Self::bit(feature);
        }
    }

    /// All that hold, in the order of [`PIN_REASONS`].
    pub(super) fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(move |feature| self.has(*feature))
    }

    /// The first reason, in the words of `session_guard`.
    pub(super) fn reason(self) -> Option<&'static str> {
        self.iter().next().map(Feature::as_str)
    }

    fn bit(feature: Feature) -> u8 {
        1 << (feature as u8)
    }
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
    /// Cursors that SQL has declared.
    pub cursors: Cursors,
    /// Statements of the protocol that the request under way names in SQL.
    pub names_in_sql: Vec<Box<[u8]>>,
    /// What the client has set, and what it asked for at login.
    pub params: Params,
    pub startup: Params,
    /// What names meant to it last.
    pub scope: RefCell<Option<Seen>>,
    /// Since when it does not believe the catalog, if it does not.
    pub doubt: Cell<Option<Doubt>>,
    pub strings: StringRules,
    /// Reported parameters that the client asked for at login, and what it was told last that they are.
    pub told: Vec<(Box<str>, Box<str>)>,
    pub pins: Pins,
    pub temporary: Temporary,
    /// Counts as one of the pool's pinned sessions.
    pub pinned: Option<Pinned>,
    /// Features whose pin the log was warned of.
    pub warned: Pins,
    /// Its mark on servers.
    pub owner: Owner,
    /// What statements prepared by SQL do to the session when they run, if anything.
    pub prepared_by_sql: PreparedBySql,
    pub deeds: Deeds,
    /// It has asked what its sequences gave it last (currval, lastval).
    pub recalls: bool,
    pub floor: Floor,
    /// A standby has said that the user's or the database's default isolation is not for it.
    pub serializable: bool,
    pub last: LastRoute,
    /// By which rules it is judged, and as whom.
    pub seat: Option<Seat>,
    /// What they say of the request under way.
    pub orders: Orders,
    /// The group of messages under way has begun or ended transactions.
    pub group_controls: bool,
    /// And has perhaps changed what names without a schema mean.
    pub group_moves_names: bool,
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
        // In a failed transaction nothing is bound or run, which counts more.
        let newest = || self.portals.iter().rev().find(|p| *p.name == *portal);
        self.status() != TxStatus::Failed && newest().is_some_and(|p| p.finished)
    }

    /// A server that has run this has lost the portals of the transaction that it ended, and those made since a savepoint. Of what was
    /// answered here, BEGIN was before any savepoint.
    pub(super) fn lose_portals(&mut self, facts: &Facts) {
        for verb in &facts.tx {
            match verb {
                TxVerb::Commit { .. } | TxVerb::Rollback { .. } | TxVerb::PrepareTransaction => self.portals.clear(),
                TxVerb::RollbackTo => self
                    .portals
                    .retain(|portal| !portal.finished || matches!(portal.statement.local, Some(Local::Begin { .. }))),
                _ => {}
            }
        }
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
