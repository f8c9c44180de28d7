//! What the statements of a transaction may do to the state of its server's session; settled when the transaction ends.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use super::{
    dotted,
    scope::redefines,
    state::Session,
    statements::Named,
    unseen::{self, Stamp, Verdict},
};
use crate::{
    config::Feature,
    pool::{Params, is_safe, set_all},
    sql::{
        Facts, Known, Shape,
        facts::{Act, Effect, Kind, TxVerb, Verb},
    },
};

/// Most texts of one transaction that a server is asked about; what is more is taken for unseen.
const MOST_STRANGERS: usize = 16;

/// What was done to a parameter last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Set,
    Reset,
}

/// What a transaction has done.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    /// Parameters set, reset or perhaps changed back by a rollback.
    pub touched: BTreeMap<Box<str>, Last>,
    /// RESET ALL: every parameter.
    pub reset_all: bool,
    /// A parameter was reset earlier in the transaction, or by the present request: its default is perhaps not the client's.
    has_reset: bool,
    resets: bool,
    /// Something that lives on in the server's session may have come or gone.
    pub living: bool,
    /// Code we cannot see into ran.
    pub opaque: bool,
    /// The same, but what it leaves is not worth a question: it stays with this server until somebody else gets it.
    pub residue: bool,
    /// Statements prepared by SQL are among it.
    pub residue_of_names: bool,
    /// The connection is of no use to anybody afterwards.
    pub discard: bool,
    /// Parameters with names we do not know were set.
    pub unknown_parameter: bool,
    /// Names that such code may have set.
    pub dotted: Vec<Box<str>>,
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
    /// Names without a schema mean something else now, or may.
    pub moves_names: bool,
    /// The schema may have changed.
    pub ddl: bool,
    /// And with it what names that exist mean.
    pub redefines: bool,
    /// And what new sessions begin with.
    pub defaults: bool,
    /// The transaction has changed settings: what is parsed in it is of settings that nobody else has.
    pub sets: bool,
    /// DO or CALL may have changed the schema. Functions do so too seldom to doubt the catalog after each of them.
    pub may_define: bool,
    /// `synchronous_commit` was touched, or may have been, so the commit may be acknowledged before it is flushed.
    pub lazy_commit: bool,
    /// The first statement of the request takes the place of the session's role, or of its whole identity.
    pub leaves_identity: Option<Identity>,
    /// And the server does not take that any more (the role was dropped).
    pub identity_is_gone: bool,
    /// What the session's sequences gave it last is asked for.
    pub recalls: bool,
    /// A statement of the request has been noted.
    begun: bool,
    /// What a server was asked in front of the request, and for which schema.
    pub asked: Option<Stamp>,
    /// Nobody has asked about the code that these may run.
    pub strangers: Vec<Rc<Known>>,
    /// Of those, the ones that are looked at for the first time.
    pub looked_at: Vec<Shape>,
}

/// What SET ROLE and its kin leave behind whatever it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// `role`.
    Role,
    /// `session_authorization`, and with it the role.
    User,
}

/// May the data be another afterwards? What only touches the session cannot do that, but EXECUTE runs what was prepared, and a
/// cursor, whenever it is fetched from, what it was declared for.
fn may_write(facts: &Facts) -> bool {
    let runs_another = facts.effects.iter().any(|effect| matches!(effect, Effect::Execute(_) | Effect::Declare { .. }));
    let ends_prepared = facts.tx.iter().any(|verb| matches!(verb, TxVerb::CommitPrepared | TxVerb::PrepareTransaction));
    let harmless = matches!(facts.kind, Kind::Transaction | Kind::Session | Kind::Empty);
    !facts.proven_read_only && (!harmless || runs_another || ends_prepared)
}

/// ALTER ROLE and ALTER DATABASE, perhaps with SET or RESET.
fn sets_defaults(act: &Act) -> bool {
    act.verb == Verb::Alter && matches!(act.object, Some("role" | "database"))
}

/// May the transaction's commit not wait for its flush?
fn may_commit_lazily(effect: &Effect) -> bool {
    match effect {
        Effect::SetParameter { name, .. } => **name == *"synchronous_commit",
        // Unseen code may say SET LOCAL.
        Effect::SetUnknownParameter | Effect::OpaqueCode | Effect::Execute(_) => true,
        _ => false,
    }
}

/// Does it change settings, even for a transaction only?
fn sets(facts: &Facts) -> bool {
    facts.effects.iter().any(|effect| {
        use Effect::{DiscardAll, ResetAll, ResetParameter, SetParameter, SetUnknownParameter};
        matches!(effect, SetParameter { .. } | ResetParameter(_) | SetUnknownParameter | ResetAll | DiscardAll)
    })
}

