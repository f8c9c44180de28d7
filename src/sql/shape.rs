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
    lexer::{StringRules, Token, TokenKind, Tokens},
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
        hasher.write(&[EXACT, u8::from(rules.standard_conforming_strings), rules.encoding as u8]);
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
const WILD_TEXT: u8 = 20;

/// Reads `text` once. `scratch` is only there to be used again: its content does not matter.
pub(super) fn outline(text: &[u8], rules: StringRules, key: &ShapeKey, scratch: &mut Vec<u8>) -> Outline {
    // The token that grows most is `""`: two bytes are written as seven.
    let room = 4 * text.len() + 2 * CHUNK;
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    let mut out = Writer { room: scratch, at: 0 };
    if !rules.standard_conforming_strings {
        out.tag(LOOSE_STRINGS);
    }
    let mut tokens = Tokens::new(text, rules);
    let mut hints = hints::Finder::default();
    let mut uescape = false;
    for token in tokens.by_ref() {
        let bytes = text.get(token.start..token.end).unwrap_or_default();
        if matches!(token.kind, TokenKind::BlockComment | TokenKind::LineComment) {
            hints.comment(bytes);
            continue;
        }
        hints.token();
        // UESCAPE's literal decides which name a U&"…" is: it is no value.
        let escape_character = std::mem::take(&mut uescape);
        match token.kind {
            TokenKind::Word => {
                out.tag(WORD);
                out.word(text, token);
                uescape = bytes.len() == 7 && bytes.eq_ignore_ascii_case(b"uescape");
            }
            TokenKind::QuotedName => out.counted(NAME, bytes),
            TokenKind::UnicodeName => out.counted(UNICODE_NAME, bytes),
            TokenKind::Text if escape_character => out.counted(ESCAPE_CHARACTER, bytes),
            TokenKind::Text | TokenKind::NationalText if may_be_wild(bytes, rules) => out.counted(WILD_TEXT, bytes),
            TokenKind::Text => out.tag(TEXT),
            TokenKind::NationalText => out.tag(NATIONAL_TEXT),
            TokenKind::Bits => out.tag(BITS),
            TokenKind::Number => out.tag(NUMBER),
            TokenKind::Parameter => out.written(PARAMETER, bytes),
            TokenKind::Operator => out.written(OPERATOR, bytes),
            TokenKind::Punctuation => out.written(PUNCTUATION, bytes),
            TokenKind::Unterminated => out.tag(UNTERMINATED),
            TokenKind::BlockComment | TokenKind::LineComment => {}
        }
    }
    let (at, escaped) = (out.at, tokens.saw_escape_in_plain_string());
    match scratch.get(..at) {
        Some(written) => Outline { shape: key.hash(written), hints: hints.found(), misread: escaped },
        // There was not room for all of it after all: not a shape to be believed.
        None => Outline { shape: key.exact(text, rules), hints: hints.found(), misread: true },
    }
}

/// May a literal consist of `%` alone? As a pattern it matches everything, which facts hang on, so it is no value. The literal itself
/// is written then: that its escapes may say something else does no harm.
#[inline]
fn may_be_wild(literal: &[u8], rules: StringRules) -> bool {
    match literal {
        [b'\'', b'%' | b'\\' | b'\'' | b' ' | b'\t' | b'\r' | b'\n', ..] => {
            is_wild(literal, !rules.standard_conforming_strings)
        }
        [b'\'', ..] => false,
        [b'n' | b'N', rest @ ..] => is_wild(rest, !rules.standard_conforming_strings),
        [b'e' | b'E', rest @ ..] => is_wild(rest, true),
        // What escapes in it depends on a word behind it.
        [b'u' | b'U', ..] => true,
        _ => {
            let body = literal.splitn(3, |byte| *byte == b'$').nth(2).unwrap_or_default();
            let percents = body.iter().take_while(|byte| **byte == b'%').count();
            percents > 0 && body.get(percents) == Some(&b'$')
        }
    }
}

