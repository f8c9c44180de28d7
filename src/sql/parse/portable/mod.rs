//! A parser in Rust alone (sqlparser). It is not PostgreSQL's: it takes texts that PostgreSQL refuses, and refuses some that
//! PostgreSQL takes.
//!
//! So a text is proven to be a read only if its tree says so and its tokens do not contradict: the lexer, which is PostgreSQL's,
//! looks for every word that could change or lock something, every call, every name of a system relation (`tokens`). Whatever is
//! not understood has an act of an unknown kind, and may do anything to the session. This door must never say less than the other.

mod clauses;
mod statement;
mod target;
mod tokens;
mod tree;
mod truth;

use std::collections::BTreeSet;

use sqlparser::{
    ast::{Statement, Visit},
    dialect::PostgreSqlDialect,
    parser::Parser,
};

use super::guard::guarded;
use crate::sql::{
    facts::{Act, Effect, Facts, Kind, Marks, Name, PrimaryReason, Verb},
    functions::{FunctionClass, Functions},
    lexer::{StringRules, TokenKind, Tokens},
    mentions::{Field, Mentions},
};
use tokens::Script;
use tree::Reader;

/// Facts of `text`, read with `standard_conforming_strings` on.
pub(in crate::sql) fn facts(text: &[u8], functions: &Functions) -> Facts {
    let read = guarded(text, |text| {
        let script = Script::new(text);
        // Depth was bounded before.
        let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(RECURSION).try_with_sql(text);
        match parser.and_then(|mut parser| parser.parse_statements()) {
            Ok(statements) if statements.len() == script.statements() => {
                mentioning(text, gathered(&statements, &script, functions))
            }
            Ok(_) => Facts::unparsable("statements cannot be told from each other"),
            Err(error) => Facts::unparsable(error.to_string()),
        }
    });
    read.unwrap_or_else(Facts::unparsable)
}

/// With every word as the type that something may be cast to, and as the function of a row that it may be.
fn mentioning(text: &str, facts: Facts) -> Facts {
    let opaque = facts.effects.contains(&Effect::OpaqueCode);
    let mut mentions = Mentions { primary: facts.primary, opaque, ..Mentions::default() };
    if facts.primary.is_none() {
        let (mut operators, mut types, mut fields) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut before = ["", ""];
        for token in Tokens::new(text.as_bytes(), StringRules::default()) {
            let word = text.get(token.start..token.end).unwrap_or_default();
            let name = |name: String| Name { schema: None, name: name.into() };
            match token.kind {
                TokenKind::Operator => {
                    operators.insert(name(word.to_owned()));
                }
                TokenKind::Word | TokenKind::QuotedName => {
                    let word = match token.kind {
                        TokenKind::Word => word.to_lowercase(),
                        _ => word.trim_matches('"').replace("\"\"", "\""),
                    };
                    fields.insert(Field::of(&word));
                    if matches!(before, [")" | "]", "."]) {
                        fields.insert(Field::behind_value(&word));
                    }
                    types.insert(name(word));
                }
                TokenKind::BlockComment | TokenKind::LineComment => continue,
                _ => {}
            }
            before = [before[1], text.get(token.start..token.end).unwrap_or_default()];
        }
        mentions.operators = operators.into_iter().collect();
        mentions.types = types.into_iter().collect();
        mentions.fields = fields.into_iter().collect();
    }
    Facts { mentions, ..facts }
}

const RECURSION: usize = 400;
/// Stands for a parameter whose name is not worked out.
const ANY: &str = "*";

fn gathered(statements: &[Statement], script: &Script<'_>, functions: &Functions) -> Facts {
    let mut facts = Facts::empty();
    let mut found = Found::default();
    for (i, statement) in statements.iter().enumerate() {
        let (verb, kind) = found.statement(statement, script, i);
        if i == 0 {
            facts.verb = verb;
        }
        facts.kind = facts.kind.and(kind);
        facts.statements += 1;
    }
    let doubts = script.doubts(functions);
    if let Some(reason) = doubts.reason {
        found.must(reason);
    }
    if doubts.opaque {
        found.effects.push(Effect::OpaqueCode);
    }
    if doubts.calls.iter().any(|call| &*call.name == "set_config") {
        found.acts.iter_mut().for_each(|act| act.parameters = [ANY.into()].into());
    }
    if doubts.calls.iter().any(|call| functions.class(&call.name) == Some(FunctionClass::Writes)) {
        found.acts.iter_mut().for_each(|act| act.marks |= Marks::WRITES);
    }
    if facts.statements > 0 && found.primary.is_some() && facts.kind == Kind::Empty {
        facts.kind = Kind::Unknown;
    }
    Facts {
        proven_read_only: found.primary.is_none(),
        primary: found.primary,
        reads: found.reads.into_iter().collect(),
        writes: found.writes.into_iter().collect(),
        functions: doubts.calls.into_iter().collect(),
        notations: doubts.notations.into_iter().collect(),
        tx: found.tx.into(),
        effects: found.effects.into(),
        acts: found.acts.into(),
        ..facts
    }
}

/// What is gathered over all statements of a text.
#[derive(Default)]
struct Found {
    reads: std::collections::BTreeSet<crate::sql::facts::Name>,
    writes: std::collections::BTreeSet<crate::sql::facts::Name>,
    tx: Vec<crate::sql::facts::TxVerb>,
    effects: Vec<Effect>,
    acts: Vec<Act>,
    primary: Option<PrimaryReason>,
}

impl Found {
    /// The gravest reason is kept.
    fn must(&mut self, reason: PrimaryReason) {
        self.primary = Some(self.primary.map_or(reason, |known| known.min(reason)));
    }

    /// It may do anything.
    fn opaque(&mut self, reason: PrimaryReason) {
        self.must(reason);
        if self.effects.last() != Some(&Effect::OpaqueCode) {
            self.effects.push(Effect::OpaqueCode);
        }
    }

    /// Relations and acts of a query or a change of data.
    fn walk(&mut self, statement: &Statement) {
        let mut reader = Reader::new(self);
        let _ = statement.visit(&mut reader);
        reader.finish();
    }

    fn act(&mut self, verb: Verb) -> &mut Act {
        self.acts.push(Act::of(verb));
        let last = self.acts.len() - 1;
        &mut self.acts[last]
    }
}