impl Identity {
    /// Whatever the session was, the text begins by making it something else. The rights to do so are those of the login user.
    fn left_by(facts: &Facts) -> Option<Self> {
        if facts.statements != 1 || !matches!(facts.verb, Verb::Set | Verb::Reset | Verb::Discard) {
            return None;
        }
        match facts.effects.first()? {
            Effect::SetParameter { name, local: false } | Effect::ResetParameter(name) => match &**name {
                "role" => Some(Self::Role),
                "session_authorization" => Some(Self::User),
                _ => None,
            },
            Effect::DiscardAll => Some(Self::User),
            _ => None,
        }
    }
}

impl Deeds {
    /// A new request begins: what the last one would have done to the transaction is known by now.
    pub(super) fn next(&mut self) {
        (self.ending, self.leaves_open, self.begun) = (false, None, false);
        (self.leaves_identity, self.identity_is_gone) = (None, false);
        self.has_reset |= std::mem::take(&mut self.resets);
    }

    /// Notes what a statement that is about to be sent may do.
    pub(super) fn note(&mut self, facts: &Facts) {
        self.wrote |= may_write(facts);
        self.note_transaction(facts);
        let ddl = facts.kind == Kind::Ddl && !facts.effects.contains(&Effect::TempObject);
        self.ddl |= ddl;
        self.redefines |= ddl && redefines(facts);
        self.defaults |= ddl && facts.acts.iter().any(sets_defaults);
        self.may_define |= facts.acts.iter().any(|act| matches!(act.verb, Verb::Do | Verb::Call));
        if facts.effects.is_empty() {
            return;
        }
        self.lazy_commit |= facts.effects.iter().any(may_commit_lazily);
        for effect in &facts.effects {
            self.note_effect(effect);
        }
    }

    fn note_transaction(&mut self, facts: &Facts) {
        self.controlled |= !facts.tx.is_empty();
        for verb in &facts.tx {
            match verb {
                TxVerb::Begin { .. } => self.leaves_open = Some(true),
                TxVerb::Commit { chain } => {
                    self.leaves_open = Some(*chain);
                    self.ending = true;
                }
                TxVerb::Rollback { chain } => {
                    self.leaves_open = Some(*chain);
                    self.rolled_back = true;
                }
                TxVerb::RollbackTo => self.rolled_back = true,
                TxVerb::PrepareTransaction => {
                    self.leaves_open = Some(false);
                    self.ending = true;
                }
                TxVerb::CommitPrepared => self.ending = true,
                TxVerb::Savepoint
                | TxVerb::Release
                | TxVerb::RollbackPrepared
                | TxVerb::SetTransaction(_)
                | TxVerb::SetSnapshot => {}
            }
        }
    }

