//! PostgreSQL's grammar as pg_query has it, and the walk over its trees.
//!
//! The parser is C and recursive: nothing reaches it that is deeper than it can bear, and a panic stops at this door.
//! What is not understood is not a read.

mod acts;
mod agree;
mod block;
mod children;
mod copy;
mod crossing;
mod edited;
mod objects;
mod places;
mod settings;
mod statement;
mod strangers;
mod target;
mod truth;
mod walk;

use pg_query::{FingerprintOptions, ParserOptions};

use super::{depth, guard::guarded, relations};
use crate::sql::{facts::Facts, fingerprint::Fingerprint, functions::Functions};
use walk::Walk;

pub use edited::{can_edit, condition, edited, places};

/// Facts of `text`, read with `standard_conforming_strings` on.
pub(in crate::sql) fn facts(text: &[u8], functions: &Functions) -> Facts {
    let read = guarded(text, |text| match pg_query::parse(text, ParserOptions::DEFAULT) {
        Ok(tree) => walked(text, &tree.protobuf, functions),
        Err(error) => Facts::unparsable(error.to_string()),
    });
    read.unwrap_or_else(Facts::unparsable)
}

/// pg_query's stable, public id of a statement's form; `None` if the text cannot be parsed.
pub fn fingerprint(text: &[u8]) -> Option<Fingerprint> {
    let print = guarded(text, |text| pg_query::fingerprint(text, ParserOptions::DEFAULT, FingerprintOptions::DEFAULT));
    Some(Fingerprint(print.ok()?.ok()?.value))
}

/// The text with `$n` in place of its literals, numbered on from its own parameters; `None` if it cannot be parsed.
pub fn normalize(text: &[u8]) -> Option<String> {
    guarded(text, pg_query::normalize).ok()?.ok()
}

fn walked(text: &str, tree: &pg_query::protobuf::ParseResult, functions: &Functions) -> Facts {
    let mut walk = Walk::new(functions);
    let mut facts = Facts::empty();
    for raw in &tree.stmts {
        let Some(node) = raw.stmt.as_ref().and_then(|s| s.node.as_ref()) else {
            return Facts::unparsable("a statement without content");
        };
        let from = usize::try_from(raw.stmt_location).unwrap_or_default();
        let (verb, kind) = walk.statement(node.to_ref(), text.as_bytes().get(from..).unwrap_or_default());
        if facts.statements == 0 {
            facts.verb = verb;
        }
        facts.kind = facts.kind.and(kind);
        facts.statements += 1;
    }
    walk.finish(facts)
}

#[cfg(test)]
mod tests;
