//! Code that a statement runs without naming it: triggers, rules, policies, the functions behind a view or a default. It may change
//! settings, take locks or write, and no parser of the statement can tell.
//!
//! So the server is asked, once per relation and again after every change of the schema, whether anybody's code can be reached through it.
//! A statement through which none can be is what it looks like. After any other one the server's session is not taken for clean
//! ([`Residue`](crate::pool::Residue)), and the statement may have written.
//!
//! Code written in C (extensions) and PostgreSQL's own is trusted, except for built-in functions that touch the session.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasherDefault, Hasher},
    rc::Rc,
    time::{Duration, Instant},
};

use super::{dotted, read_back::of_the_system};
use crate::{
    pool::quote_literal,
    sql::{
        FunctionClass, Functions, Known, Shape,
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
    /// Relations by name, whatever their schema: may anybody's code be reached through it?
    relations: HashMap<Box<str>, bool>,
    /// Built-in functions of whose names there are others.
    shadowed: BTreeSet<Box<str>>,
    /// Operators, casts or domains run anybody's code.
    everywhere: bool,
    /// Names with a dot that functions of this database mention: parameters, perhaps.
    pub(super) mentioned: Rc<[Box<str>]>,
    /// What `relations` and the rest hold for.
    stamp: Option<Stamp>,
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

/// State of the schema, as far as anybody told: changes by statements of ours, and a count of time for those by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub schema: u64,
    pub time: u64,
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

    /// The verdict on a text by what is known of its names.
    pub(super) fn judge(&mut self, known: &Known, now: Stamp) -> Option<Verdict> {
        if let Some(verdict) = self.find(known.shape, now) {
            return Some(verdict);
        }
        if self.stamp != Some(now) {
            return None;
        }
        let mut unseen = self.everywhere || known.facts.functions.iter().any(|f| self.shadowed.contains(&*f.name));
        for name in relations_of(&known.facts) {
            unseen |= *self.relations.get(name)?;
        }
        let verdict = match self.shapes.get(&known.shape).map(|entry| entry.verdict) {
            _ if !unseen => Verdict::Plain,
            // Once seen, always believed: it may leave something only sometimes.
            Some(Verdict::Leaves) => Verdict::Leaves,
            Some(Verdict::Plain | Verdict::Unseen { .. }) | None => Verdict::Unseen { reads: false },
        };
        self.keep(known.shape, now, verdict);
        Some(verdict)
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
        self.stamp == Some(now)
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

    /// The question about the relations of these texts and of everything known so far.
    pub(super) fn question<'a>(&mut self, texts: impl Iterator<Item = &'a Known>, words: &Words) -> String {
        self.asked += 1;
        let asked: BTreeSet<&str> = texts.flat_map(|known| relations_of(&known.facts)).collect();
        let room = MOST.saturating_sub(asked.len());
        let mut names: BTreeSet<Box<str>> = self.relations.keys().take(room).cloned().collect();
        names.extend(asked.into_iter().map(Into::into));
        let mut list = String::new();
        for name in &names {
            list.push_str(if list.is_empty() { "" } else { "," });
            quote_literal(&mut list, name);
        }
        words.question(&list)
    }

    /// Takes the answer over: rows of a kind and a name. Without the last of them it is none.
    pub(super) fn learn(&mut self, rows: &[Vec<u8>], now: Stamp) {
        let mut fresh = Self::default();
        let (mut mentioned, mut whole) = (Vec::new(), false);
        for row in rows {
            let Ok(row) = DataRow::parse(row) else { continue };
            let mut columns = row.columns().map(|column| column.ok().flatten().unwrap_or_default());
            let (kind, name) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
            let name = String::from_utf8_lossy(name);
            match kind {
                b"plain" => {
                    fresh.relations.entry(name.into()).or_insert(false);
                }
                b"unseen" => {
                    fresh.relations.insert(name.into(), true);
                }
                b"shadowed" => {
                    fresh.shadowed.insert(name.into());
                }
                b"mentioned" if dotted::is_name(name.as_bytes()) => mentioned.push(name.to_ascii_lowercase().into()),
                b"everywhere" => fresh.everywhere = true,
                b"end" => whole = true,
                _ => {}
            }
        }
        if whole {
            (self.relations, self.shadowed, self.everywhere) = (fresh.relations, fresh.shadowed, fresh.everywhere);
            (self.mentioned, self.stamp) = (mentioned.into(), Some(now));
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

/// Names of built-in functions that stored code may call to touch the session, or to write.
#[derive(Debug)]
pub(super) struct Words {
    session: String,
    queries: String,
}

impl Words {
    pub(super) fn new(functions: &Functions) -> Self {
        let list = |classes: &[FunctionClass]| {
            let mut list = String::new();
            for name in functions.names(classes).filter(|name| !name.contains("_xact_")) {
                list.push_str(if list.is_empty() { "" } else { "," });
                quote_literal(&mut list, name);
            }
            list
        };
        let session = [FunctionClass::Session, FunctionClass::Locks, FunctionClass::Opaque];
        let queries = [FunctionClass::Session, FunctionClass::Locks, FunctionClass::Opaque, FunctionClass::Writes];
        Self { session: list(&session), queries: list(&queries) }
    }

    /// `names` is a list of literals, perhaps empty.
    fn question(&self, names: &str) -> String {
        of_the_system(QUESTION)
            .replace("$names", names)
            .replace("$session", &self.session)
            .replace("$queries", &self.queries)
    }
}

/// Fixed numbers: 11 pg_catalog; 12 and 13 the languages internal and C; 16384 the first object that is not PostgreSQL's own; 1247
/// pg_type, 1255 pg_proc, 1259 pg_class, 2604 pg_attrdef, 2606 pg_constraint, 2617 pg_operator, 2618 pg_rewrite, 3256 pg_policy. Calls of
/// built-in functions are not in pg_depend, so the stored trees are searched for them.
///
/// `r` is what is reached from a name: partitions and children, what views and rules read, tables that a foreign key changes. It is asked
/// under the client's search_path, so its operators are written out ([`of_the_system`]).
const QUESTION: &str = "WITH RECURSIVE names(name) AS MATERIALIZED (SELECT pg_catalog.unnest(ARRAY[$names]::pg_catalog.text[])), \
    calls(session, queries) AS MATERIALIZED (SELECT \
      ':funcid (' || pg_catalog.string_agg(oid::pg_catalog.text, '|') FILTER (WHERE proname = ANY (ARRAY[$session]::pg_catalog.name[])) || ') ', \
      ':funcid (' || pg_catalog.string_agg(oid::pg_catalog.text, '|') || ') ' \
      FROM pg_catalog.pg_proc WHERE pronamespace = 11 AND proname = ANY (ARRAY[$queries]::pg_catalog.name[])), \
    r(oid, name) AS (\
      SELECT c.oid, n.name FROM names n JOIN pg_catalog.pg_class c ON c.relname = n.name::pg_catalog.name \
        WHERE c.oid >= 16384 AND c.relkind = ANY ('{r,p,v,m,f}') \
      UNION SELECT n.oid, r.name FROM r, LATERAL (\
        SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = r.oid \
        UNION ALL SELECT d.refobjid FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d \
          ON d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259 WHERE w.ev_class = r.oid \
        UNION ALL SELECT conrelid FROM pg_catalog.pg_constraint \
          WHERE confrelid = r.oid AND contype = 'f' AND (confdeltype = ANY ('{c,n,d}') OR confupdtype = ANY ('{c,n,d}'))\
      ) n(oid) WHERE n.oid >= 16384) \
    SELECT 'plain', name FROM names \
    UNION ALL SELECT DISTINCT 'unseen', r.name FROM r JOIN pg_catalog.pg_class c ON c.oid = r.oid, calls WHERE c.relkind = 'f' \
      OR EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal) \
      OR EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid \
        AND (w.rulename <> '_RETURN' OR w.ev_action::pg_catalog.text ~ calls.queries)) \
      OR EXISTS (SELECT FROM pg_catalog.pg_attrdef a WHERE a.adrelid = c.oid AND a.adbin::pg_catalog.text ~ calls.session) \
      OR EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.conbin::pg_catalog.text ~ calls.session) \
      OR EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid AND \
        (p.polqual::pg_catalog.text ~ calls.queries OR p.polwithcheck::pg_catalog.text ~ calls.queries)) \
      OR EXISTS (SELECT FROM pg_catalog.pg_proc f \
        WHERE f.oid >= 16384 AND f.pronargs >= 1 AND f.proargtypes[0] = c.reltype AND f.prolang <> ALL ('{12,13}')) \
      OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid \
        WHERE d.refclassid = 1255 AND (f.prolang <> ALL ('{12,13}') OR f.prokind = 'a') AND (\
        (d.classid = 1259 AND (d.objid = c.oid OR d.objid = ANY (SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid))) \
        OR (d.classid = 2604 AND d.objid = ANY (SELECT a.oid FROM pg_catalog.pg_attrdef a WHERE a.adrelid = c.oid)) \
        OR (d.classid = 2606 AND d.objid = ANY (SELECT k.oid FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid)) \
        OR (d.classid = 2618 AND d.objid = ANY (SELECT w.oid FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid)) \
        OR (d.classid = 3256 AND d.objid = ANY (SELECT p.oid FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid)))) \
    UNION ALL SELECT DISTINCT 'shadowed', f.proname::pg_catalog.text FROM pg_catalog.pg_proc f \
      WHERE f.oid >= 16384 AND (f.prolang <> ALL ('{12,13}') OR f.prokind = 'a') \
      AND EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.pronamespace = 11 AND b.proname = f.proname) \
    UNION ALL SELECT 'everywhere', '' WHERE \
      EXISTS (SELECT FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc f ON f.oid = o.oprcode \
        WHERE o.oid >= 16384 AND (f.prolang <> ALL ('{12,13}') OR f.proname = ANY (ARRAY[$session]::pg_catalog.name[]))) \
      OR EXISTS (SELECT FROM pg_catalog.pg_cast k JOIN pg_catalog.pg_proc f ON f.oid = k.castfunc \
        WHERE k.oid >= 16384 AND (f.prolang <> ALL ('{12,13}') OR f.proname = ANY (ARRAY[$session]::pg_catalog.name[]))) \
      OR EXISTS (SELECT FROM pg_catalog.pg_amproc a JOIN pg_catalog.pg_proc f ON f.oid = a.amproc \
        WHERE f.oid >= 16384 AND f.prolang <> ALL ('{12,13}')) \
      OR EXISTS (SELECT FROM calls, pg_catalog.pg_constraint k WHERE k.contypid >= 16384 AND (k.conbin::pg_catalog.text ~ calls.session \
        OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid \
          WHERE d.classid = 2606 AND d.objid = k.oid AND d.refclassid = 1255 AND f.prolang <> ALL ('{12,13}')))) \
      OR EXISTS (SELECT FROM calls, pg_catalog.pg_type t WHERE t.oid >= 16384 AND (t.typdefaultbin::pg_catalog.text ~ calls.session \
        OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid \
          WHERE d.classid = 1247 AND d.objid = t.oid AND d.refclassid = 1255 AND f.prolang <> ALL ('{12,13}')))) \
    UNION ALL (SELECT DISTINCT 'mentioned', m.name FROM pg_catalog.pg_proc f, \
      LATERAL (SELECT (pg_catalog.regexp_matches(f.prosrc, '''([[:alpha:]_][[:alnum:]_$]*([.][[:alpha:]_][[:alnum:]_$]*)+)''|\\mset\\s+(?:(?:local|session)\\s+)?([[:alpha:]_][[:alnum:]_$]*([.][[:alpha:]_][[:alnum:]_$]*)+)', 'gi'))) x(found), \
      LATERAL (SELECT COALESCE(x.found[1], x.found[3])) m(name) \
      WHERE f.oid >= 16384 AND f.prolang <> ALL ('{12,13}') AND f.prosrc ~* '\\mset' LIMIT 500) \
    UNION ALL SELECT 'end', ''";
