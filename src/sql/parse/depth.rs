//! How deep a text's tree can get, guessed from its tokens and never too low.

use crate::sql::lexer::{StringRules, TokenKind, Tokens};

/// Trees up to here are parsed on the caller's stack, of 2 MiB or more. Decoding takes the most of it: one level here can
/// be three nodes (`(select (select …`), each of 14 KiB, or 40 KiB if the compiler does not optimise (measured).
const SHALLOW: u32 = if cfg!(debug_assertions) { 10 } else { 25 };

/// Trees up to here are parsed on a stack of their own, of [`DEEP_STACK`] bytes; deeper ones not at all.
const MAX_DEPTH: u32 = 300;

/// Room for [`MAX_DEPTH`] levels, without optimisation too (`parse::grammar::tests` tries). Pages not used cost nothing.
pub(super) const DEEP_STACK: usize = 64 << 20;

/// What a text asks of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    Shallow,
    Deep,
    TooDeep,
}

/// How deep the tree of `text` could be.
///
/// Between two brackets a tree grows by chains (`a + b + c`, `- - a`, `a::int::int`), so every token may add a level
/// until one shows that a sibling begins: a comma, AND and OR (which the grammar flattens), or the reserved word of a
/// clause. Three things outlast some of these and are counted apart: NOT, which takes whole comparisons (`not a between
/// b and c`), and joins and set operations, which nest to the left over clauses. CASE … END is a pair of brackets.
pub(super) fn of(text: &[u8]) -> Depth {
    let mut deepest = 0;
    let mut outer: Vec<Level> = Vec::new();
    let mut base = 0;
    let mut level = Level::default();
    let (mut after_dot, mut was_is) = (false, false);
    for token in Tokens::new(text, StringRules::default()) {
        let bytes = text.get(token.start..token.end).unwrap_or_default();
        let step = match token.kind {
            TokenKind::BlockComment | TokenKind::LineComment => continue,
            TokenKind::Punctuation => Step::of_punctuation(bytes),
            // Behind a dot any word is a name.
            TokenKind::Word if !after_dot => Step::of_word(bytes),
            _ => Step::Link,
        };
        after_dot = bytes == b".";
        let after_is = std::mem::replace(&mut was_is, bytes.eq_ignore_ascii_case(b"is"));
        match step {
            Step::Open(closer) => {
                base += 1 + level.depth();
                outer.push(std::mem::take(&mut level));
                level.closer = closer;
            }
            // END also ends other things than CASE.
            Step::Close(closer) if closer == Closer::End && level.closer != Closer::End => level.chain += 1,
            Step::Close(_) => {
                level = outer.pop().unwrap_or_default();
                base = base.saturating_sub(1 + level.depth());
                level.chain += 1;
            }
            Step::Statement => level = Level { closer: level.closer, ..Level::default() },
            Step::Item => (level.chain, level.negations) = (0, 0),
            Step::Clause => level.chain = 0,
            // IS NOT takes nothing that follows.
            Step::Negation if after_is => level.chain += 1,
            Step::Negation => level.negations += 1,
            Step::Join => level = Level { closer: level.closer, joins: level.joins + 1, ..Level::default() },
            Step::Link => level.chain += 1,
        }
        deepest = deepest.max(base + level.depth());
        if deepest > MAX_DEPTH {
            return Depth::TooDeep;
        }
    }
    if deepest > SHALLOW { Depth::Deep } else { Depth::Shallow }
}

/// What stands between two brackets, up to here.
#[derive(Default)]
struct Level {
    closer: Closer,
    chain: u32,
    negations: u32,
    joins: u32,
}

impl Level {
    fn depth(&self) -> u32 {
        self.chain + self.negations + self.joins
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Closer {
    #[default]
    Bracket,
    End,
}

/// What a token does to the depth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Open(Closer),
    Close(Closer),
    Statement,
    Item,
    Clause,
    Negation,
    Join,
    Link,
}

impl Step {
    fn of_punctuation(bytes: &[u8]) -> Self {
        match bytes {
            b"(" | b"[" => Step::Open(Closer::Bracket),
            b")" | b"]" => Step::Close(Closer::Bracket),
            b"," => Step::Item,
            b";" => Step::Statement,
            _ => Step::Link,
        }
    }

    /// Reserved words only: any other may be a column, and so a link.
    fn of_word(word: &[u8]) -> Self {
        let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
        if is(&["and", "from", "where", "group", "having", "order", "limit", "offset", "window", "returning"])
            || is(&["on", "using", "select", "when", "then", "else"])
        {
            Step::Clause
        } else if is(&["or"]) {
            Step::Item
        } else if is(&["not"]) {
            Step::Negation
        } else if is(&["join", "union", "intersect", "except"]) {
            Step::Join
        } else if is(&["case"]) {
            Step::Open(Closer::End)
        } else if is(&["end"]) {
            Step::Close(Closer::End)
        } else {
            Step::Link
        }
    }
}
