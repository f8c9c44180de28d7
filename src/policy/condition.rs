//! `when:`, compiled: who sends a statement, and what the statement is.

use std::{cell::OnceCell, net::IpAddr};

use super::{
    moment::{InTransaction, Moment, SearchPath},
    principal::Identity,
    verdict::Section,
};
use crate::{
    config::{
        hba::Range,
        rules::{CopyPeer, Glob, NameGlob, Presence, StatementCount, When},
    },
    sql::{
        Facts, Fingerprint,
        facts::{Act, Clause, Kind, Marks, Name, Verb},
        fingerprint, form, normalize,
    },
};

/// A text, and what is only found out if a rule asks for it.
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    form: OnceCell<String>,
    fingerprint: OnceCell<Option<Fingerprint>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, form: OnceCell::new(), fingerprint: OnceCell::new() }
    }

    /// What it has in common with all texts of its shape, for which the verdict is kept.
    fn form(&self) -> &str {
        self.form.get_or_init(|| form(self.bytes))
    }

    /// With `$n` in the place of values, else as it was written; `None`: it cannot be read.
    pub(super) fn normalized(&self) -> Option<String> {
        normalize(self.bytes)
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        *self.fingerprint.get_or_init(|| fingerprint(self.bytes))
    }
}

/// The part of a condition that is about the session.
#[derive(Clone, Debug)]
pub(super) struct Who {
    user: Option<Vec<Glob>>,
    database: Option<Vec<Glob>>,
    application: Option<Vec<Glob>>,
    client: Option<Vec<Range>>,
}

impl Who {
    /// Does it hold for this session?
    pub(super) fn fits(&self, identity: &Identity<'_>) -> bool {
        let any = |globs: &Option<Vec<Glob>>, name: &str| {
            globs.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(name)))
        };
        any(&self.user, identity.user)
            && any(&self.database, identity.database)
            && any(&self.application, identity.application)
            && self.client.as_ref().is_none_or(|ranges| comes_from(ranges, identity.client))
    }
}

fn comes_from(ranges: &[Range], client: Option<IpAddr>) -> bool {
    client.is_some_and(|address| ranges.iter().any(|range| range.contains(address)))
}

/// What is made of a condition that holds only perhaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It holds: the rule is strict.
    Holds,
    /// It does not: the rule allows what would not be allowed otherwise.
    Fails,
}

/// A set of verbs or kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words(u64);

impl Words {
    const ALL: Self = Self(u64::MAX);

    fn verb(verb: Verb) -> Self {
        Self(1 << (verb as u64))
    }

    fn kind(kind: Kind) -> Self {
        Self(1 << (kind as u64))
    }

    fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// All verbs of a text, to pass over most rules without looking closer.
    pub(super) fn of(facts: &Facts) -> Self {
        let acts = facts.acts.iter().map(|act| act.verb);
        Self(acts.chain([facts.verb]).fold(0, |words, verb| words | Self::verb(verb).0))
    }
}

impl Section {
    /// The firewall asks for whatever is in a text, the others for what binds most.
    fn kinds(self, facts: &Facts) -> Words {
        let text = Words::kind(facts.kind);
        match self {
            Section::Firewall => {
                let acts = facts.acts.iter().flat_map(Act::kinds);
                acts.fold(text, |words, kind| Words(words.0 | Words::kind(kind).0))
            }
            Section::Routing | Section::Cache | Section::Rewrite => text,
        }
    }
}

/// The part that is about the statement.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) who: Who,
    verbs: Words,
    kinds: Words,
    section: Section,
    /// Something is said of a single act besides its verb.
    about_acts: bool,
    reads: Option<Vec<NameGlob>>,
    writes: Option<Vec<NameGlob>>,
    tables: Option<Vec<NameGlob>>,
    functions: Option<Vec<NameGlob>>,
    object: Option<Vec<Glob>>,
    parameters: Option<Vec<Glob>>,
    filter: Option<Presence>,
    limit: Option<Presence>,
    statements: Option<StatementCount>,
    in_transaction: Option<bool>,
    prepared: Option<bool>,
    marks: [(Marks, Option<bool>); 6],
    copy: Option<Vec<CopyPeer>>,
    shape: Option<Vec<Fingerprint>>,
    text: Option<regex::Regex>,
}

impl Condition {
    pub(super) fn new(when: &When, section: Section) -> Self {
        let verbs = when.statement.as_ref().map(|words| words.iter().filter_map(|word| Verb::from_word(word)));
        let kinds = when.kind.as_ref().map(|words| words.iter().filter_map(|word| Kind::from_word(word)));
        let marks = [
            (Marks::TAUTOLOGY, when.tautology),
            (Marks::STAR, when.star),
            (Marks::CROSS_JOIN, when.cross_join),
            (Marks::UNION_CATALOG, when.union_catalog),
            (Marks::CATALOG, when.catalog),
            (Marks::SECURITY_DEFINER, when.security_definer),
        ];
        Self {
            who: Who {
                user: when.user.clone(),
                database: when.database.clone(),
                application: when.application.clone(),
                client: when.client.clone(),
            },
            verbs: verbs.map_or(Words::ALL, |verbs| Words(verbs.fold(0, |all, verb| all | Words::verb(verb).0))),
            kinds: kinds.map_or(Words::ALL, |kinds| Words(kinds.fold(0, |all, kind| all | Words::kind(kind).0))),
            section,
            about_acts: when.object.is_some()
                || when.parameters.is_some()
                || when.filter.is_some()
                || when.limit.is_some()
                || when.copy.is_some()
                || marks.iter().any(|(_, wanted)| wanted.is_some()),
            reads: when.reads.clone(),
            writes: when.writes.clone(),
            tables: when.tables.clone(),
            functions: when.functions.clone(),
            object: when.object.clone(),
            parameters: when.parameters.clone(),
            filter: when.filter,
            limit: when.limit,
            statements: when.statements,
            in_transaction: when.in_transaction,
            prepared: when.prepared,
            marks,
            copy: when.copy.clone(),
            shape: when.shape.as_ref().map(|words| words.iter().filter_map(|word| word.parse().ok()).collect()),
            text: when.text.clone(),
        }
    }

