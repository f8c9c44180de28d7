//! The shape: what is left of a text without its literals, comments and white space, as a keyed 128-bit hash.
//!
//! The key is drawn once per process and never leaves it, and SipHash is a keyed pseudo-random function: who does not
//! know the key can neither aim at the shape of another statement nor compute one. Two texts of one shape differ in
//! literal values only.

use std::{fmt, hash::Hasher};

use rand::RngCore;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::{
    hints::{self, Hints},
    lexer::{StringRules, TokenKind, Tokens},
};

/// The key of this process's shapes.
#[derive(Clone)]
pub struct ShapeKey([u8; 16]);

impl ShapeKey {
    /// A key nobody knows.
    pub fn random() -> Self {
        let mut key = [0; 16];
        rand::rng().fill_bytes(&mut key);
        Self(key)
    }

    /// The hash of `bytes` under this key.
    pub(super) fn hash(&self, bytes: &[u8]) -> Shape {
        Shape(SipHasher13::new_with_key(&self.0).hash(bytes).as_u128())
    }

    /// Stands for one exact text; no token stream is written like it.
    pub(super) fn exact(&self, text: &[u8], rules: StringRules) -> Shape {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(&[EXACT, u8::from(rules.standard_conforming_strings)]);
        hasher.write(text);
        Shape(hasher.finish128().as_u128())
    }
}

impl fmt::Debug for ShapeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShapeKey(…)")
    }
}

/// A statement's shape. Only comparable within one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape(pub u128);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What one pass over a text tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) shape: Shape,
    pub(super) hints: Hints,
    /// Tokens other than comments and semicolons.
    pub(super) empty: bool,
    /// The server reads the literals otherwise than the parser would: the text must not be parsed, nor looked up.
    pub(super) misread: bool,
}

// Every token is written behind a byte below 0x20 that says what it is. Such a byte is in no word, number or operator,
// and quoted names carry their length: so no two token streams are written alike.
const WORD: u8 = 1;
const NAME: u8 = 2;
const UNICODE_NAME: u8 = 3;
const TEXT: u8 = 4;
const NATIONAL_TEXT: u8 = 5;
const BITS: u8 = 6;
const NUMBER: u8 = 7;
const PARAMETER: u8 = 8;
const OPERATOR: u8 = 14;
const PUNCTUATION: u8 = 15;
const UNTERMINATED: u8 = 16;
const ESCAPE_CHARACTER: u8 = 17;
const LOOSE_STRINGS: u8 = 18;
const EXACT: u8 = 19;

/// Reads `text` once. `scratch` is only there to be used again: its content does not matter.
pub(super) fn outline(text: &[u8], rules: StringRules, key: &ShapeKey, scratch: &mut Vec<u8>) -> Outline {
    scratch.clear();
    scratch.reserve(2 * text.len() + 16);
    if !rules.standard_conforming_strings {
        scratch.push(LOOSE_STRINGS);
    }
    let mut tokens = Tokens::new(text, rules);
    let mut hints = hints::Finder::default();
    let mut empty = true;
    let mut uescape = false;
    for token in tokens.by_ref() {
        let bytes = text.get(token.start..token.end).unwrap_or_default();
        if matches!(token.kind, TokenKind::BlockComment | TokenKind::LineComment) {
            hints.comment(bytes);
            continue;
        }
        hints.token();
        empty &= bytes == b";";
        match token.kind {
            TokenKind::Word => {
                scratch.push(WORD);
                let from = scratch.len();
                scratch.extend_from_slice(bytes);
                let word = scratch.get_mut(from..).unwrap_or_default();
                word.make_ascii_lowercase();
                // UESCAPE's literal decides which name a U&"…" is: it is no value.
                uescape = word == b"uescape";
                continue;
            }
            TokenKind::QuotedName => named(scratch, NAME, bytes),
            TokenKind::UnicodeName => named(scratch, UNICODE_NAME, bytes),
            TokenKind::Text if uescape => named(scratch, ESCAPE_CHARACTER, bytes),
            TokenKind::Text => scratch.push(TEXT),
            TokenKind::NationalText => scratch.push(NATIONAL_TEXT),
            TokenKind::Bits => scratch.push(BITS),
            TokenKind::Number => scratch.push(NUMBER),
            TokenKind::Parameter => written(scratch, PARAMETER, bytes),
            TokenKind::Operator => written(scratch, OPERATOR, bytes),
            TokenKind::Punctuation => written(scratch, PUNCTUATION, bytes),
            TokenKind::Unterminated => scratch.push(UNTERMINATED),
            TokenKind::BlockComment | TokenKind::LineComment => {}
        }
        uescape = false;
    }
    let misread = tokens.saw_escape_in_plain_string();
    Outline { shape: key.hash(scratch), hints: hints.found(), empty, misread }
}

fn written(scratch: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    scratch.push(tag);
    scratch.extend_from_slice(bytes);
}

fn named(scratch: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    scratch.push(tag);
    scratch.extend_from_slice(&bytes.len().to_le_bytes());
    scratch.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        let key = ShapeKey([7; 16]);
        outline(text.as_bytes(), StringRules::default(), &key, &mut Vec::new()).shape
    }

    #[test]
    fn texts_that_differ_in_values_only_are_alike() {
        for (a, b) in [
            ("select * from t where a = 1", "SELECT  *\nFROM t WHERE a=234 -- x"),
            ("select 'a', E'b\\'', $$c$$", "select /* ; */ '', 'it''s', $x$;$x$"),
            ("select 1.5, B'01'", "select 0x1F, X'ff'"),
        ] {
            assert_eq!(shape(a), shape(b), "{a} | {b}");
        }
    }

    #[test]
    fn other_statements_differ() {
        for (a, b) in [
            ("select 1", "select '1'"),
            ("select $1", "select 1"),
            ("select $1, $2", "select $1, $1"),
            ("select a", "select \"a\""),
            ("select \"a\"", "select \"A\""),
            ("select ab", "select a b"),
            ("select 'a' 'b'", "select 'a'\n'b'"),
            ("select U&\"d!0061\" uescape '!'", "select U&\"d!0061\" uescape '#'"),
            ("select \"a\", \"b\"", "select \"a\"\", \"\"b\""),
            ("select 1", "select 1;"),
            ("select 'a'", "select 'a"),
            ("select -1", "select 1"),
            ("select U&'a'", "select u&a"),
        ] {
            assert_ne!(shape(a), shape(b), "{a} | {b}");
        }
    }

    #[test]
    fn the_key_decides() {
        let read = |key: ShapeKey| outline(b"select 1", StringRules::default(), &key, &mut Vec::new()).shape;
        assert_ne!(read(ShapeKey([1; 16])), read(ShapeKey([2; 16])));
        assert_ne!(read(ShapeKey::random()), read(ShapeKey::random()));
    }
}
