//! How deep a text's tree can get, guessed from its tokens and never too low.

use crate::sql::lexer::{StringRules, TokenKind, Tokens};

/// Deeper trees are not parsed. A level costs the parser, its decoder and our walk up to about 1 KiB of stack each;
/// `parse::tests` runs the deepest texts that are let through on a thread with 2 MiB.
const MAX_DEPTH: u32 = 500;

/// Could the tree of `text` be deeper than [`MAX_DEPTH`]?
///
/// Inside one pair of brackets a tree grows by chains (`a + b + c`, `not not a`, `a join b join c`), so every token
/// may add a level until something shows that a sibling begins: a comma, or AND and OR, which the grammar flattens.
/// Chains that such a token does not end (JOIN, UNION, CASE, NOT, …) are counted until the bracket closes.
pub(super) fn is_too_deep(text: &[u8]) -> bool {
    let mut outer: Vec<(u32, u32)> = Vec::new();
    let mut base = 0u32;
    let (mut chain, mut lasting) = (0u32, 0u32);
    for token in Tokens::new(text, StringRules::default()) {
        let bytes = text.get(token.start..token.end).unwrap_or_default();
        match token.kind {
            TokenKind::BlockComment | TokenKind::LineComment => continue,
            TokenKind::Punctuation => match bytes {
                b"(" | b"[" => {
                    outer.push((chain, lasting));
                    base += 1 + chain + lasting;
                    (chain, lasting) = (0, 0);
                }
                b")" | b"]" => {
                    if let Some(before) = outer.pop() {
                        (chain, lasting) = before;
                        base -= 1 + chain + lasting;
                    }
                    chain += 1;
                }
                b"," => chain = 0,
                b";" => (chain, lasting) = (0, 0),
                _ => chain += 1,
            },
            TokenKind::Word => match Word::of(bytes) {
                Word::Sibling => chain = 0,
                Word::Lasting => lasting += 1,
                Word::End => lasting = lasting.saturating_sub(1),
                Word::Other => chain += 1,
            },
            _ => chain += 1,
        }
        if base + chain + lasting > MAX_DEPTH {
            return true;
        }
    }
    false
}

enum Word {
    Sibling,
    Lasting,
    End,
    Other,
}

impl Word {
    fn of(word: &[u8]) -> Self {
        let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
        if is(&["and", "or"]) {
            Word::Sibling
        } else if is(&["not", "join", "union", "intersect", "except", "case"]) {
            Word::Lasting
        } else if is(&["end"]) {
            Word::End
        } else {
            Word::Other
        }
    }
}
