//! The only place that names the parser: PostgreSQL's own grammar (pg_query), and the walk over its trees.
//!
//! The parser is C and recursive: nothing reaches it that is deeper than it can bear, and a panic stops at this door.
//! What is not understood is not a read.

mod children;
mod depth;
mod settings;
mod statement;
mod walk;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{
    facts::{Facts, Kind},
    functions::Functions,
};
use walk::Walk;

/// Facts of `text`, read with `standard_conforming_strings` on.
pub(super) fn facts(text: &[u8], functions: &Functions) -> Facts {
    let text = match readable(text) {
        Ok(text) => text,
        Err(why) => return Facts::unparsable(why),
    };
    let read = catch_unwind(AssertUnwindSafe(|| match pg_query::parse(text, pg_query::ParserOptions::DEFAULT) {
        Ok(tree) => walked(text, &tree.protobuf, functions),
        Err(error) => Facts::unparsable(error.to_string()),
    }));
    read.unwrap_or_else(|_| Facts::unparsable("the parser gave up"))
}

/// pg_query's stable, public id of a statement's form, as 16 hexadecimal digits; `None` if the text cannot be parsed.
/// Never a key of anything: it can be computed, and collided with, by anybody.
pub fn fingerprint(text: &[u8]) -> Option<Box<str>> {
    let text = readable(text).ok()?;
    let print = catch_unwind(AssertUnwindSafe(|| {
        pg_query::fingerprint(text, pg_query::ParserOptions::DEFAULT, pg_query::FingerprintOptions::DEFAULT)
    }))
    .ok()?
    .ok()?;
    Some(print.hex.into())
}

/// The text, if the parser may see it at all.
fn readable(text: &[u8]) -> Result<&str, &'static str> {
    if memchr::memchr(0, text).is_some() {
        return Err("zero byte in the text");
    }
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8")?;
    if depth::is_too_deep(text.as_bytes()) { Err("nested too deep") } else { Ok(text) }
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
        facts.kind = strictest(facts.kind, kind);
        facts.statements += 1;
    }
    walk.finish(facts)
}

/// Of two kinds the one that binds more.
fn strictest(a: Kind, b: Kind) -> Kind {
    let rank = |kind| match kind {
        Kind::Empty => 0,
        Kind::Read => 1,
        Kind::Copy => 2,
        Kind::Session => 3,
        Kind::Transaction => 4,
        Kind::Utility => 5,
        Kind::Write => 6,
        Kind::Ddl => 7,
        Kind::Unknown => 8,
    };
    if rank(b) > rank(a) { b } else { a }
}

#[cfg(test)]
mod tests;
