//! A client's prepared statements: its names, their texts and what is known of them. No server is involved.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::Hasher,
    rc::{Rc, Weak},
};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{
    local::Local,
    rewriting::{Original, Outcome},
    rules::Protocol,
    state::Session,
    temporary::Meaning,
    worker::Worker,
};
use crate::{
    pool::StatementId,
    relay::Misnamed,
    sql::{
        self, Classified, Facts, StringRules,
        catalog::Scope,
        facts::{Effect, Verb},
    },
    wire::{HEAD_BYTES, Oids, backend::ResultType, frontend::Parse, next_head},
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
    /// A plan made of it holds the time at which it was made.
    pub tells_time: bool,
    /// It does nothing to the session and controls no transaction.
    pub is_plain: bool,
    /// Other prepared statements it names, and those of them that it deallocates.
    pub names_in_sql: Box<[Box<str>]>,
    pub deallocates: Box<[Box<str>]>,
    base: u128,
    rules: StringRules,
    classified: RefCell<Classified>,
    held_for: Cell<HeldFor>,
    /// Where it is known, until it is dropped.
    home: Weak<Intern>,
}

impl Drop for Statement {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut known = home.known.borrow_mut();
        // A text with the same hash may have taken its place.
        if known.get(&self.base).is_some_and(|known| known.strong_count() == 0) {
            known.remove(&self.base);
        }
    }
}

/// What a classification holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldFor {
    /// How much had been learnt of misrouted shapes, and how often other functions were declared.
    learnt: u64,
    declared: u64,
    /// What names meant.
    scope: u128,
    stamp: u64,
}

impl HeldFor {
    fn now(worker: &Worker, scope: &Scope) -> Self {
        let (learnt, declared) = (worker.misroutes.generation(), worker.declarations());
        Self { learnt, declared, scope: scope.id(), stamp: scope.source().stamp() }
    }
}

/// A statement as one client prepared it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    statement: Rc<Statement>,
    /// [`Shared::schema`](super::Shared::schema) when it was prepared: a plan made for an older schema stays the older one's, as on
    /// a server, and one made now is new.
    schema: u64,
    /// Which of the session's Parses it is.
    pub birth: u32,
    /// For one that nobody else may use, its own.
    own: u64,
    /// What the client had sent, if the text is another.
    pub original: Option<Original>,
    /// What the client was told it gives. Of the unnamed statement, which most drivers make anew each time, the session knows it.
    told: Option<Rc<Cell<Option<ResultType>>>>,
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

    /// Was it made without a name?
    pub(super) fn is_unnamed(&self) -> bool {
        self.told.is_none()
    }

    /// Its identity for a session that means this by it.
    pub(super) fn id(&self, meaning: Meaning) -> StatementId {
        let shared = self.base ^ (u128::from(meaning.settings) << 32) ^ u128::from(self.schema).rotate_right(17);
        let session = meaning.own.map_or(0, |(pid, life)| {
            u128::from(own(pid, self.birth)).rotate_left(32) ^ u128::from(own(life, 0)).rotate_left(80)
        });
        StatementId(shared ^ (u128::from(self.own) << 64) ^ session)
    }

    /// Its identity as a server's unnamed statement, which is made by one Parse of one session and never shared.
    pub(super) fn own_id(&self, meaning: Meaning, pid: u32) -> StatementId {
        StatementId(self.id(meaning).0 ^ u128::from(own(pid, self.birth)))
    }
}

