//! Facts for a text, from the table if its shape was seen before, else from the parser.

use std::{rc::Rc, sync::Arc};

use super::{
    catalog::{Scope, resolve},
    facts::{Facts, PrimaryReason},
    functions::Functions,
    hints::Hints,
    lexer::{Encoding, StringRules},
    misroutes::{Misroutes, Route},
    parse,
    shape::{self, Outline, Shape, ShapeKey},
    table::Table,
};

/// What a classifier may use.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Longest text that is parsed, in bytes; a longer one is unparsable.
    pub parse: usize,
    /// Shapes remembered.
    pub entries: usize,
}

/// What is known about the texts of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The shape. For a text that was not read at all (too long, too deep, not UTF-8) it is still its own.
    pub shape: Shape,
    /// As what a replica's refusal is remembered.
    pub route: Route,
    /// What the text says; for a misrouted shape with what a replica has taught.
    pub facts: Rc<Facts>,
    /// The parser, and the catalog if it was asked, proved it read-only.
    proven: bool,
}

impl Known {
    fn new(route: Route, facts: Rc<Facts>, proven: bool, misrouted: bool) -> Self {
        let known = Self { shape: route.shape, route, facts, proven };
        let primary = if misrouted { Some(PrimaryReason::UnknownFunction) } else { None };
        if proven && known.facts.primary != primary {
            let facts = Facts { proven_read_only: !misrouted, primary, ..(*known.facts).clone() };
            return Self { facts: Rc::new(facts), ..known };
        }
        known
    }

    /// The facts without what a replica has taught.
    fn as_parsed(&self) -> Rc<Facts> {
        if self.is_misrouted() {
            Rc::new(Facts { proven_read_only: true, primary: None, ..(*self.facts).clone() })
        } else {
            Rc::clone(&self.facts)
        }
    }

    /// True if the facts alone would allow a replica, but a replica has refused this shape before.
    pub fn is_misrouted(&self) -> bool {
        self.proven && !self.facts.proven_read_only
    }
}

/// How the facts were come by; the label `path` of `pgsluice_classify_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClassifyPath {
    /// Known already.
    Table,
    /// Parsed.
    Parse,
    /// Could not be read.
    Unparsable,
}

impl ClassifyPath {
    /// The metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            ClassifyPath::Table => "table",
            ClassifyPath::Parse => "parse",
            ClassifyPath::Unparsable => "unparsable",
        }
    }
}

/// The answer for one text.
#[derive(Clone, Debug)]
pub struct Classified {
    /// Facts, shared with every text of the shape.
    pub known: Rc<Known>,
    /// Hints of this very text.
    pub hints: Hints,
    /// How the facts were come by.
    pub path: ClassifyPath,
    /// A name is not in the catalog that was asked.
    pub missing: bool,
}

/// A worker's memory of shapes. Bounded; a hit allocates nothing.
pub struct Classifier {
    key: ShapeKey,
    functions: Arc<Functions>,
    memory: Arc<Misroutes>,
    learned: u64,
    caps: Caps,
    scratch: Vec<u8>,
    shapes: Table<Entry>,
    /// Exact texts whose facts hang on their literals, or that could not be read.
    texts: Table<Rc<Known>>,
    /// Both in the light of a catalog, by shape and scope.
    resolved: Table<InScope>,
}

/// What is known of a shape in one scope.
struct InScope {
    /// [`Published::stamp`](super::catalog::Published::stamp) of the catalog that said so.
    stamp: u64,
    known: Rc<Known>,
    /// A name was not found, so the catalog is asked for again.
    missing: bool,
}

enum Entry {
    Facts(Rc<Known>),
    /// The facts depend on literals: ask `texts`, then the parser.
    NeedsLiterals,
}

/// Why a text is not looked at.
const TOO_LONG: &str = "longer than limits.parse";
/// A scratch buffer that a huge text has blown up is not kept.
const SCRATCH: usize = 64 * 1024;

impl Classifier {
    /// An empty memory. `key` must be the same in all workers, or `memory` would not mean the same to them.
    pub fn new(key: ShapeKey, functions: Arc<Functions>, memory: Arc<Misroutes>, caps: Caps) -> Self {
        Self {
            key,
            functions,
            memory,
            learned: 0,
            caps,
            scratch: Vec::new(),
            shapes: Table::new(caps.entries),
            texts: Table::new(caps.entries / 8),
            resolved: Table::new(caps.entries),
        }
    }

