//! PostgreSQL's grammar as pg_query has it, and the walk over its trees.
//!
//! The parser is C and recursive: nothing reaches it that is deeper than it can bear, and a panic stops at this door.
//! What is not understood is not a read.

mod acts;
mod agree;
mod block;
mod children;
mod crossing;
mod depth;
mod edited;
mod objects;
mod places;
mod relations;
mod settings;
mod statement;
mod truth;
mod walk;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, ScopedJoinHandle},
};

use pg_query::{FingerprintOptions, ParserOptions};

use crate::sql::{
    facts::{Facts, Kind},
    fingerprint::Fingerprint,
    functions::Functions,
};
use depth::{DEEP_STACK, Depth};
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

/// Lets `work` have the text, if the parser may see it, on a stack that is large enough. A panic ends here.
fn guarded<T: Send>(text: &[u8], work: impl FnOnce(&str) -> T + Send) -> Result<T, &'static str> {
    if memchr::memchr(0, text).is_some() {
        return Err("zero byte in the text");
    }
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8")?;
    let ended = match depth::of(text.as_bytes()) {
        Depth::TooDeep => return Err("nested too deep"),
        Depth::Shallow => catch_unwind(AssertUnwindSafe(|| work(text))),
        // Rare enough to afford a thread; its panic comes out of join.
        Depth::Deep => thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(DEEP_STACK);
            thread.spawn_scoped(scope, || work(text)).map(ScopedJoinHandle::join)
        })
        .map_err(|_| "no thread for a deep statement")?,
    };
    ended.map_err(|_| "the parser gave up")
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
