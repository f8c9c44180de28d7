//! Code that a statement runs without naming it ([`Reach`]): it may change settings, take locks or write.
//!
//! Mostly the catalog knows. Where there is none, or it is not believed or does not know a name, the server is asked, once per relation and
//! again after every change of the schema. A statement through which no code can be reached is what it looks like. After any other one the
//! server's session is not taken for clean ([`Residue`](crate::pool::Residue)), and the statement may have written.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    pool::quote_literal,
    sql::{
        Known, Shape,
        catalog::{Reach, ReachQuestion},
        facts::{Effect, Facts, Kind},
    },
    wire::backend::DataRow,
};

/// The question takes a server some milliseconds, most of them for planning. So many may be asked at once, and then one in each span of
/// this length; what is not known meanwhile is taken for unseen, and what it has left is looked at each time.
const AT_ONCE: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(100);
/// Most shapes, and most names, that are remembered per worker, database and user.
const MOST: usize = 4096;

/// What is known of the shapes of one user's statements in one database.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    shapes: HashMap<Shape, Entry, BuildHasherDefault<Itself>>,
    /// What the catalog has said.
    read: Option<(Stamp, Arc<Reach>)>,
    /// What a server has said.
    asked_about: Option<(Stamp, Reach)>,
    /// Questions asked and not yet forgotten.
    asked: u32,
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    stamp: Stamp,
    verdict: Verdict,
    /// The schema with which it was seen what it leaves.
    looked_at: Option<u64>,
}

/// State of the schema, as far as anybody told: changes by statements of ours, what the catalog is looked at for, and while that is not
/// believed a count of time, as others change the schema, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub schema: u64,
    pub catalog: u64,
    pub time: Option<u64>,
}

/// What becomes of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It runs nobody's code but PostgreSQL's.
    Plain,
    /// It may run other code. `reads`: a standby has run it, so that code does not write.
    Unseen { reads: bool },
    /// It was seen to leave something behind that it does not name.
    Leaves,
}

/// Does what is known of the text leave anything to be asked?
pub(super) fn is_to_be_asked(facts: &Facts) -> bool {
    match facts.kind {
        Kind::Read | Kind::Write | Kind::Copy => true,
        // DECLARE, and texts of several statements.
        Kind::Session | Kind::Transaction => !facts.reads.is_empty() || !facts.writes.is_empty(),
        Kind::Ddl | Kind::Utility | Kind::Empty | Kind::Unknown => false,
    }
}

/// Runs code that nobody asks about: event triggers, whatever ALTER TABLE or CREATE INDEX compute.
pub(super) fn is_unseen_anyway(facts: &Facts) -> bool {
    matches!(facts.kind, Kind::Ddl | Kind::Utility | Kind::Unknown)
        || facts.effects.iter().any(|effect| matches!(effect, Effect::OpaqueCode | Effect::Execute(_)))
}

impl Unseen {
    /// The verdict on a shape, if there is one for the schema as it is now.
    pub(super) fn find(&self, shape: Shape, now: Stamp) -> Option<Verdict> {
        self.shapes.get(&shape).filter(|entry| entry.stamp == now).map(|entry| entry.verdict)
    }

    /// What the catalog says now; `None`: there is none to be believed.
    pub(super) fn follow(&mut self, now: Stamp, reach: impl FnOnce() -> Option<Arc<Reach>>) {
        if self.read.as_ref().is_none_or(|(stamp, _)| *stamp != now) {
            self.read = reach().map(|reach| (now, reach));
        }
    }

    /// The verdict on a text by what is known of its names.
    pub(super) fn judge(&mut self, known: &Known, now: Stamp) -> Option<Verdict> {
        if let Some(verdict) = self.find(known.shape, now) {
            return Some(verdict);
        }
        let unseen = self.told(now).find_map(|reach| reach.is_unseen(&known.facts))?;
        let verdict = match self.shapes.get(&known.shape).map(|entry| entry.verdict) {
            _ if !unseen => Verdict::Plain,
            // Once seen, always believed: it may leave something only sometimes.
            Some(Verdict::Leaves) => Verdict::Leaves,
            Some(Verdict::Plain | Verdict::Unseen { .. }) | None => Verdict::Unseen { reads: false },
        };
        self.keep(known.shape, now, verdict);
        Some(verdict)
    }

