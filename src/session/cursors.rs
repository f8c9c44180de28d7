//! What FETCH and Execute run by name: cursors that SQL has declared, and portals.
//!
//! A server keeps both under the same names. Which of two requests with one name it has taken is only known if the later one
//! succeeded; until then either may be meant, and both are judged.

use std::{collections::HashSet, rc::Rc};

use super::{
    refusal::Refusal,
    rules::Protocol,
    state::{Bound, Portal, Session},
};
use crate::{
    base::{Generation, SqlState},
    policy::Verdict,
    relay::Amount,
    sql::{
        Facts, Known,
        facts::{Effect, Verb},
    },
};

/// Most cursors that are remembered, and bytes of their texts.
const MOST: usize = 1024;
const MOST_TEXT: usize = 16 * 1024 * 1024;
/// A server tells portals apart by so many bytes of their names (portalmem.c: MAX_PORTALNAME_LEN, with a zero byte).
const TOLD_APART: usize = 63;

/// A cursor that SQL has declared.
struct Cursor {
    name: Box<str>,
    known: Rc<Known>,
    text: Rc<[u8]>,
    protocol: Protocol,
    hold: bool,
    given: Amount,
    /// By which rules it was judged.
    generation: Generation,
}

/// A change by the request under way.
enum Change {
    Open(Cursor),
    Close(Box<str>),
    CloseAll,
}

/// A session's cursors.
#[derive(Default)]
pub(super) struct Cursors {
    open: Vec<Cursor>,
    changes: Vec<Change>,
    /// Of the texts of all that are remembered.
    bytes: usize,
}

impl Cursors {
    fn all(&self) -> impl Iterator<Item = &Cursor> {
        self.open.iter().chain(self.changes.iter().filter_map(|change| match change {
            Change::Open(cursor) => Some(cursor),
            Change::Close(_) | Change::CloseAll => None,
        }))
    }

    fn named(&self, name: &[u8]) -> impl Iterator<Item = &Cursor> {
        self.all().filter(move |cursor| is_same(cursor.name.as_bytes(), name))
    }

    fn are_too_many(&self) -> bool {
        self.open.len() + self.changes.len() >= MOST || self.bytes > MOST_TEXT
    }

    /// The request under way is over. Had it failed, nobody knows how far it came.
    fn settle(&mut self, failed: bool) {
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Open(cursor) => {
                    if !failed {
                        // The name was free.
                        self.open.retain(|old| !is_same(old.name.as_bytes(), cursor.name.as_bytes()));
                    }
                    self.open.push(cursor);
                }
                Change::Close(name) if !failed => self.open.retain(|old| *old.name != *name),
                Change::CloseAll if !failed => self.open.clear(),
                Change::Close(_) | Change::CloseAll => {}
            }
        }
        self.weigh();
    }

    fn weigh(&mut self) {
        self.bytes = self.open.iter().map(|cursor| cursor.text.len()).sum();
    }
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    let told = |name: &[u8]| name.len().min(TOLD_APART);
    one[..told(one)] == other[..told(other)]
}

impl Session {
    /// Notes what a text that is about to run does to cursors.
    pub(super) fn note_cursors(&mut self, known: &Rc<Known>, text: &[u8], protocol: Protocol) {
        let facts = &known.facts;
        // EXPLAIN declares nothing, and a body does so another day.
        let is_now =
            |verb: Verb| !matches!(verb, Verb::Explain | Verb::Create | Verb::Alter | Verb::Do | Verb::Prepare);
        if facts.effects.is_empty() || !facts.acts.iter().all(|act| is_now(act.verb)) {
            return;
        }
        let mut shared: Option<Rc<[u8]>> = None;
        for effect in &facts.effects {
            let change = match effect {
                Effect::Declare { name, hold } => Change::Open(Cursor {
                    name: name.clone(),
                    known: Rc::clone(known),
                    text: Rc::clone(shared.get_or_insert_with(|| text.into())),
                    protocol,
                    hold: *hold,
                    given: Amount::default(),
                    generation: self.worker.shared.generation(),
                }),
                Effect::CloseCursor(name) => Change::Close(name.clone()),
                Effect::CloseAllCursors | Effect::DiscardAll => Change::CloseAll,
                _ => continue,
            };
            if !self.cursors.are_too_many() {
                self.cursors.bytes += if shared.is_some() { text.len() } else { 0 };
                self.cursors.changes.push(change);
            }
        }
    }

    /// A cursor that is not remembered could not be judged when it is fetched from.
    pub(super) fn too_many_cursors(&self, facts: &Facts) -> Option<Refusal> {
        let declares = facts.effects.iter().any(|effect| matches!(effect, Effect::Declare { .. }));
        (declares && self.cursors.are_too_many()).then(|| {
            let message = format!("this session has too many open cursors ({MOST}, or 16 MiB of text, are possible)");
            Refusal::new(SqlState::LIMIT_EXCEEDED, message)
        })
    }

