//! What can be seen of a DO block: statements in its body that can be read by themselves, constant texts it executes, and calls of
//! built-in functions that take advisory locks.
//!
//! PL/pgSQL's own grammar is not asked: it is C that was not made for texts from strangers. So this finds what a policy is meant to
//! find and proves nothing: the block remains code that nobody can see into.

use pg_query::{
    NodeEnum, ParserOptions,
    protobuf::{self, DoStmt},
};

use super::{depth, depth::Depth, settings, walk::Walk};
use crate::sql::{
    facts::Effect,
    functions::{FunctionClass, Functions},
    lexer::{StringRules, Token, TokenKind, Tokens},
};

/// A longer body is not read.
const LONGEST: usize = 64 * 1024;
/// Most pieces of a body that are read.
const MOST: usize = 500;
/// Words behind which a statement begins.
const OPENERS: [&[u8]; 4] = [b"begin", b"then", b"else", b"loop"];

/// Effects on the session that the block may have.
pub(super) fn effects(block: &DoStmt, functions: &Functions) -> Vec<Effect> {
    let option = |name: &str| block.args.iter().filter_map(settings::option).find(|o| o.defname == name);
    let text = |option: &protobuf::DefElem| match option.arg.as_deref().and_then(|a| a.node.as_ref()) {
        Some(NodeEnum::String(s)) => Some(s.sval.clone()),
        _ => None,
    };
    if option("language").and_then(text).is_some_and(|language| !language.eq_ignore_ascii_case("plpgsql")) {
        return Vec::new();
    }
    let Some(body) = option("as").and_then(text).filter(|body| body.len() <= LONGEST) else { return Vec::new() };
    let mut found = Vec::new();
    for piece in pieces(body.as_bytes()).take(MOST) {
        read(piece, functions, &mut found);
    }
    found
}

/// The body cut at semicolons and behind the words that open a list of statements.
fn pieces(body: &[u8]) -> impl Iterator<Item = Vec<(&[u8], TokenKind)>> {
    let mut tokens = Tokens::new(body, StringRules::default()).filter(|token| !is_comment(token));
    std::iter::from_fn(move || {
        let mut piece = Vec::new();
        for token in tokens.by_ref() {
            let bytes = body.get(token.start..token.end).unwrap_or_default();
            let opens = token.kind == TokenKind::Word && OPENERS.iter().any(|word| bytes.eq_ignore_ascii_case(word));
            if opens || bytes == b";" {
                return Some(piece);
            }
            piece.push((bytes, token.kind));
        }
        (!piece.is_empty()).then_some(piece)
    })
}

fn is_comment(token: &Token) -> bool {
    matches!(token.kind, TokenKind::BlockComment | TokenKind::LineComment)
}

fn read(piece: Vec<(&[u8], TokenKind)>, functions: &Functions, found: &mut Vec<Effect>) {
    let Some(&(first, _)) = piece.first() else { return };
    // EXECUTE of a constant.
    if let [(word, TokenKind::Word), (constant, TokenKind::Text)] = *piece
        && word.eq_ignore_ascii_case(b"execute")
        && let Some(inner) = constant.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'"))
    {
        let inner = String::from_utf8_lossy(inner).replace("''", "'");
        found.extend(parsed(&inner, functions).unwrap_or_default());
        return;
    }
    let mut text = String::new();
    for (i, (bytes, _)) in piece.iter().enumerate() {
        let performs = i == 0 && first.eq_ignore_ascii_case(b"perform");
        text.push_str(if performs { "select" } else { std::str::from_utf8(bytes).unwrap_or_default() });
        text.push(' ');
    }
    match parsed(&text, functions) {
        Some(effects) => found.extend(effects),
        None => found.extend(locks(&piece, functions)),
    }
}

/// Effects of a text, if it can be read.
fn parsed(text: &str, functions: &Functions) -> Option<Vec<Effect>> {
    if depth::of(text.as_bytes()) != Depth::Shallow {
        return None;
    }
    let tree = pg_query::parse(text, ParserOptions::DEFAULT).ok()?;
    let mut walk = Walk::new(functions);
    for node in tree.protobuf.stmts.iter().filter_map(|raw| raw.stmt.as_ref()?.node.as_ref()) {
        // One inside the other would only be a way to make this deep.
        if !matches!(node, NodeEnum::DoStmt(_)) {
            walk.statement(node.to_ref(), b"");
        }
    }
    Some(walk.finish(crate::sql::facts::Facts::empty()).effects.into_vec())
}

/// Advisory locks in what is no statement by itself (an assignment, a condition).
fn locks(piece: &[(&[u8], TokenKind)], functions: &Functions) -> Option<Effect> {
    piece.windows(2).find_map(|pair| match *pair {
        [(name, TokenKind::Word), (b"(", _)] => {
            let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
            let takes = functions.class(&name) == Some(FunctionClass::Locks)
                && !name.contains("_xact_")
                && !name.contains("_unlock");
            takes.then_some(Effect::AdvisoryLock)
        }
        _ => None,
    })
}
