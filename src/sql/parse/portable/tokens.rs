//! What the tokens say, whatever the tree says.

use std::collections::BTreeSet;

use crate::sql::{
    facts::{Name, PrimaryReason},
    functions::{FunctionClass, Functions},
    lexer::{StringRules, Token, TokenKind, Tokens},
    parse::relations::{self, RelationClass},
};

pub(super) struct Script<'t> {
    text: &'t str,
    tokens: Vec<Token>,
}

/// Words without which no query changes or locks anything.
const CHANGES: [&str; 6] = ["insert", "update", "delete", "merge", "into", "share"];

/// Words that a bracket may follow and that call nothing.
const SYNTAX: [&str; 48] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "between",
    "by",
    "case",
    "cast",
    "coalesce",
    "cube",
    "distinct",
    "else",
    "escape",
    "except",
    "exists",
    "filter",
    "from",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "intersect",
    "is",
    "join",
    "lateral",
    "least",
    "like",
    "limit",
    "materialized",
    "not",
    "nullif",
    "offset",
    "on",
    "or",
    "over",
    "rollup",
    "row",
    "select",
    "sets",
    "some",
    "then",
    "union",
    "using",
    "values",
    "where",
];

/// Columns by which a sequence is read as a table.
const SEQUENCE: [&str; 3] = ["last_value", "log_cnt", "is_called"];

