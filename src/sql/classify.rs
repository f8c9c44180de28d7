//! Facts for a text, from the table if its shape was seen before, else from the parser.

use std::{rc::Rc, sync::Arc};

use super::{
    facts::{Facts, PrimaryReason},
    functions::Functions,
    hints::Hints,
    lexer::{Encoding, StringRules},
    misroutes::Misroutes,
    parse,
    shape::{self, Shape, ShapeKey},
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
    /// What the text says; for a misrouted shape with what a replica has taught.
    pub facts: Facts,
    /// The parser alone proved it read-only.
    proven: bool,
}

impl Known {
    fn new(shape: Shape, facts: Facts, proven: bool, misrouted: bool) -> Self {
        let primary = if misrouted { Some(PrimaryReason::UnknownFunction) } else { facts.primary };
        let primary = if proven && !misrouted { None } else { primary };
        Self { shape, facts: Facts { proven_read_only: proven && !misrouted, primary, ..facts }, proven }
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
}

enum Entry {
    Facts(Rc<Known>),
    /// The facts depend on literals: ask `texts`, then the parser.
    NeedsLiterals,
}

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
        }
    }

    /// What is known of built-in functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Facts and hints of `text`: one Query string, or the text of one Parse, without the terminating zero.
    pub fn classify(&mut self, text: &[u8], rules: StringRules) -> Classified {
        self.catch_up();
        if text.len() > self.caps.parse {
            let facts = Facts::unparsable("longer than limits.parse");
            return self.answer(self.key.exact(text, rules), facts, Hints::default());
        }
        let outline = shape::outline(text, rules, &self.key, &mut self.scratch);
        if self.scratch.capacity() > SCRATCH {
            self.scratch = Vec::new();
        }
        let misread = match rules.encoding {
            Encoding::HidesAscii if !text.is_ascii() => {
                Some("client_encoding in which ASCII may be half of a character")
            }
            _ if outline.misread => Some("backslash in a string while standard_conforming_strings is off"),
            Encoding::Plain | Encoding::HidesAscii => None,
        };
        if let Some(why) = misread {
            let facts = Facts::unparsable(why);
            return self.answer(self.key.exact(text, rules), facts, outline.hints);
        }
        if let Some(Entry::Facts(known)) = self.shapes.find(outline.shape) {
            return Classified { known: Rc::clone(known), hints: outline.hints, path: ClassifyPath::Table };
        }
        let exact = self.key.exact(text, rules);
        if let Some(known) = self.texts.find(exact) {
            return Classified { known: Rc::clone(known), hints: outline.hints, path: ClassifyPath::Table };
        }
        let facts = parse::facts(text, &self.functions);
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

    /// For facts that a session keeps (a prepared statement): the same, unless a replica has refused them since.
    pub fn refresh(&mut self, known: &Rc<Known>) -> Rc<Known> {
        self.catch_up();
        if !known.proven || known.is_misrouted() == self.memory_holds(known.shape) {
            return Rc::clone(known);
        }
        Rc::new(self.judge(known.shape, Facts { proven_read_only: true, primary: None, ..known.facts.clone() }))
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
        for known in kept.chain(self.texts.values_mut()).filter(|known| known.proven) {
            let misrouted = memory.contains(known.shape);
            if misrouted != known.is_misrouted() {
                *known = Rc::new(Known::new(known.shape, known.facts.clone(), true, misrouted));
            }
        }
    }

    fn answer(&self, shape: Shape, facts: Facts, hints: Hints) -> Classified {
        let path = if facts.error.is_some() { ClassifyPath::Unparsable } else { ClassifyPath::Parse };
        Classified { known: Rc::new(self.judge(shape, facts)), hints, path }
    }

    fn judge(&self, shape: Shape, facts: Facts) -> Known {
        let proven = facts.proven_read_only;
        Known::new(shape, facts, proven, proven && self.memory_holds(shape))
    }

    /// Nothing learned is the common case and costs no lock.
    fn memory_holds(&self, shape: Shape) -> bool {
        self.learned != 0 && self.memory.contains(shape)
    }
}

#[cfg(test)]
mod tests;