    /// What is known of the schema as it is now: the catalog's word comes first.
    fn told(&self, now: Stamp) -> impl Iterator<Item = &Reach> {
        let read = self.read.iter().map(|(stamp, reach)| (stamp, &**reach));
        let asked = self.asked_about.iter().map(|(stamp, reach)| (stamp, reach));
        read.chain(asked).filter(move |(stamp, _)| **stamp == now).map(|(_, reach)| reach)
    }

    pub(super) fn keep(&mut self, shape: Shape, now: Stamp, verdict: Verdict) {
        if self.shapes.len() >= MOST && !self.shapes.contains_key(&shape) {
            self.shapes.clear();
        }
        let entry = self.shapes.entry(shape).or_insert(Entry { stamp: now, verdict, looked_at: None });
        (entry.stamp, entry.verdict) = (now, verdict);
    }

    /// It has run: is that the first time with this schema?
    pub(super) fn is_first(&mut self, shape: Shape, now: Stamp) -> bool {
        let looked_at = self.shapes.get_mut(&shape).map(|entry| entry.looked_at.replace(now.schema));
        looked_at.is_some_and(|before| before != Some(now.schema))
    }

    /// Is what is known of names known of this schema?
    pub(super) fn is_of(&self, now: Stamp) -> bool {
        self.told(now).next().is_some()
    }

    /// Names with a dot that functions of this database mention.
    pub(super) fn mentioned(&self) -> impl Iterator<Item = &str> {
        let read = self.read.iter().flat_map(|(_, reach)| reach.mentioned());
        read.chain(self.asked_about.iter().flat_map(|(_, reach)| reach.mentioned())).map(|name| &**name)
    }

    /// May a server be asked already?
    pub(super) fn may_ask(&mut self, now: Instant) -> bool {
        let spans = self.since.map_or(u32::MAX, |since| {
            u32::try_from(now.saturating_duration_since(since).as_millis() / BETWEEN.as_millis()).unwrap_or(u32::MAX)
        });
        if spans > 0 {
            (self.since, self.asked) = (Some(now), self.asked.saturating_sub(spans));
        }
        self.asked < AT_ONCE
    }

    /// The question about the relations of these texts and of everything asked about so far.
    pub(super) fn question<'a>(&mut self, texts: impl Iterator<Item = &'a Known>, question: &ReachQuestion) -> String {
        self.asked += 1;
        let mut names: BTreeSet<&str> = texts.flat_map(|known| relations_of(&known.facts)).collect();
        let before = self.asked_about.iter().flat_map(|(_, reach)| reach.relations());
        names.extend(before.take(MOST.saturating_sub(names.len())));
        let mut list = String::new();
        for name in &names {
            list.push_str(if list.is_empty() { "" } else { "," });
            quote_literal(&mut list, name);
        }
        question.about(&list)
    }

    /// Takes the answer over.
    pub(super) fn learn(&mut self, rows: &[Vec<u8>], now: Stamp) {
        let rows: Vec<DataRow<'_>> = rows.iter().filter_map(|row| DataRow::parse(row).ok()).collect();
        let texts = rows.iter().map(|row| {
            let mut columns = row.columns().map(|column| column.ok().flatten().unwrap_or_default());
            let mut text = || columns.next().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
            (text(), text())
        });
        if let Some(reach) = Reach::read(texts) {
            self.asked_about = Some((now, reach));
        }
    }
}

fn relations_of(facts: &Facts) -> impl Iterator<Item = &str> {
    facts.reads.iter().chain(&facts.writes).map(|name| &*name.name)
}

/// A shape is a hash already.
#[derive(Debug, Default)]
pub(super) struct Itself(u64);

impl Hasher for Itself {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