    /// Does the answer hang on whether a transaction is open?
    pub(super) fn asks_for_transaction(&self) -> bool {
        self.in_transaction.is_some()
    }

    /// Does the answer hang on the protocol it came by?
    pub(super) fn asks_for_protocol(&self) -> bool {
        self.prepared.is_some()
    }

    /// Does the answer hang on search_path?
    pub(super) fn asks_for_path(&self) -> bool {
        let lists = [&self.reads, &self.writes, &self.tables, &self.functions];
        lists.into_iter().flatten().flatten().any(|glob| glob.schema.is_some())
    }

    /// Does it hold for this statement? The session's part is not looked at. `moment`: `None` in examples, for which what is said
    /// of the session holds.
    #[allow(clippy::too_many_arguments, reason = "everything that an answer hangs on")]
    pub(super) fn holds(
        &self,
        words: Words,
        facts: &Facts,
        text: &Text<'_>,
        path: &[Box<str>],
        moment: Option<Moment>,
        doubt: Doubt,
    ) -> bool {
        if !self.verbs.meets(words) || !self.kinds.meets(self.section.kinds(facts)) {
            return false;
        }
        let strict = doubt == Doubt::Holds;
        let in_transaction = |wanted: bool, moment: Moment| match moment.in_transaction {
            InTransaction::Yes => wanted,
            InTransaction::No => !wanted,
            InTransaction::Partly => strict,
        };
        let is = |wanted: Option<bool>, is: &dyn Fn(bool, Moment) -> bool| {
            wanted.is_none_or(|wanted| moment.is_none_or(|moment| is(wanted, moment)))
        };
        let fits = |glob: &NameGlob, name: &Name| match (&glob.schema, &name.schema, moment.map(|m| m.search_path)) {
            // Perhaps one that the glob means is among them.
            (wanted, schema, _) if name.is_any() => {
                strict
                    && wanted.as_ref().is_none_or(|wanted| schema.as_ref().is_none_or(|schema| wanted.matches(schema)))
            }
            (Some(_), None, Some(SearchPath::Unknown)) => strict && glob.name.matches(&name.name),
            _ => glob.matches(name.schema.as_deref(), &name.name, path.iter().map(|schema| &**schema)),
        };
        let named = |globs: &Option<Vec<NameGlob>>, names: &[&[Name]]| {
            let mut names = names.iter().copied().flatten();
            globs.as_ref().is_none_or(|globs| names.any(|name| globs.iter().any(|glob| fits(glob, name))))
        };
        let counted = match self.statements {
            None => true,
            Some(StatementCount::Many) => facts.statements > 1,
            Some(StatementCount::One) => facts.statements <= 1,
        };
        counted
            && is(self.in_transaction, &in_transaction)
            && is(self.prepared, &|wanted, moment| moment.prepared == wanted)
            && self.fits_an_act(facts)
            && named(&self.reads, &[&facts.reads])
            && named(&self.writes, &[&facts.writes])
            && named(&self.tables, &[&facts.reads, &facts.writes])
            && named(&self.functions, &[&facts.functions, &facts.notations])
            && self.shape.as_ref().is_none_or(|shapes| text.fingerprint().is_some_and(|print| shapes.contains(&print)))
            && self.text.as_ref().is_none_or(|regex| (strict || facts.error.is_none()) && regex.is_match(text.form()))
    }

    /// All that is said of a single act must hold for the same one.
    fn fits_an_act(&self, facts: &Facts) -> bool {
        if !self.about_acts {
            return true;
        }
        facts.acts.iter().any(|act| self.verbs.meets(Words::verb(act.verb)) && self.fits_act(act))
    }

    fn fits_act(&self, act: &Act) -> bool {
        let clause = |wanted: Option<Presence>, clause: Clause| match wanted {
            None => true,
            Some(Presence::Present) => clause == Clause::Present,
            Some(Presence::Missing) => clause == Clause::Missing,
        };
        let peer = |peer: &CopyPeer| {
            act.marks.contains(match peer {
                CopyPeer::Program => Marks::COPY_PROGRAM,
                CopyPeer::File => Marks::COPY_FILE,
            })
        };
        // A name that is computed may be any.
        let named = |globs: &[Glob], name: &str| name == "*" || globs.iter().any(|glob| glob.matches(name));
        clause(self.filter, act.filter)
            && clause(self.limit, act.limit)
            && self.marks.iter().all(|(mark, wanted)| wanted.is_none_or(|wanted| act.marks.contains(*mark) == wanted))
            && self.copy.as_ref().is_none_or(|peers| peers.iter().any(peer))
            && self
                .object
                .as_ref()
                .is_none_or(|globs| act.object.is_some_and(|object| globs.iter().any(|glob| glob.matches(object))))
            && self.parameters.as_ref().is_none_or(|globs| act.parameters.iter().any(|name| named(globs, name)))
    }
}
