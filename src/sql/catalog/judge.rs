//! What a text may do, given everything its names may stand for.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use super::{
    Body, Catalog, Freshness, Function, FunctionKind, Language, Permanence, RelationKind, Volatility, body::Words,
    path::SearchPath,
};
use crate::sql::{
    facts::{Effect, Facts, Name, PrimaryReason},
    functions::{Declared, FunctionClass, Functions},
    mentions::{Field, Mentions},
    parse,
};

/// Judgements kept per scope; when there are more, all are forgotten.
const MOST: usize = 20_000;
/// Views in views, functions in functions.
const DEEPEST: usize = 60;

/// What becomes of a name, or of all names of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    primary: Option<PrimaryReason>,
    /// It may do to the session what nobody sees.
    opaque: bool,
    /// A name was not found.
    missing: bool,
}

impl Verdict {
    const HARMLESS: Self = Self { primary: None, opaque: false, missing: false };

    fn code(reason: PrimaryReason) -> Self {
        Self { primary: Some(reason), opaque: true, missing: false }
    }

    fn data(reason: PrimaryReason) -> Self {
        Self { primary: Some(reason), opaque: false, missing: false }
    }

    /// Of code as such. That it cannot be read is no fault of the text that reaches it.
    fn of(mentions: &Mentions, unreadable: PrimaryReason) -> Self {
        let unparsable = mentions.primary == Some(PrimaryReason::Unparsable);
        let primary = if unparsable { Some(unreadable) } else { mentions.primary };
        Self { primary, opaque: mentions.opaque, missing: false }
    }

    fn and(self, other: Self) -> Self {
        let primary = match (self.primary, other.primary) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { primary, opaque: self.opaque || other.opaque, missing: self.missing || other.missing }
    }
}

/// Something whose judgement is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Object {
    Function(usize),
    Relation(usize),
    /// Everything that no text names.
    Unnamed,
    /// Everything that assignments may call.
    Assigned,
}

/// A path by its number in [`Memory::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Path(usize);

const SYSTEM: Path = Path(0);
const SESSION: Path = Path(1);

/// What was judged already with one snapshot and one search path.
#[derive(Debug)]
pub(in crate::sql) struct Memory {
    paths: Vec<Rc<SearchPath>>,
    known: HashMap<(Object, Path), Verdict>,
}

impl Memory {
    pub(super) fn new(path: SearchPath) -> Self {
        Self { paths: vec![Rc::new(SearchPath::system()), Rc::new(path)], known: HashMap::new() }
    }
}

/// Facts in the light of a catalog.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sql) struct Resolved {
    /// `None`: they are what they were.
    pub facts: Option<Facts>,
    /// A name is not in the catalog; perhaps it will be.
    pub missing: bool,
}

/// Judges a text by its facts.
pub(in crate::sql) fn resolve(
    facts: &Facts,
    catalog: &Catalog,
    freshness: Freshness,
    functions: &Functions,
    memory: &mut Memory,
) -> Resolved {
    if memory.known.len() > MOST {
        memory.known.clear();
    }
    let mut judge = Judge {
        catalog,
        freshness,
        functions,
        memory,
        seen: HashSet::new(),
        depth: 0,
        is_part: false,
        writes: Vec::new(),
    };
    let mentions = &facts.mentions;
    let called = judge.called(&facts.functions, SESSION);
    let mut verdict = Verdict { primary: mentions.primary, ..Verdict::HARMLESS }.and(called);
    // What is not a read for another reason need not be looked at for more of them.
    if mentions.primary.is_none() {
        verdict = verdict.and(judge.touched(&facts.reads, mentions, SESSION)).and(judge.unnamed());
    }
    let opaque = mentions.opaque || called.opaque;
    let was_opaque = facts.effects.contains(&Effect::OpaqueCode);
    let missing = verdict.missing && freshness == Freshness::Fresh;
    if verdict.primary == facts.primary && opaque == was_opaque && judge.writes.is_empty() {
        return Resolved { facts: None, missing };
    }
    let mut changed = facts.clone();
    (changed.primary, changed.proven_read_only) = (verdict.primary, verdict.primary.is_none());
    if was_opaque && !opaque {
        changed.effects = facts.effects.iter().filter(|effect| **effect != Effect::OpaqueCode).cloned().collect();
    }
    if !judge.writes.is_empty() {
        let mut writes = facts.writes.to_vec();
        writes.append(&mut judge.writes);
        writes.sort_unstable();
        writes.dedup();
        changed.writes = writes.into();
    }
    Resolved { facts: Some(changed), missing }
}

