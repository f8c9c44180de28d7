//! What can be seen of a DO block or the body of a function: statements in it that can be read by themselves, constant texts it
//! executes, and calls of built-in functions that take advisory locks.
//!
//! PL/pgSQL's own grammar is not asked: it is C that was not made for texts from strangers. So this finds what a policy is meant to
//! find and proves nothing: the block remains code that nobody can see into.

use pg_query::{
    Node, NodeEnum, ParserOptions,
    protobuf::{CreateFunctionStmt, DoStmt},
};

use super::{
    depth,
    depth::Depth,
    settings,
    walk::{Names, Walk},
};
use crate::sql::{
    facts::{Act, Effect},
    functions::{FunctionClass, Functions},
    lexer::{StringRules, Token, TokenKind, Tokens},
};

/// A longer body is not read.
const LONGEST: usize = 64 * 1024;
/// Most pieces of a body that are read.
const MOST: usize = 500;
/// Words behind which a statement begins.
const OPENERS: [&[u8]; 4] = [b"begin", b"then", b"else", b"loop"];

/// What was found in a body.
#[derive(Default)]
pub(super) struct Seen {
    /// Effects on the session that it may have.
    pub(super) effects: Vec<Effect>,
    /// What its statements do.
    pub(super) acts: Vec<Act>,
    /// What its statements name.
    pub(super) names: Names,
}

/// What can be seen of a DO block.
pub(super) fn of_do(block: &DoStmt, functions: &Functions) -> Seen {
    let mut seen = Seen::default();
    let (language, body) = parts(&block.args);
    if language.is_none_or(|language| language.eq_ignore_ascii_case("plpgsql")) {
        seen.block(&body.unwrap_or_default(), functions);
    }
    seen
}

/// What can be seen of a function whose body is a literal; `None`: nothing.
pub(super) fn of_function(function: &CreateFunctionStmt, functions: &Functions) -> Option<Seen> {
    let (language, body) = parts(&function.options);
    let (language, body) = (language?, body.filter(|body| body.len() <= LONGEST)?);
    let mut seen = Seen::default();
    if language.eq_ignore_ascii_case("sql") {
        seen.parsed(&body, Walk::new(functions));
    } else if language.eq_ignore_ascii_case("plpgsql") {
        seen.block(&body, functions);
    }
    Some(seen)
}

/// Is its body, or the name of its symbol, a literal?
pub(super) fn has_body(function: &CreateFunctionStmt) -> bool {
    settings::has(&function.options, "as")
}

/// LANGUAGE and AS.
fn parts(options: &[Node]) -> (Option<String>, Option<String>) {
    let option = |name: &str| options.iter().filter_map(settings::option).find(|o| o.defname == name)?.arg.as_deref();
    let body = option("as").and_then(|body| match body.node.as_ref() {
        // A second text would be the name of a symbol in a library.
        Some(NodeEnum::List(list)) if list.items.len() == 1 => list.items.first().and_then(settings::constant),
        _ => settings::constant(body),
    });
    (option("language").and_then(settings::constant), body)
}

impl Seen {
    /// A block of PL/pgSQL.
    fn block(&mut self, body: &str, functions: &Functions) {
        if body.len() <= LONGEST {
            for piece in pieces(body.as_bytes()).take(MOST) {
                self.read(&piece, functions);
            }
        }
    }

    fn read(&mut self, piece: Piece<'_>, functions: &Functions) {
        let Some(&(first, _)) = piece.first() else { return };
        // It ends a block here, not a transaction.
        if first.eq_ignore_ascii_case(b"end") {
            return;
        }
        // EXECUTE of a constant.
        if let Some(inner) = executed(piece) {
            self.parsed(&inner, Walk::new(functions));
            return;
        }
        let whole = if first.eq_ignore_ascii_case(b"perform") {
            written("select", after(piece, 1))
        } else {
            written("", piece)
        };
        let is_read = self.parsed(&whole, Walk::in_block(functions))
            || statement_in(piece).is_some_and(|text| self.parsed(&text, Walk::in_block(functions)));
        if is_read {
            return;
        }
        // An expression is no act, but names what it names.
        if let Some(expression) = expression_in(piece) {
            let mut seen = Self::default();
            seen.parsed(&written("select", expression), Walk::in_block(functions));
            self.names.add(seen.names);
            self.acts.extend(seen.acts.into_iter().filter(|act| !act.parameters.is_empty()));
        }
        self.effects.extend(locks(piece, functions));
    }