/// Quotes included: it may go on in the next line, behind comments.
fn is_wild(quoted: &[u8], escapes: bool) -> bool {
    let mut at = 0;
    let mut some = false;
    while let Some(&byte) = quoted.get(at) {
        match byte {
            b'%' => some = true,
            b'\'' | b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {}
            b'-' if quoted.get(at + 1) == Some(&b'-') => {
                at += quoted.iter().skip(at).take_while(|byte| !matches!(byte, b'\r' | b'\n')).count();
                continue;
            }
            b'\\' if escapes => some = true,
            b'0'..=b'9' | b'x' | b'u' | b'U' if escapes => {}
            _ => return false,
        }
        at += 1;
    }
    some
}

/// Are only values and comments outside of ASCII?
pub(super) fn names_are_ascii(text: &[u8], rules: StringRules) -> bool {
    let is_name = |kind| {
        !matches!(kind, TokenKind::Text | TokenKind::NationalText | TokenKind::BlockComment | TokenKind::LineComment)
    };
    let mut tokens = Tokens::new(text, rules).filter(|token| is_name(token.kind));
    tokens.all(|token| text.get(token.start..token.end).unwrap_or_default().is_ascii())
}

/// Words are copied this many bytes at a time: most need one step, without a call.
const CHUNK: usize = 16;

/// Writes tokens into a buffer; `at` goes on counting where there is no more room.
struct Writer<'b> {
    room: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn tag(&mut self, tag: u8) {
        if let Some(byte) = self.room.get_mut(self.at) {
            *byte = tag;
        }
        self.at += 1;
    }

    /// A word, folded as PostgreSQL folds it. What a whole chunk writes behind the word is overwritten by the next token.
    #[inline]
    fn word(&mut self, text: &[u8], token: Token) {
        let len = token.end - token.start;
        let from = text.get(token.start..).and_then(|t| t.first_chunk::<CHUNK>());
        let to = self.room.get_mut(self.at..).and_then(|r| r.first_chunk_mut::<CHUNK>());
        match (from, to) {
            (Some(from), Some(to)) if len <= CHUNK => {
                let mut chunk = *from;
                chunk.make_ascii_lowercase();
                *to = chunk;
                self.at += len;
            }
            _ => {
                let start = self.at;
                self.bytes(text.get(token.start..token.end).unwrap_or_default());
                self.room.get_mut(start..self.at).unwrap_or_default().make_ascii_lowercase();
            }
        }
    }

    #[inline]
    fn written(&mut self, tag: u8, bytes: &[u8]) {
        self.tag(tag);
        match bytes {
            [byte] => self.tag(*byte),
            bytes => self.bytes(bytes),
        }
    }

    fn counted(&mut self, tag: u8, bytes: &[u8]) {
        self.tag(tag);
        self.bytes(&(bytes.len() as u32).to_le_bytes());
        self.bytes(bytes);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(to) = self.room.get_mut(self.at..self.at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
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
            ("a like 'x%'", "a like '%x'"),
            ("a = ''", "a = ' b'"),
            ("a = E'b%'", "a = 'c'"),
            ("a = $$ $$", "a = $x$ % $x$"),
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
            ("a like '%'", "a like 'x'"),
            ("a like '%%'", "a like '%x'"),
            ("a like E'\\x25'", "a like E'\\n'"),
            ("a like $$%$$", "a like $$x$$"),
            ("a like $q$%$q$", "a like $q$x$q$"),
            ("a like '%' -- x\n '%'", "a like '%' -- x\n 'y'"),
            ("a like U&'\\0025'", "a like U&'\\0026'"),
            ("a like N'%'", "a like N'b'"),
        ] {
            assert_ne!(shape(a), shape(b), "{a} | {b}");
        }
    }

    #[test]
    fn there_is_room_for_every_token() {
        for token in ["\"\",", "''", "U&\"\"", "uescape''", "a.", "$1", "1,", ";", "\"\"''"] {
            let text = token.repeat(1000);
            let read = outline(text.as_bytes(), StringRules::default(), &ShapeKey::random(), &mut Vec::new());
            assert!(!read.misread, "{token}");
        }
    }

    #[test]
    fn the_key_decides() {
        let read = |key: ShapeKey| outline(b"select 1", StringRules::default(), &key, &mut Vec::new()).shape;
        assert_ne!(read(ShapeKey([1; 16])), read(ShapeKey([2; 16])));
        assert_ne!(read(ShapeKey::random()), read(ShapeKey::random()));
    }
}