struct Judge<'c> {
    catalog: &'c Catalog,
    freshness: Freshness,
    functions: &'c Functions,
    memory: &'c mut Memory,
    /// What was come by on the way from a name in the text: seen again it adds nothing.
    seen: HashSet<(Object, Path)>,
    depth: usize,
    /// Something was seen again, so judgements on the way are only parts of the whole.
    is_part: bool,
    /// What declared functions write that the text calls.
    writes: Vec<Name>,
}

impl Judge<'_> {
    fn path(&self, path: Path) -> Rc<SearchPath> {
        self.memory.paths.get(path.0).map_or_else(|| Rc::new(SearchPath::new(None, "")), Rc::clone)
    }

    /// A judgement that is kept.
    fn once(&mut self, object: Object, path: Path, judge: impl FnOnce(&mut Self) -> Verdict) -> Verdict {
        let key = (object, path);
        if let Some(verdict) = self.memory.known.get(&key) {
            return *verdict;
        }
        if !self.seen.insert(key) {
            self.is_part = true;
            return Verdict::HARMLESS;
        }
        if self.depth >= DEEPEST {
            return Verdict::code(PrimaryReason::UnknownFunction);
        }
        self.depth += 1;
        let verdict = Verdict { missing: false, ..judge(self) };
        self.depth -= 1;
        if self.depth == 0 {
            self.seen.clear();
            self.is_part = false;
        }
        if !self.is_part {
            self.memory.known.insert(key, verdict);
        }
        verdict
    }

    fn called(&mut self, functions: &[Name], path: Path) -> Verdict {
        functions.iter().fold(Verdict::HARMLESS, |verdict, name| verdict.and(self.call(name, path)))
    }

    /// Everything else that a read names.
    fn touched(&mut self, reads: &[Name], mentions: &Mentions, path: Path) -> Verdict {
        let mut verdict = Verdict::HARMLESS;
        for name in reads {
            verdict = verdict.and(self.read(name, path));
        }
        for name in &mentions.operators {
            verdict = verdict.and(self.operator(name, path));
        }
        for name in &mentions.types {
            verdict = verdict.and(self.cast(&name.name, path));
        }
        for field in &mentions.fields {
            verdict = verdict.and(self.field(*field, path));
        }
        verdict
    }

    /// A function by a name in a text.
    fn call(&mut self, name: &Name, path: Path) -> Verdict {
        if is_operator(&name.name) {
            return self.operator(name, path);
        }
        let class = self.functions.class(&name.name).filter(|_| name.schema.is_none());
        if class.is_none()
            && let Some(verdict) = self.declared(name.schema.as_deref(), &name.name)
        {
            return verdict;
        }
        let found = match &name.schema {
            Some(schema) => self.catalog.functions_of(schema, &name.name),
            None => self.catalog.functions_in(&self.path(path), &name.name),
        };
        if found.is_empty() && class.is_none() {
            return Verdict { missing: true, ..Verdict::code(PrimaryReason::UnknownFunction) };
        }
        // What a built-in function does was said when the text was read.
        self.functions_at(&found, path)
    }

    fn functions_at(&mut self, found: &[usize], path: Path) -> Verdict {
        found.iter().fold(Verdict::HARMLESS, |verdict, at| verdict.and(self.function(*at, path)))
    }

    /// What a rule file says of it.
    fn declared(&mut self, schema: Option<&str>, name: &str) -> Option<Verdict> {
        Some(match self.functions.declared(schema, name)? {
            Declared::ReadOnly => Verdict::HARMLESS,
            Declared::Writes(relations) => {
                if self.depth == 0 {
                    self.writes.extend(relations.iter().cloned());
                }
                Verdict::data(PrimaryReason::VolatileFunction)
            }
        })
    }

    fn function(&mut self, at: usize, path: Path) -> Verdict {
        let Some(function) = self.catalog.functions.get(at) else { return Verdict::HARMLESS };
        if let Some(verdict) = self.declared(Some(&function.schema), &function.name) {
            return verdict;
        }
        let may_have_changed = !matches!(function.language, Language::Native) && self.depth == 0;
        if may_have_changed && self.freshness == Freshness::Stale {
            return Verdict::code(PrimaryReason::UnknownFunction);
        }
        self.once(Object::Function(at), path, |judge| judge.defined(function, path))
    }

    fn defined(&mut self, function: &Function, path: Path) -> Verdict {
        // Whatever its label says.
        if DENIED.iter().any(|prefix| function.name.starts_with(prefix)) {
            return Verdict::code(PrimaryReason::VolatileFunction);
        }
        let defaults = function.defaults.as_deref().map_or(Verdict::HARMLESS, |body| self.body(body, SYSTEM));
        let own = match (&function.kind, function.volatility) {
            (FunctionKind::Aggregate(parts), _) => {
                parts.iter().fold(Verdict::HARMLESS, |verdict, part| verdict.and(self.exactly(part, path)))
            }
            (FunctionKind::Procedure, _) | (FunctionKind::Function, Volatility::Volatile) => {
                Verdict::code(PrimaryReason::LabelledVolatile)
            }
            (FunctionKind::Function, Volatility::NotVolatile) => match (function.language, function.body.as_deref()) {
                (Language::Native, _) => Verdict::HARMLESS,
                (Language::Sql | Language::Plpgsql, Some(body)) => {
                    let path = self.path_of(function, path);
                    self.body(body, path).and(self.assigned())
                }
                (Language::Sql, None) | (Language::Untrusted, _) => Verdict::code(PrimaryReason::UnknownFunction),
                // Its label says that it does not write, and a standby would not let it.
                (Language::Plpgsql, None) | (Language::Trusted, _) => Verdict { opaque: true, ..Verdict::HARMLESS },
            },
        };
        own.and(defaults)
    }

    /// A path that the function sets for itself, or the caller's. As somebody else it may find other names by either.
    fn path_of(&mut self, function: &Function, path: Path) -> Path {
        let own = match (&function.search_path, function.is_definers) {
            (None, false) => return path,
            (Some(value), false) => SearchPath::new(Some(value), self.path(path).user()),
            (Some(value), true) if !value.contains("$user") => SearchPath::new(Some(value), ""),
            (_, true) => SearchPath::new(None, ""),
        };
        match self.memory.paths.iter().position(|known| **known == own) {
            Some(at) => Path(at),
            None => {
                self.memory.paths.push(Rc::new(own));
                Path(self.memory.paths.len() - 1)
            }
        }
    }

    fn body(&mut self, body: &Body, path: Path) -> Verdict {
        match body {
            Body::Statements(said) => {
                let own = Verdict::of(&said.mentions, PrimaryReason::UnknownFunction);
                own.and(self.called(&said.functions, path)).and(self.touched(&said.reads, &said.mentions, path))
            }
            Body::Words(words) => self.words(words, path),
            Body::Unread => Verdict::code(PrimaryReason::UnknownFunction),
        }
    }

    /// Whatever has one of these names.
    fn words(&mut self, words: &Words, path: Path) -> Verdict {
        let mut verdict = Verdict { opaque: words.is_dynamic, ..Verdict::HARMLESS };
        for word in words.iter() {
            verdict = verdict.and(match self.functions.class(word) {
                None | Some(FunctionClass::Read) => Verdict::HARMLESS,
                Some(FunctionClass::Writes | FunctionClass::Locks) => Verdict::code(PrimaryReason::VolatileFunction),
                Some(FunctionClass::Session | FunctionClass::SessionValue) => {
                    Verdict::code(PrimaryReason::SessionState)
                }
                Some(FunctionClass::NodeLocal) => Verdict::data(PrimaryReason::NodeLocal),
                Some(FunctionClass::Opaque) => Verdict::code(PrimaryReason::UnknownFunction),
            });
            if parse::is_node_local(word) {
                verdict = verdict.and(Verdict::data(PrimaryReason::NodeLocal));
            }
            let functions = self.catalog.functions_by_name.get(word).cloned().unwrap_or_default();
            verdict = verdict.and(self.functions_at(&functions, path));
            let relations = self.catalog.relations_by_name.get(word).cloned().unwrap_or_default();
            verdict = relations.iter().fold(verdict, |verdict, at| verdict.and(self.relation(*at, path)));
            verdict = verdict.and(self.cast(word, path));
            if is_operator(word) {
                let operators = self.catalog.operators.get(word).into_iter().flatten();
                verdict =
                    operators.fold(verdict, |verdict, operator| verdict.and(self.exactly(&operator.function, path)));
            }
        }
        verdict
    }

    fn read(&mut self, name: &Name, path: Path) -> Verdict {
        let found = match name.schema.as_deref() {
            // What these are was said when the text was read.
            Some("pg_catalog" | "information_schema") => return Verdict::HARMLESS,
            Some(schema) if schema.starts_with("pg_temp") => return Verdict::HARMLESS,
            Some(schema) => self.catalog.relations_of(schema, &name.name),
            None => {
                let own = self.path(path);
                let is_system = name.name.starts_with("pg_");
                if is_system && !own.hides_system() {
                    return Verdict::HARMLESS;
                }
                let found = self.catalog.relations_in(&own, &name.name);
                if is_system && found.is_empty() {
                    return Verdict::HARMLESS;
                }
                found
            }
        };
        if found.is_empty() {
            return Verdict { missing: true, ..Verdict::data(PrimaryReason::UnknownRelation) };
        }
        found.iter().fold(Verdict::HARMLESS, |verdict, at| verdict.and(self.relation(*at, path)))
    }

    fn relation(&mut self, at: usize, path: Path) -> Verdict {
        let Some(relation) = self.catalog.relations.get(at) else { return Verdict::HARMLESS };
        let is_code = relation.kind == RelationKind::View && self.depth == 0;
        if is_code && self.freshness == Freshness::Stale {
            return Verdict::data(PrimaryReason::UnknownRelation);
        }
        self.once(Object::Relation(at), path, |judge| {
            let mut verdict = match (relation.kind, relation.permanence) {
                (RelationKind::Foreign | RelationKind::Sequence, _) | (_, Permanence::Unlogged) => {
                    Verdict::data(PrimaryReason::UnknownRelation)
                }
                (RelationKind::Table, Permanence::Logged) => Verdict::HARMLESS,
                (RelationKind::View, Permanence::Logged) => match relation.query.as_deref() {
                    Some(query) => judge.view(query, path),
                    None => Verdict::data(PrimaryReason::UnknownRelation),
                },
            };
            for policy in &relation.policies {
                verdict = verdict.and(judge.view(policy, path));
            }
            for child in judge.catalog.children.get(&at).into_iter().flatten() {
                verdict = verdict.and(judge.relation(*child, path));
            }
            verdict
        })
    }

    /// Code whose own names were fixed when it was made; what it calls looks for names where the session does.
    fn view(&mut self, body: &Body, session: Path) -> Verdict {
        let Body::Statements(said) = body else { return Verdict::data(PrimaryReason::UnknownRelation) };
        let mut verdict = Verdict::of(&said.mentions, PrimaryReason::UnknownRelation);
        for name in &said.functions {
            let found = match &name.schema {
                Some(schema) => self.catalog.functions_of(schema, &name.name),
                None => self.catalog.functions_of("pg_catalog", &name.name),
            };
            let known = !found.is_empty() || (name.schema.is_none() && self.functions.class(&name.name).is_some());
            verdict = verdict.and(if known || is_operator(&name.name) {
                self.functions_at(&found, session)
            } else {
                Verdict::code(PrimaryReason::UnknownFunction)
            });
        }
        for name in &said.reads {
            // Only system relations are not qualified.
            if name.schema.is_some() {
                verdict = verdict.and(self.read(name, session));
            }
        }
        for name in &said.mentions.operators {
            verdict =
                verdict.and(self.operator_of(name.schema.as_deref().unwrap_or("pg_catalog"), &name.name, session));
        }
        for name in &said.mentions.types {
            verdict = verdict.and(self.cast(&name.name, session));
        }
        for field in &said.mentions.fields {
            verdict = verdict.and(self.field(*field, session));
        }
        verdict
    }

    fn operator(&mut self, name: &Name, path: Path) -> Verdict {
        let Some(schema) = &name.schema else {
            let own = self.path(path);
            let found = self.catalog.operators.get(&name.name).into_iter().flatten();
            return found
                .filter(|operator| own.includes(&operator.schema))
                .fold(Verdict::HARMLESS, |verdict, operator| verdict.and(self.exactly(&operator.function, path)));
        };
        self.operator_of(schema, &name.name, path)
    }

    fn operator_of(&mut self, schema: &str, name: &str, path: Path) -> Verdict {
        let found = self.catalog.operators.get(name).into_iter().flatten();
        let mut verdict = None;
        for operator in found.filter(|operator| *operator.schema == *schema) {
            let this = self.exactly(&operator.function, path);
            verdict = Some(verdict.unwrap_or(Verdict::HARMLESS).and(this));
        }
        match verdict {
            Some(verdict) => verdict,
            None if schema == "pg_catalog" => Verdict::HARMLESS,
            None => Verdict { missing: true, ..Verdict::code(PrimaryReason::UnknownFunction) },
        }
    }

    /// A cast to a type of this name, whatever its schema.
    fn cast(&mut self, target: &str, path: Path) -> Verdict {
        let functions = self.catalog.casts.get(target).into_iter().flatten();
        functions.fold(Verdict::HARMLESS, |verdict, name| verdict.and(self.exactly(name, path)))
    }

    /// What stands behind a dot.
    fn field(&mut self, field: Field, path: Path) -> Verdict {
        let found = self.catalog.behind_dots.get(&field).cloned().unwrap_or_default();
        self.functions_at(&found, path)
    }

    /// What may run without being named. It was looked at whole, so it is kept like anything else.
    fn unnamed(&mut self) -> Verdict {
        let catalog = self.catalog;
        if catalog.unnamed.is_empty() && catalog.checks.is_empty() {
            return Verdict::HARMLESS;
        }
        self.once(Object::Unnamed, SESSION, |judge| {
            let functions = catalog.unnamed.iter();
            let functions =
                functions.fold(Verdict::HARMLESS, |verdict, name| verdict.and(judge.exactly(name, SESSION)));
            catalog.checks.iter().fold(functions, |verdict, check| verdict.and(judge.view(check, SESSION)))
        })
    }

    /// What assignments may call; likewise.
    fn assigned(&mut self) -> Verdict {
        let catalog = self.catalog;
        if catalog.assigned.is_empty() {
            return Verdict::HARMLESS;
        }
        self.once(Object::Assigned, SESSION, |judge| {
            catalog.assigned.iter().fold(Verdict::HARMLESS, |verdict, name| verdict.and(judge.exactly(name, SESSION)))
        })
    }

    /// The function of this name and no other.
    fn exactly(&mut self, name: &Name, path: Path) -> Verdict {
        let schema = name.schema.as_deref().unwrap_or("pg_catalog");
        let found = self.catalog.functions_of(schema, &name.name);
        if !found.is_empty() {
            return self.functions_at(&found, path);
        }
        match self.functions.class(&name.name).filter(|_| schema == "pg_catalog") {
            Some(FunctionClass::Read) => Verdict::HARMLESS,
            Some(FunctionClass::NodeLocal) => Verdict::data(PrimaryReason::NodeLocal),
            Some(_) => Verdict::code(PrimaryReason::VolatileFunction),
            None => Verdict::code(PrimaryReason::UnknownFunction),
        }
    }
}

/// Functions of extensions that reach other servers, or run what is in their arguments (tablefunc, xml2, pgrouting).
const DENIED: [&str; 6] = ["dblink", "postgres_fdw_", "crosstab", "connectby", "xpath_table", "pgr_"];

fn is_operator(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| b"+-*/<>=~!@#%^&|`?".contains(&first))
}