    fn note_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::SetParameter { local: true, .. }
            | Effect::Declare { hold: false, .. }
            | Effect::Fetch(_)
            | Effect::DiscardOther => {}
            Effect::SetParameter { name, local: false } => self.touch(name, Last::Set),
            Effect::ResetParameter(name) => self.touch(name, Last::Reset),
            Effect::SetUnknownParameter => self.unknown_parameter = true,
            Effect::ResetAll => self.note_reset_all(),
            Effect::DiscardAll => {
                self.note_reset_all();
                self.living = true;
            }
            Effect::Listen
            | Effect::Unlisten
            | Effect::UnlistenAll
            | Effect::TempObject
            | Effect::TempForTransaction
            | Effect::DiscardTemp
            | Effect::AdvisoryLock
            | Effect::AdvisoryUnlock
            | Effect::AdvisoryUnlockAll
            | Effect::Prepare(_)
            | Effect::Deallocate(_)
            | Effect::Declare { hold: true, .. }
            | Effect::CloseCursor(_)
            | Effect::CloseAllCursors
            | Effect::DeallocateAll => self.living = true,
            Effect::Load => self.load = true,
            Effect::Execute(_) => self.residue = true,
            Effect::ExportSnapshot => {}
            Effect::SessionValue => self.recalls = true,
            Effect::OpaqueCode => self.opaque = true,
        }
    }

    fn touch(&mut self, name: &str, last: Last) {
        self.touched.insert(name.into(), last);
        self.resets |= last == Last::Reset;
        // SET SESSION AUTHORIZATION takes the role back as well.
        if name == "session_authorization" {
            self.touched.insert("role".into(), last);
        }
    }

    fn note_reset_all(&mut self) {
        (self.reset_all, self.resets) = (true, true);
        for last in self.touched.values_mut() {
            *last = Last::Reset;
        }
    }

    /// The settings that the request must find: those of its session, except for a role that it is about to leave and that does not exist
    /// any more.
    pub(super) fn wanted<'a>(&self, params: &'a Params) -> Cow<'a, Params> {
        let left: &[&str] = match self.leaves_identity.filter(|_| self.identity_is_gone) {
            None => return Cow::Borrowed(params),
            Some(Identity::Role) => &["role"],
            Some(Identity::User) => &["role", "session_authorization"],
        };
        Cow::Owned(params.with(left.iter().map(|name| (*name, None))))
    }

    /// What the client asked for at login is its default, but a server that resets in the middle of a transaction knows nothing of that: it
    /// is told, and what it is told is a setting like any other.
    pub(super) fn defaults_to_restore(&mut self, startup: &Params) -> String {
        let mut sql = String::new();
        if std::mem::take(&mut self.has_reset) {
            let reset = |name: &str| match self.touched.get(name) {
                Some(last) => *last == Last::Reset,
                None => self.reset_all,
            };
            let lost: Vec<(&str, &str)> = startup.iter().filter(|(name, _)| is_safe(name) && reset(name)).collect();
            set_all(&mut sql, lost.iter().copied());
            self.touched.extend(lost.into_iter().map(|(name, _)| (name.into(), Last::Set)));
        }
        sql
    }

    /// Has anything been noted that nobody can see into?
    pub(super) fn is_blind(&self) -> bool {
        self.opaque || self.unknown_parameter
    }

    /// Code that nobody can see into may set what is named in the text, or in what is bound to it.
    pub(super) fn note_dotted(&mut self, facts: &Facts, text: &[u8]) {
        if facts.effects.iter().any(|effect| matches!(effect, Effect::OpaqueCode | Effect::SetUnknownParameter)) {
            let room = dotted::MOST.saturating_sub(self.dotted.len());
            self.dotted.extend(dotted::names(text).take(room));
        }
    }

    /// Could the server's session differ from what the pool believes?
    pub(super) fn left_something(&self) -> bool {
        !self.touched.is_empty() || self.reset_all || self.living || self.opaque || self.unknown_parameter || self.load
    }
}

impl Session {
    /// Notes what a text that is about to be sent may do, seen and unseen.
    pub(super) fn note(&mut self, known: &Rc<Known>) {
        let facts = &known.facts;
        if !std::mem::replace(&mut self.deeds.begun, true) {
            self.deeds.leaves_identity = Identity::left_by(facts);
        }
        self.deeds.note(facts);
        if sets(facts) {
            self.deeds.sets = true;
            self.note_settings();
        }
        self.deeds.moves_names |= self.moves_names(facts);
        // What is created without a schema may be temporary, by the search_path; and pg_temp takes more than tables.
        self.deeds.living |= facts.kind == Kind::Ddl;
        if unseen::is_unseen_anyway(facts) {
            self.deeds.residue = true;
            return;
        }
        if !unseen::is_to_be_asked(facts) {
            return;
        }
        // A temporary table may hide any other, and have triggers.
        self.deeds.residue |= self.deeds.living || self.pins.has(Feature::TempTable) || self.doubts();
        let verdict = self.tenant.unseen.borrow().find(known.shape, self.worker.stamp());
        match verdict {
            Some(Verdict::Plain) => {}
            // One that no standby has run yet is judged when it is known where it ran.
            Some(verdict) if !facts.proven_read_only || verdict != (Verdict::Unseen { reads: false }) => {
                self.note_verdict(facts.proven_read_only, verdict);
            }
            _ if self.deeds.strangers.len() < MOST_STRANGERS => self.deeds.strangers.push(Rc::clone(known)),
            _ => self.note_verdict(facts.proven_read_only, Verdict::Unseen { reads: false }),
        }
    }

    /// A text that is not what it looks like, or may not be.
    pub(super) fn note_verdict(&mut self, proven: bool, verdict: Verdict) {
        let reads = match verdict {
            Verdict::Plain => return,
            Verdict::Unseen { reads } => reads,
            Verdict::Leaves => {
                self.deeds.opaque = true;
                false
            }
        };
        self.deeds.residue = true;
        if !(proven && reads) {
            (self.deeds.wrote, self.deeds.lazy_commit) = (true, true);
        }
    }

    /// Notes a prepared statement that is about to run.
    pub(super) fn note_named(&mut self, statement: &Named) {
        let known = self.classified(statement).known;
        self.note(&known);
        self.deeds.note_dotted(&known.facts, &statement.text);
    }
}

#[cfg(test)]
mod tests;