impl<'t> Script<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let comment = |kind| matches!(kind, TokenKind::BlockComment | TokenKind::LineComment);
        let tokens = Tokens::new(text.as_bytes(), StringRules::default()).filter(|t| !comment(t.kind)).collect();
        Self { text, tokens }
    }

    fn bytes(&self, token: usize) -> &'t str {
        self.tokens.get(token).and_then(|t| self.text.get(t.start..t.end)).unwrap_or_default()
    }

    fn kind(&self, token: usize) -> Option<TokenKind> {
        self.tokens.get(token).map(|token| token.kind)
    }

    /// Statements between semicolons, brackets or not: a body with semicolons in it is not understood.
    pub(super) fn statements(&self) -> usize {
        self.parts().count()
    }

    fn parts(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let mut start = 0;
        let ends = (0..=self.tokens.len()).filter(|at| *at == self.tokens.len() || self.bytes(*at) == ";");
        ends.filter_map(move |end| {
            let part = start..end;
            start = end + 1;
            (!part.is_empty()).then_some(part)
        })
    }

    /// The first words of a statement, in lower case; brackets are left out.
    pub(super) fn words(&self, statement: usize) -> Vec<String> {
        let part = self.parts().nth(statement).unwrap_or_default();
        let words = part.filter(|at| self.bytes(*at) != "(");
        words.take(6).map(|at| self.bytes(at).to_ascii_lowercase()).collect()
    }

    /// Functions called, and why the text might be no read.
    pub(super) fn doubts(&self, functions: &Functions) -> Doubts {
        let mut doubts = Doubts { calls: BTreeSet::new(), notations: BTreeSet::new(), reason: None, opaque: false };
        for at in 0..self.tokens.len() {
            let bytes = self.bytes(at);
            match self.kind(at) {
                Some(TokenKind::Word) => {
                    let word = bytes.to_ascii_lowercase();
                    if CHANGES.contains(&&*word) {
                        doubts.add(PrimaryReason::Writes);
                    }
                    self.name(at, &word, functions, &mut doubts);
                }
                Some(TokenKind::QuotedName) => {
                    self.name(at, &bytes.trim_matches('"').replace("\"\"", "\""), functions, &mut doubts);
                }
                // What it names is not worked out here.
                Some(TokenKind::UnicodeName | TokenKind::Unterminated) => doubts.add(PrimaryReason::UnknownRelation),
                _ => {}
            }
        }
        doubts
    }

    fn name(&self, at: usize, name: &str, functions: &Functions, doubts: &mut Doubts) {
        if SEQUENCE.contains(&name) {
            doubts.add(PrimaryReason::UnknownRelation);
        }
        if relations::is_temporary(name) {
            doubts.add(PrimaryReason::SessionState);
        }
        if self.is_behind_value(at) && functions.class(name).is_none() {
            doubts.notations.insert(Name { schema: None, name: name.into() });
        }
        if self.bytes(at + 1) == "(" {
            self.call(at, name, functions, doubts);
        } else if self.is_behind_value(at) && functions.class(name).is_some() {
            self.built_in(name, functions.class(name), doubts);
            doubts.calls.insert(Name { schema: None, name: name.into() });
        } else if name.starts_with("pg_") && name != "pg_catalog" && !self.is_type(at) {
            match relations::classify("", name) {
                RelationClass::Plain => {}
                RelationClass::NodeLocal => doubts.add(PrimaryReason::NodeLocal),
                RelationClass::Session | RelationClass::Temporary => doubts.add(PrimaryReason::SessionState),
                RelationClass::Unknown => doubts.add(PrimaryReason::UnknownRelation),
            }
        }
    }

    fn before(&self, at: usize) -> &'t str {
        at.checked_sub(1).map_or("", |before| self.bytes(before))
    }

    fn is_type(&self, at: usize) -> bool {
        self.before(at) == "::"
    }

    /// `(…).f`, `a[1].f`: a function of the value, perhaps.
    fn is_behind_value(&self, at: usize) -> bool {
        self.before(at) == "." && at.checked_sub(2).is_some_and(|at| matches!(self.bytes(at), ")" | "]"))
    }

    fn call(&self, at: usize, name: &str, functions: &Functions, doubts: &mut Doubts) {
        let qualified = self.before(at) == ".";
        let plain = self.kind(at) == Some(TokenKind::Word) && !qualified;
        // An alias with columns, a type with a length, a word of the grammar.
        if plain && (self.before(at).eq_ignore_ascii_case("as") || self.is_type(at) || SYNTAX.contains(&name)) {
            return;
        }
        if plain && self.before(at).eq_ignore_ascii_case("tablesample") && matches!(name, "system" | "bernoulli") {
            return;
        }
        let schema = if qualified { at.checked_sub(2).map_or("", |before| self.bytes(before)) } else { "" };
        let built_in = schema.is_empty() || schema.eq_ignore_ascii_case("pg_catalog");
        let class = functions.class(name).filter(|_| built_in);
        let schema = (!built_in).then(|| schema.trim_matches('"').to_ascii_lowercase().into());
        doubts.calls.insert(Name { schema, name: name.into() });
        self.built_in(name, class, doubts);
    }

    /// What a call of a built-in function may do; `None`: of another one.
    fn built_in(&self, name: &str, class: Option<FunctionClass>, doubts: &mut Doubts) {
        match class {
            // Of which parameter hangs on a literal.
            Some(FunctionClass::Read) if name == "current_setting" => doubts.add(PrimaryReason::NodeLocal),
            Some(FunctionClass::Read) => {}
            Some(FunctionClass::Writes | FunctionClass::Locks) => doubts.add(PrimaryReason::VolatileFunction),
            Some(FunctionClass::NodeLocal) => doubts.add(PrimaryReason::NodeLocal),
            // What exactly they do to the session is not worked out here.
            Some(FunctionClass::Session | FunctionClass::SessionValue | FunctionClass::Opaque) | None => {
                doubts.add(PrimaryReason::UnknownFunction);
            }
        }
    }
}

/// What the tokens make doubtful.
pub(super) struct Doubts {
    /// Functions called.
    pub(super) calls: BTreeSet<Name>,
    /// Names behind a value that may be functions.
    pub(super) notations: BTreeSet<Name>,
    /// The gravest reason why the text might be no read.
    pub(super) reason: Option<PrimaryReason>,
    /// It may do to the session what is not worked out here.
    pub(super) opaque: bool,
}

impl Doubts {
    fn add(&mut self, reason: PrimaryReason) {
        self.opaque |= matches!(
            reason,
            PrimaryReason::UnknownFunction | PrimaryReason::VolatileFunction | PrimaryReason::SessionState
        );
        self.reason = Some(self.reason.map_or(reason, |known| known.min(reason)));
    }
}
