//! The session's state, and the small questions other files ask of it.

use std::{
    collections::HashMap,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    admission::{Admitted, Connected},
    cancel::Handle,
    deeds::Deeds,
    route_shown::LastRoute,
    statements::{Named, Names},
    tx::Tx,
    worker::{Tenant, Worker},
};
use crate::{
    config::Feature,
    pool::{Lease, Owner, Params, Pinned},
    relay::{Client, Feed, Outgoing},
    route::Floor,
    sql::{Encoding, Known, StringRules},
    wire::backend::TxStatus,
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
    /// Portals bound in this transaction, and what they run.
    pub portals: Vec<(Box<[u8]>, Named)>,
    /// Statements of the protocol that the request under way names in SQL.
    pub names_in_sql: Vec<Box<[u8]>>,
    /// What the client has set, and what it asked for at login.
    pub params: Params,
    pub startup: Params,
    pub strings: StringRules,
    pub pins: Pins,
    /// Counts as one of the pool's pinned sessions.
    pub pinned: Option<Pinned>,
    /// Features whose pin the log was warned of.
    pub warned: Pins,
    /// Its mark on servers.
    pub owner: Owner,
    /// What statements prepared by SQL do to the session when they run, if anything.
    pub prepared_by_sql: HashMap<Box<str>, Rc<Known>>,
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
        self.portals.iter().rev().find(|(n, _)| **n == *name).map(|(_, s)| s)
    }

    /// The settings that decide how literals are read.
    pub(super) fn note_reported(&mut self) {
        for (name, value) in self.feed.reported.drain(..) {
            match &*name {
                "standard_conforming_strings" => self.strings.standard_conforming_strings = &*value == "on",
                "client_encoding" => self.strings.encoding = Encoding::of(&value),
                _ => {}
            }
        }
    }
}