    /// The request under way is over: which of the names in it stand for something now?
    pub(super) fn settle_sql_names(&mut self, failed: bool) {
        self.prepared_by_sql.settle(failed);
        self.settle_cursors(failed);
    }

    fn settle_cursors(&mut self, failed: bool) {
        if !self.cursors.changes.is_empty() {
            self.cursors.settle(failed);
        }
        if failed {
            self.portals.iter_mut().filter(|portal| portal.bound == Bound::Now).for_each(|p| p.bound = Bound::Perhaps);
            return;
        }
        if let [one] = self.portals.as_mut_slice() {
            // As it is mostly.
            one.bound = if one.bound == Bound::Perhaps { Bound::Perhaps } else { Bound::Surely };
            return;
        }
        let mut taken = HashSet::new();
        let mut kept = Vec::with_capacity(self.portals.len().min(8));
        for mut portal in self.portals.drain(..).rev() {
            if taken.contains(&portal.name) {
                continue;
            }
            if portal.bound != Bound::Perhaps {
                portal.bound = Bound::Surely;
                taken.insert(portal.name.clone());
            }
            kept.push(portal);
        }
        kept.reverse();
        self.portals = kept;
    }

    /// Its transaction is over.
    pub(super) fn end_cursors(&mut self) {
        self.portals.clear();
        if !self.cursors.open.is_empty() {
            self.cursors.open.retain(|cursor| cursor.hold);
            self.cursors.weigh();
        }
    }

    /// Portals that this name may stand for: the newest that the server has, and newer ones that it has perhaps.
    fn portals_named(&self, name: &[u8]) -> impl Iterator<Item = &Portal> {
        let named = self.portals.iter().rev().filter(move |portal| is_same(&portal.name, name));
        named.scan(false, |sure, portal| {
            let earlier = std::mem::replace(sure, portal.bound != Bound::Perhaps);
            (!earlier).then_some(portal)
        })
    }

    /// What the rules say of what this name may stand for.
    pub(super) fn verdicts_of_cursor(&self, name: &[u8]) -> Vec<Rc<Verdict>> {
        self.verdicts_of_all(name, |_| true)
    }

    /// Would rules that came after it was opened have changed what goes by this name? Then it is not gone on with.
    pub(super) fn changed_since(&self, name: &[u8]) -> Option<Refusal> {
        let now = self.worker.shared.generation();
        let mut cursors = self.cursors.named(name).filter(|cursor| cursor.generation != now);
        let of_sql =
            cursors.find_map(|cursor| self.still_stands(None, &cursor.known, &cursor.text, cursor.protocol).err());
        of_sql.or_else(|| {
            self.portals_named(name).find_map(|portal| {
                let (statement, known) = (&portal.statement, self.classified(&portal.statement).known);
                self.still_stands(statement.original.as_ref(), &known, &statement.text, Protocol::Extended).err()
            })
        })
    }

    /// The same for a portal whose statement was asked about.
    pub(super) fn verdicts_besides_portal(&self, name: &[u8]) -> Vec<Rc<Verdict>> {
        self.verdicts_of_all(name, |portal| portal.bound == Bound::Perhaps)
    }

    fn verdicts_of_all(&self, name: &[u8], which: impl Fn(&Portal) -> bool) -> Vec<Rc<Verdict>> {
        let cursors = self.cursors.named(name);
        let cursors = cursors.filter_map(|cursor| self.consult(&cursor.known, &cursor.text, cursor.protocol));
        let portals = self.portals_named(name).filter(|portal| which(portal)).filter_map(|portal| {
            let known = self.classified(&portal.statement).known;
            self.consult(&known, &portal.statement.text, Protocol::Extended)
        });
        cursors.chain(portals).collect()
    }

    /// How much of what goes by this name was given already.
    pub(super) fn given_of(&self, name: &[u8]) -> Amount {
        let cursors = self.cursors.named(name).map(|cursor| cursor.given);
        let portals = self.portals_named(name).map(|portal| portal.given);
        cursors.chain(portals).fold(Amount::default(), Amount::max)
    }

    /// So much was given.
    pub(super) fn note_given(&mut self, name: &[u8], given: Amount) {
        let pending = self.cursors.changes.iter_mut().filter_map(|change| match change {
            Change::Open(cursor) => Some(cursor),
            Change::Close(_) | Change::CloseAll => None,
        });
        for cursor in self.cursors.open.iter_mut().chain(pending) {
            if is_same(cursor.name.as_bytes(), name) {
                cursor.given = given;
            }
        }
        for portal in self.portals.iter_mut().filter(|portal| is_same(&portal.name, name)) {
            portal.given = given;
        }
    }
}