/// A number for one Parse of one session.
fn own(pid: u32, birth: u32) -> u64 {
    (u64::from(pid) << 32 | u64::from(birth)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Statement {
    /// What it says; asked anew if a shape was found to write since, or if names mean something else.
    pub(super) fn classified(&self, worker: &Worker, scope: &Scope) -> Classified {
        let now = HeldFor::now(worker, scope);
        if self.held_for.replace(now) != now {
            *self.classified.borrow_mut() = worker.classify(&self.text, self.rules, scope);
        }
        let classified = self.classified.borrow().clone();
        if classified.missing {
            scope.source().miss();
        }
        classified
    }
}

/// All statements some session of this worker still knows.
#[derive(Debug)]
pub(super) struct Intern {
    known: RefCell<HashMap<u128, Weak<Statement>>>,
    key: (u64, u64),
}

impl Default for Intern {
    fn default() -> Self {
        // One key for the whole process would do; one per worker only means that two workers name a statement differently.
        Self { known: RefCell::default(), key: (rand::random(), rand::random()) }
    }
}

impl Intern {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.known.borrow().len()
    }

    /// After a flood: the table itself is given back, too.
    pub(super) fn sweep(&self) {
        let mut known = self.known.borrow_mut();
        if known.capacity() > 1024 && known.capacity() / 4 > known.len() {
            known.shrink_to_fit();
        }
    }
}

impl Session {
    /// The statement of a Parse.
    pub(super) fn statement(&self, parse: &Parse<'_>) -> Named {
        self.births.set(self.births.get().wrapping_add(1));
        let scope = self.scope();
        let sent = self.worker.interned(parse.text, parse.oids, self.strings, &scope);
        let known = sent.classified(&self.worker, &scope).known;
        let outcome = match self.change(&known, parse.text, Protocol::Extended) {
            Ok(None) => None,
            Ok(Some(changed)) => Some(Outcome::Changed(changed)),
            Err(refusal) => Some(Outcome::Refused(Box::new(refusal))),
        };
        let statement = match &outcome {
            Some(Outcome::Changed(changed)) => {
                self.worker.interned(changed.text.as_bytes(), parse.oids, self.strings, &scope)
            }
            Some(Outcome::Refused(_)) | None => sent,
        };
        let original = outcome.map(|outcome| Original { known, text: parse.text.into(), outcome });
        let birth = self.births.get();
        Named {
            own: if statement.tells_time { own(self.pid, birth) } else { 0 },
            statement,
            original,
            schema: self.worker.shared.schema(),
            birth,
            told: (!parse.name.is_empty()).then(Rc::default),
        }
    }

    /// What the client was told that a statement gives.
    pub(super) fn told(&self, statement: &Named) -> Option<ResultType> {
        match &statement.told {
            Some(told) => told.get(),
            None => self.unnamed_told.filter(|(birth, _)| *birth == statement.birth).map(|(_, told)| told),
        }
    }

    /// The client was told what a statement gives.
    pub(super) fn note_told(&mut self, statement: &Named, is: ResultType) {
        let told = self.told(statement).map_or(is, |before| before.or(is));
        match &statement.told {
            Some(cell) => cell.set(Some(told)),
            None => self.unnamed_told = Some((statement.birth, told)),
        }
    }
}

impl Worker {
    /// The statement of this text; classified once for all sessions that have it.
    fn interned(&self, text: &[u8], oids: Oids<'_>, rules: StringRules, scope: &Scope) -> Rc<Statement> {
        let mut hasher = SipHasher13::new_with_keys(self.intern.key.0, self.intern.key.1);
        hasher.write(text);
        hasher.write(oids.raw());
        hasher.write_usize(text.len());
        hasher.write_u8(u8::from(rules.standard_conforming_strings));
        hasher.write_u8(rules.encoding as u8);
        let base = hasher.finish128().as_u128();
        let known = self.intern.known.borrow().get(&base).and_then(Weak::upgrade);
        if let Some(statement) = known.filter(|known| *known.text == *text) {
            return statement;
        }
        let held_for = Cell::new(HeldFor::now(self, scope));
        let classified = self.classify(text, rules, scope);
        let facts = &classified.known.facts;
        let statement = Rc::new(Statement {
            // With parameters declared a Bind must bring values: that is for a server to check.
            local: Local::of(facts, text).filter(|local| oids.raw().is_empty() || local.is_about_us()),
            copies_in: facts.verb == Verb::CopyFrom,
            forgets_names: forgets_names(facts),
            tells_time: sql::tells_time(text, rules),
            // Whether it calls code that nobody can see into is another matter in another database.
            is_plain: facts.effects.iter().all(|effect| *effect == Effect::OpaqueCode)
                && facts.inside.is_empty()
                && facts.tx.is_empty(),
            names_in_sql: names_in_sql(facts).map(Into::into).collect(),
            deallocates: deallocated(facts).map(Into::into).collect(),
            text: text.into(),
            oids: oids.iter().collect(),
            base,
            rules,
            classified: RefCell::new(classified),
            held_for,
            home: Rc::downgrade(&self.intern),
        });
        self.intern.known.borrow_mut().insert(base, Rc::downgrade(&statement));
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
    /// Mends an error for the client that shows what its statement is called on the server.
    pub(super) fn show_theirs(&self, out: &mut Vec<u8>, misnamed: Misnamed, meaning: Meaning, bound: &[Box<[u8]>]) {
        let Some(message) = out.get(misnamed.at..) else { return };
        let Ok(Some(head)) = next_head(message, u32::MAX) else { return };
        let Some(body) = message.get(HEAD_BYTES..head.total()) else { return };
        let mut theirs = Vec::with_capacity(head.total());
        let mut rest = body;
        while let Some((range, id)) = StatementId::find_in(rest) {
            theirs.extend_from_slice(&rest[..range.start]);
            let name = misnamed.bound.and_then(|number| bound.get(number as usize)).map(|name| &**name);
            theirs.extend_from_slice(name.or_else(|| self.name_of(id, meaning)).unwrap_or_default());
            rest = &rest[range.end..];
        }
        theirs.extend_from_slice(rest);
        let length = (theirs.len() as u32 + 4).to_be_bytes();
        let end = misnamed.at + head.total();
        out.splice(misnamed.at + 1..end, length.into_iter().chain(theirs));
    }

    /// By what name the client knows a server's statement; `None`: by none, or as the unnamed one.
    fn name_of(&self, id: StatementId, meaning: Meaning) -> Option<&[u8]> {
        let theirs = self.named.iter().filter(|(_, statement)| statement.id(meaning) == id).map(|(name, _)| &**name);
        // Of several names for the same text any is right; the same one each time is better.
        theirs.min()
    }

    /// How many named statements.
    pub(super) fn len(&self) -> usize {
        self.named.len()
    }
}

#[cfg(test)]
mod tests;