    /// Takes in what a text does; false if it cannot be read.
    fn parsed(&mut self, text: &str, mut walk: Walk<'_>) -> bool {
        if depth::of(text.as_bytes()) != Depth::Shallow {
            return false;
        }
        let Ok(tree) = pg_query::parse(text, ParserOptions::DEFAULT) else { return false };
        for node in tree.protobuf.stmts.iter().filter_map(|raw| raw.stmt.as_ref()?.node.as_ref()) {
            // One inside the other would only be a way to make this deep.
            if !matches!(node, NodeEnum::DoStmt(_) | NodeEnum::CreateFunctionStmt(_)) {
                walk.statement(node.to_ref(), b"");
            }
        }
        let (effects, acts, names) = walk.into_seen();
        self.effects.extend(effects);
        self.acts.extend(acts);
        self.names.add(names);
        true
    }
}

fn written(before: &str, piece: Piece<'_>) -> String {
    let words = piece.iter().map(|(bytes, _)| std::str::from_utf8(bytes).unwrap_or_default());
    std::iter::once(before).chain(words).collect::<Vec<_>>().join(" ")
}

fn after(piece: Piece<'_>, words: usize) -> Piece<'_> {
    piece.get(words..).unwrap_or_default()
}

fn is_word(token: &(&[u8], TokenKind), words: &[&[u8]]) -> bool {
    token.1 == TokenKind::Word && words.iter().any(|word| token.0.eq_ignore_ascii_case(word))
}

/// The constant that EXECUTE is given, in whatever quotes; INTO and USING may follow.
fn executed(piece: Piece<'_>) -> Option<String> {
    let (first, rest) = piece.split_first()?;
    let rest = match first {
        first if is_word(first, &[b"execute"]) => rest,
        // RETURN QUERY EXECUTE, FOR … IN EXECUTE, OPEN … FOR EXECUTE.
        first if is_word(first, &[b"return", b"for", b"open"]) => {
            let at = rest.iter().position(|token| is_word(token, &[b"execute"]))?;
            after(rest, at + 1)
        }
        _ => return None,
    };
    let (constant, behind) =
        rest.iter().enumerate().find(|(_, (bytes, _))| *bytes != b"(").map(|(i, token)| (token, after(rest, i + 1)))?;
    let whole =
        behind.iter().find(|(bytes, _)| *bytes != b")").is_none_or(|token| is_word(token, &[b"into", b"using"]));
    let text = std::str::from_utf8(constant.0).ok().filter(|_| whole && constant.1 == TokenKind::Text)?;
    if let Some(inner) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return Some(inner.replace("''", "'"));
    }
    let tag = text.strip_prefix('$')?.find('$')? + 2;
    text.get(tag..text.len().checked_sub(tag)?).map(str::to_owned)
}

/// The statement in RETURN QUERY, FOR … IN, OPEN … FOR, behind a label, or with the variables that RETURNING … INTO fills.
fn statement_in(piece: Piece<'_>) -> Option<String> {
    let from = piece.iter().position(|token| {
        is_word(token, &[b"select", b"insert", b"update", b"delete", b"merge", b"with", b"table", b"values"])
    })?;
    let statement = after(piece, from);
    let returning = statement.iter().position(|token| is_word(token, &[b"returning"])).unwrap_or(statement.len());
    let filled = after(statement, returning).iter().position(|token| is_word(token, &[b"into"]));
    let to = filled.map_or(statement.len(), |into| returning + into);
    Some(written("", statement.get(..to)?))
}

/// The expression of a condition, a RETURN, a message, or an assignment.
fn expression_in(piece: Piece<'_>) -> Option<Piece<'_>> {
    let first = piece.first()?;
    if is_word(first, &[b"return"]) && piece.get(1).is_some_and(|second| is_word(second, &[b"next"])) {
        return Some(after(piece, 2));
    }
    if is_word(first, &[b"raise", b"exit", b"continue"]) {
        let at = piece.iter().position(|token| token.0 == b"," || is_word(token, &[b"when"]))?;
        return Some(after(piece, at + 1));
    }
    if is_word(first, &[b"assert", b"if", b"elsif", b"elseif", b"while", b"return", b"when", b"case"]) {
        return Some(after(piece, 1));
    }
    let assigned = piece.iter().position(|token| matches!(token.0, b":=" | b"=") || is_word(token, &[b"default"]))?;
    Some(after(piece, assigned + 1))
}

/// A part of a body.
type Piece<'b> = &'b [(&'b [u8], TokenKind)];

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

/// Advisory locks in what is no statement by itself (an assignment, a condition).
fn locks(piece: Piece<'_>, functions: &Functions) -> Option<Effect> {
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