    /// What is known of built-in functions, and what was declared of others.
    pub fn functions(&self) -> &Arc<Functions> {
        &self.functions
    }

    /// What is known of a text that is longer than is parsed, without a look at it.
    pub fn unread(&self) -> Classified {
        let shape = self.key.exact(&[], StringRules::default());
        self.answer(shape, Facts::unparsable(TOO_LONG), Hints::default())
    }

    /// Other functions are declared: nothing that was known of a text holds any more.
    pub fn replace_functions(&mut self, functions: Arc<Functions>) {
        self.functions = functions;
        self.shapes = Table::new(self.caps.entries);
        self.texts = Table::new(self.caps.entries / 8);
        self.resolved = Table::new(self.caps.entries);
    }

    /// Facts and hints of `text`: one Query string, or the text of one Parse, without the terminating zero. Names are taken for what
    /// they seem to be.
    pub fn classify(&mut self, text: &[u8], rules: StringRules) -> Classified {
        self.catch_up();
        match self.read(text, rules) {
            Ok(outline) => self.unresolved(text, rules, outline),
            Err(answer) => answer,
        }
    }

    /// The same with names looked up in a catalog.
    pub fn classify_in(&mut self, text: &[u8], rules: StringRules, scope: &Scope) -> Classified {
        self.catch_up();
        let outline = match self.read(text, rules) {
            Ok(outline) => outline,
            Err(answer) => return answer,
        };
        let stamp = scope.source().stamp();
        let mut key = scope.key(outline.shape);
        if let Some((known, missing)) = self.in_scope(key, scope, stamp) {
            return Classified { known, hints: outline.hints, path: ClassifyPath::Table, missing };
        }
        let answer = self.unresolved(text, rules, outline);
        if answer.known.facts.needs_literals || answer.path == ClassifyPath::Unparsable {
            // As without a catalog, that holds for this very text.
            key = scope.key(self.key.exact(text, rules));
            if let Some((known, missing)) = self.in_scope(key, scope, stamp) {
                return Classified { known, missing, ..answer };
            }
        }
        let (known, missing) = self.resolve(&answer.known, scope, stamp);
        if missing {
            scope.source().miss();
        }
        self.resolved.insert(key, InScope { stamp, known: Rc::clone(&known), missing });
        Classified { known, missing, ..answer }
    }

    /// What was found out already, and whether a name was missing.
    fn in_scope(&mut self, key: Shape, scope: &Scope, stamp: u64) -> Option<(Rc<Known>, bool)> {
        let entry = self.resolved.find(key).filter(|entry| entry.stamp == stamp)?;
        if entry.missing {
            scope.source().miss();
        }
        Some((Rc::clone(&entry.known), entry.missing))
    }

    /// What is known of a text where this is the catalog and the path, and whether a name is missing.
    fn resolve(&self, base: &Rc<Known>, scope: &Scope, stamp: u64) -> (Rc<Known>, bool) {
        let facts = base.as_parsed();
        let resolved = scope.judging(stamp, |now| {
            let route = Route { shape: base.shape, catalog: scope.source().id(), snapshot: now.snapshot };
            (route, resolve(&facts, &now.catalog, now.freshness, &self.functions, &mut now.memory))
        });
        let Some((route, resolved)) = resolved else { return (Rc::clone(base), false) };
        if resolved.facts.is_none() && !base.proven {
            return (Rc::clone(base), resolved.missing);
        }
        let facts = resolved.facts.map_or(facts, Rc::new);
        (Rc::new(self.judge(route, facts)), resolved.missing)
    }

    /// One pass over the text. The answer, if it is not to be read.
    fn read(&mut self, text: &[u8], rules: StringRules) -> Result<Outline, Classified> {
        if text.len() > self.caps.parse {
            let facts = Facts::unparsable(TOO_LONG);
            return Err(self.answer(self.key.exact(text, rules), facts, Hints::default()));
        }
        let outline = shape::outline(text, rules, &self.key, &mut self.scratch);
        if self.scratch.capacity() > SCRATCH {
            self.scratch = Vec::new();
        }
        let misread = match rules.encoding {
            Encoding::HidesAscii if !text.is_ascii() => {
                Some("client_encoding in which ASCII may be half of a character")
            }
            Encoding::KeepsAscii if !text.is_ascii() && !shape::names_are_ascii(text, rules) => {
                Some("names outside of ASCII while client_encoding is not UTF8")
            }
            _ if outline.misread => Some("backslash in a string while standard_conforming_strings is off"),
            Encoding::Utf8 | Encoding::KeepsAscii | Encoding::HidesAscii => None,
        };
        if let Some(why) = misread {
            let facts = Facts::unparsable(why);
            return Err(self.answer(self.key.exact(text, rules), facts, outline.hints));
        }
        Ok(outline)
    }

