//! How deep a text's tree can get, guessed from its tokens and never too low.

use crate::sql::lexer::{StringRules, TokenKind, Tokens};

/// Deeper trees are not parsed. A level costs the parser, its decoder and our walk up to about 1 KiB of stack each;
/// `parse::tests` runs the deepest texts that are let through on a thread with 2 MiB.
const MAX_DEPTH: u32 = 500;

/// Could the tree of `text` be deeper than [`MAX_DEPTH`]?
///
/// Between two brackets a tree grows by chains (`a + b + c`, `- - a`, `a::int::int`), so every token may add a level
/// until one shows that a sibling begins: a comma, AND and OR (which the grammar flattens), or the reserved word of a
/// clause. Three things outlast some of these and are counted apart: NOT, which takes whole comparisons (`not a between
/// b and c`), and joins and set operations, which nest to the left over clauses. CASE … END is a pair of brackets.
pub(super) fn is_too_deep(text: &[u8]) -> bool {
    let mut outer: Vec<Level> = Vec::new();
    let mut base = 0;
    let mut level = Level::default();
    let mut after_dot = false;
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
            Step::Negation => level.negations += 1,
            Step::Join => (level.chain, level.joins) = (0, level.joins + 1),
            Step::Link => level.chain += 1,
        }
        if base + level.depth() > MAX_DEPTH {
            return true;
        }
    }
    false
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
