//! A client's prepared statements: its names, their texts and what is known of them. No server is involved.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::Hasher,
    rc::{Rc, Weak},
};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{local::Local, worker::Worker};
use crate::{
    pool::{Params, StatementId},
    sql::{
        Classified, Facts, StringRules,
        facts::{Effect, Verb},
    },
    wire::Oids,
};

/// A text with its parameter types, shared by all sessions of a worker that have it.
#[derive(Debug)]
pub(super) struct Statement {
    /// Without a terminating zero.
    pub text: Box<[u8]>,
    /// Parameter types as the client gave them, four bytes each.
    pub oids: Box<[u32]>,
    /// What pgsluice may answer itself.
    pub local: Option<Local>,
    /// COPY FROM: what follows its Execute may be data.
    pub copies_in: bool,
    /// DEALLOCATE ALL or DISCARD ALL.
    pub forgets_names: bool,
    /// It does nothing to the session and controls no transaction.
    pub is_plain: bool,
    /// Other prepared statements it names, and those of them that it deallocates.
    pub names_in_sql: Box<[Box<str>]>,
    pub deallocates: Box<[Box<str>]>,
    base: u128,
    rules: StringRules,
    classified: RefCell<Classified>,
    /// How much had been learnt of misrouted shapes when it was classified.
    learnt: Cell<u64>,
}

/// A statement as one client prepared it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    statement: Rc<Statement>,
    /// [`Shared::schema`](super::Shared::schema) when it was prepared: a plan made for an older schema stays the older one's, as on
    /// a server, and one made now is new.
    schema: u64,
}

impl std::ops::Deref for Named {
    type Target = Statement;

    fn deref(&self) -> &Statement {
        &self.statement
    }
}

impl Named {
    /// The same text and types.
    pub(super) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.statement, &other.statement)
    }

    /// Its identity for a session with these settings.
    pub(super) fn id(&self, params: &Params) -> StatementId {
        StatementId(self.base ^ (u128::from(params.meaning()) << 32) ^ u128::from(self.schema).rotate_right(17))
    }
}

impl Statement {
    /// What it says; asked anew if a shape was found to write since.
    pub(super) fn classified(&self, worker: &Worker) -> Classified {
        let learnt = worker.misroutes.generation();
        if self.learnt.replace(learnt) != learnt {
            *self.classified.borrow_mut() = worker.classify(&self.text, self.rules);
        }
        self.classified.borrow().clone()
    }
}

/// All statements some session of this worker still knows.
#[derive(Debug)]
pub(super) struct Intern {
    known: HashMap<u128, Weak<Statement>>,
    key: (u64, u64),
    sweep_at: usize,
}

impl Default for Intern {
    fn default() -> Self {
        // One key for the whole process would do; one per worker only means that two workers name a statement differently.
        Self { known: HashMap::new(), key: (rand::random(), rand::random()), sweep_at: 1024 }
    }
}

impl Intern {
    /// Forgets what nobody knows any more.
    pub(super) fn sweep(&mut self) {
        if self.known.len() > self.sweep_at {
            self.known.retain(|_, statement| statement.strong_count() > 0);
            self.sweep_at = (self.known.len() * 2).max(1024);
        }
    }
}

impl Worker {
    /// The statement of this text; classified once for all sessions that have it.
    pub(super) fn statement(&self, text: &[u8], oids: Oids<'_>, rules: StringRules) -> Named {
        Named { statement: self.interned(text, oids, rules), schema: self.shared.schema() }
    }

    fn interned(&self, text: &[u8], oids: Oids<'_>, rules: StringRules) -> Rc<Statement> {
        let mut intern = self.intern.borrow_mut();
        let mut hasher = SipHasher13::new_with_keys(intern.key.0, intern.key.1);
        hasher.write(text);
        hasher.write(oids.raw());
        hasher.write_usize(text.len());
        hasher.write_u8(u8::from(rules.standard_conforming_strings));
        hasher.write_u8(rules.encoding as u8);
        let base = hasher.finish128().as_u128();
        if let Some(statement) = intern.known.get(&base).and_then(Weak::upgrade)
            && *statement.text == *text
        {
            return statement;
        }
        let classified = self.classify(text, rules);
        let facts = &classified.known.facts;
        let statement = Rc::new(Statement {
            local: Local::of(facts, text),
            copies_in: facts.verb == Verb::CopyFrom,
            forgets_names: forgets_names(facts),
            is_plain: facts.effects.is_empty() && facts.tx.is_empty(),
            names_in_sql: names_in_sql(facts).map(Into::into).collect(),
            deallocates: deallocated(facts).map(Into::into).collect(),
            text: text.into(),
            oids: oids.iter().collect(),
            base,
            rules,
            classified: RefCell::new(classified),
            learnt: Cell::new(self.misroutes.generation()),
        });
        intern.known.insert(base, Rc::downgrade(&statement));
        statement
    }
}