    fn unresolved(&mut self, text: &[u8], rules: StringRules, outline: Outline) -> Classified {
        if let Some(Entry::Facts(known)) = self.shapes.find(outline.shape) {
            return Classified {
                known: Rc::clone(known),
                hints: outline.hints,
                path: ClassifyPath::Table,
                missing: false,
            };
        }
        let exact = self.key.exact(text, rules);
        if let Some(known) = self.texts.find(exact) {
            return Classified {
                known: Rc::clone(known),
                hints: outline.hints,
                path: ClassifyPath::Table,
                missing: false,
            };
        }
        let facts = self.parse(text, rules);
        let answer = self.answer(outline.shape, facts, outline.hints);
        // Whether a text can be parsed may depend on its literals as well (`float(60)`, `U&'\x'`).
        if answer.known.facts.needs_literals || answer.path == ClassifyPath::Unparsable {
            self.texts.insert(exact, Rc::clone(&answer.known));
            if answer.known.facts.needs_literals {
                self.shapes.insert(outline.shape, Entry::NeedsLiterals);
            }
        } else {
            self.shapes.insert(outline.shape, Entry::Facts(Rc::clone(&answer.known)));
        }
        answer
    }

    /// Values that are not UTF-8 are of no concern to a text's facts, unless those hang on them.
    fn parse(&self, text: &[u8], rules: StringRules) -> Facts {
        if rules.encoding != Encoding::KeepsAscii || text.is_ascii() {
            return parse::facts(text, &self.functions);
        }
        let legible: Vec<u8> = text.iter().map(|byte| if byte.is_ascii() { *byte } else { b'?' }).collect();
        let facts = parse::facts(&legible, &self.functions);
        if !facts.needs_literals {
            return facts;
        }
        const WHY: &str = "values outside of ASCII that decide what it does, while client_encoding is not UTF8";
        Facts { needs_literals: true, ..Facts::unparsable(WHY) }
    }

    /// For facts that a session keeps (a prepared statement): the same, unless a replica has refused them since.
    pub fn refresh(&mut self, known: &Rc<Known>) -> Rc<Known> {
        self.catch_up();
        if !known.proven || known.is_misrouted() == self.memory_holds(known.route) {
            return Rc::clone(known);
        }
        Rc::new(
            self.judge(known.route, Rc::new(Facts { proven_read_only: true, primary: None, ..(*known.facts).clone() })),
        )
    }

    /// Applies what any worker has learned since the last text.
    fn catch_up(&mut self) {
        let generation = self.memory.generation();
        if generation == self.learned {
            return;
        }
        self.learned = generation;
        let memory = &self.memory;
        let kept = self.shapes.values_mut().filter_map(|entry| match entry {
            Entry::Facts(known) => Some(known),
            Entry::NeedsLiterals => None,
        });
        let resolved = self.resolved.values_mut().map(|entry| &mut entry.known);
        for known in kept.chain(self.texts.values_mut()).chain(resolved).filter(|known| known.proven) {
            let misrouted = memory.contains(known.route);
            if misrouted != known.is_misrouted() {
                *known = Rc::new(Known::new(known.route, known.facts.clone(), true, misrouted));
            }
        }
    }

    fn answer(&self, shape: Shape, facts: Facts, hints: Hints) -> Classified {
        let path = if facts.error.is_some() { ClassifyPath::Unparsable } else { ClassifyPath::Parse };
        Classified { known: Rc::new(self.judge(Route::of(shape), Rc::new(facts))), hints, path, missing: false }
    }

    fn judge(&self, route: Route, facts: Rc<Facts>) -> Known {
        let proven = facts.proven_read_only;
        Known::new(route, facts, proven, proven && self.memory_holds(route))
    }

    /// Nothing learned is the common case and costs no lock.
    fn memory_holds(&self, route: Route) -> bool {
        self.learned != 0 && self.memory.contains(route)
    }
}

#[cfg(test)]
mod tests;