/// Names of prepared statements that stand in SQL: they may be the protocol's.
pub(super) fn names_in_sql(facts: &Facts) -> impl Iterator<Item = &str> {
    facts.effects.iter().filter_map(|effect| match effect {
        Effect::Prepare(name) | Effect::Execute(name) | Effect::Deallocate(name) => Some(&**name),
        _ => None,
    })
}

/// Names of prepared statements that it deallocates.
pub(super) fn deallocated(facts: &Facts) -> impl Iterator<Item = &str> {
    facts.effects.iter().filter_map(|effect| match effect {
        Effect::Deallocate(name) => Some(&**name),
        _ => None,
    })
}

/// Does it deallocate all prepared statements?
pub(super) fn forgets_names(facts: &Facts) -> bool {
    facts.effects.iter().any(|effect| matches!(effect, Effect::DeallocateAll | Effect::DiscardAll))
}

/// A client's names. Changes are made when a request is read and settled when the server has answered it, so that an error in a
/// pipeline undoes exactly those the server never saw.
#[derive(Debug, Default)]
pub(super) struct Names {
    named: HashMap<Box<[u8]>, Named>,
    unnamed: Option<Named>,
    open: Vec<Change>,
    bytes: usize,
}

/// A change to be settled, with what was before.
#[derive(Debug)]
enum Change {
    One(Box<[u8]>, Option<Named>),
    All { named: HashMap<Box<[u8]>, Named>, bytes: usize },
}

impl Names {
    /// What a name stands for; the empty name is the unnamed statement.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Named> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    /// Bytes of text behind the named statements.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A name gets a statement, or loses it. To be settled.
    pub(super) fn change(&mut self, name: &[u8], statement: Option<Named>) {
        let before = self.put(name, statement);
        self.open.push(Change::One(name.into(), before));
    }

    /// All names go, by a statement of a pipeline; the unnamed statement stays, as on a server. To be settled.
    pub(super) fn change_all(&mut self) {
        self.open.push(Change::All { named: std::mem::take(&mut self.named), bytes: std::mem::take(&mut self.bytes) });
    }

    /// The unnamed statement is gone (a simple Query destroys it); nothing to settle.
    pub(super) fn take_unnamed(&mut self) -> Option<Named> {
        self.unnamed.take()
    }

    /// The Query was skipped: the unnamed statement is still there.
    pub(super) fn put_unnamed(&mut self, unnamed: Option<Named>) {
        self.unnamed = unnamed;
    }

    /// DEALLOCATE ALL, DISCARD ALL.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A name is gone for good.
    pub(super) fn remove(&mut self, name: &[u8]) {
        self.put(name, None);
    }

    /// Of the changes made since the last time, the first `settled` have come true. If the next one was a Parse that the server
    /// saw and refused, the unnamed statement is gone all the same: a server destroys the old one first.
    pub(super) fn settle(&mut self, settled: usize, failed_parse: bool) {
        let mut undone = self.open.split_off(settled.min(self.open.len()));
        if let Some(Change::One(name, before)) = undone.first_mut()
            && failed_parse
            && name.is_empty()
        {
            *before = None;
        }
        for change in undone.into_iter().rev() {
            match change {
                Change::One(name, before) => {
                    self.put(&name, before);
                }
                Change::All { named, bytes } => {
                    (self.named, self.bytes) = (named, bytes);
                }
            }
        }
        self.open.clear();
    }

    fn put(&mut self, name: &[u8], statement: Option<Named>) -> Option<Named> {
        if name.is_empty() {
            return std::mem::replace(&mut self.unnamed, statement);
        }
        let before = match statement {
            Some(statement) => {
                self.bytes += statement.text.len();
                self.named.insert(name.into(), statement)
            }
            None => self.named.remove(name),
        };
        self.bytes -= before.as_ref().map_or(0, |s| s.text.len());
        before
    }
}

impl Names {
    /// How many named statements.
    pub(super) fn len(&self) -> usize {
        self.named.len()
    }
}

#[cfg(test)]
mod tests;
