//! PostgreSQL's lexer over bytes (src/backend/parser/scan.l), as far as token boundaries go.
//!
//! It must see every literal, quoted name and comment end exactly where the server does: whoever makes the two disagree
//! can hide a statement. It decides nothing else; encodings other than UTF-8 and ASCII are not its business.

mod bytes;
mod literals;

use memchr::memchr2;

use bytes::{Class, class_of, is_identifier, is_operator};

/// How the session reads ordinary string literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StringRules {
    /// The session's `standard_conforming_strings`; off: a backslash in `'…'` escapes.
    pub standard_conforming_strings: bool,
    /// The session's `client_encoding`.
    pub encoding: Encoding,
}

/// What a byte is in the client's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Part of UTF-8.
    #[default]
    Utf8,
    /// An ASCII byte is itself, wherever it stands; others are nobody knows which character.
    KeepsAscii,
    /// An ASCII byte is perhaps the second half of a character, so quotes and backslashes cannot be told without decoding.
    HidesAscii,
}

impl Encoding {
    /// Of a value of `client_encoding`. PostgreSQL allows such encodings for clients only (documentation, "Character Set Support").
    pub fn of(client_encoding: &str) -> Self {
        const HIDE: [&str; 7] = ["BIG5", "GB18030", "GBK", "JOHAB", "SHIFT_JIS_2004", "SJIS", "UHC"];
        // SQL_ASCII: bytes go as they are into a database that is mostly UTF-8.
        const UTF8: [&str; 3] = ["UTF8", "UNICODE", "SQL_ASCII"];
        let is_one_of = |names: &[&str]| names.iter().any(|name| client_encoding.eq_ignore_ascii_case(name));
        match () {
            () if is_one_of(&HIDE) => Self::HidesAscii,
            () if is_one_of(&UTF8) => Self::Utf8,
            () => Self::KeepsAscii,
        }
    }
}

impl Default for StringRules {
    fn default() -> Self {
        Self { standard_conforming_strings: true, encoding: Encoding::Utf8 }
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Identifier or keyword without quotes.
    Word,
    /// `"…"`.
    QuotedName,
    /// `U&"…"`; its meaning may depend on a following `UESCAPE '…'`.
    UnicodeName,
    /// `'…'`, `E'…'`, `U&'…'`, `$tag$…$tag$`.
    Text,
    /// `N'…'`.
    NationalText,
    /// `B'…'` or `X'…'`.
    Bits,
    /// Integer or decimal number.
    Number,
    /// `$1`.
    Parameter,
    /// An operator of one or more characters.
    Operator,
    /// One of `( ) [ ] , ; . :` or the pairs `::`, `:=` and `..`, or a byte no token can start with.
    Punctuation,
    /// `/* … */`, nesting counted.
    BlockComment,
    /// `-- …` up to the end of the line.
    LineComment,
    /// A literal, quoted name or comment that never ends.
    Unterminated,
}

/// A token: `text[start..end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// The tokens of a text, comments included, white space left out.
pub struct Tokens<'t> {
    text: &'t [u8],
    at: usize,
    rules: StringRules,
    backslash: bool,
}

impl<'t> Tokens<'t> {
    /// Starts at the first byte of `text`.
    pub fn new(text: &'t [u8], rules: StringRules) -> Self {
        Self { text, at: 0, rules, backslash: false }
    }

    /// True once a backslash was met in an ordinary string while `standard_conforming_strings` is off: from there on
    /// a parser that assumes "on" (ours does) reads another statement than the server.
    pub fn saw_escape_in_plain_string(&self) -> bool {
        self.backslash
    }

    fn byte(&self, at: usize) -> u8 {
        // NUL cannot stand in a Query, so it can mean "past the end" here: no token contains it.
        self.text.get(at).copied().unwrap_or(0)
    }

    fn word(&self, start: usize) -> usize {
        let rest = self.text.get(start + 1..).unwrap_or_default();
        start + 1 + rest.iter().position(|&byte| !is_identifier(byte)).unwrap_or(rest.len())
    }

    /// A letter may open a literal: `E'`, `B'`, `X'`, `N'`, `U&'`, `U&"`.
    fn letter(&mut self, start: usize) -> (TokenKind, usize) {
        let next = self.byte(start + 1);
        match (self.byte(start).to_ascii_lowercase(), next) {
            (b'e', b'\'') => self.escaped_string(start + 2),
            (b'b' | b'x', b'\'') => self.plain_string(start + 2, TokenKind::Bits),
            (b'n', b'\'') => self.ordinary_string(start + 2, TokenKind::NationalText),
            (b'u', b'&') if self.byte(start + 2) == b'\'' => self.plain_string(start + 3, TokenKind::Text),
            (b'u', b'&') if self.byte(start + 2) == b'"' => self.quoted_name(start + 3, TokenKind::UnicodeName),
            _ => (TokenKind::Word, self.word(start)),
        }
    }

    fn dollar(&self, start: usize) -> (TokenKind, usize) {
        if self.byte(start + 1).is_ascii_digit() {
            let mut at = start + 2;
            while self.byte(at).is_ascii_digit() {
                at += 1;
            }
            return (TokenKind::Parameter, at);
        }
        match literals::dollar_tag(self.text, start) {
            Some(tag) => literals::dollar_quoted(self.text, start, tag),
            None => (TokenKind::Punctuation, start + 1),
        }
    }

    fn operator(&self, start: usize) -> (TokenKind, usize) {
        match (self.byte(start), self.byte(start + 1)) {
            (b'-', b'-') => return (TokenKind::LineComment, self.end_of_line(start + 2)),
            (b'/', b'*') => return self.block_comment(start + 2),
            _ => {}
        }
        let mut end = start + 1;
        let mut special = bytes::is_special_operator(self.byte(start));
        while is_operator(self.byte(end)) {
            // A comment may begin in the middle of a run of operator characters.
            if matches!((self.byte(end), self.byte(end + 1)), (b'-', b'-') | (b'/', b'*')) {
                break;
            }
            special |= bytes::is_special_operator(self.byte(end));
            end += 1;
        }
        // SQL's own operators do not end in + or -, so that `a=-1` is `a = -1`.
        while !special && end - start > 1 && matches!(self.byte(end - 1), b'+' | b'-') {
            end -= 1;
        }
        (TokenKind::Operator, end)
    }

    fn end_of_line(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        memchr2(b'\n', b'\r', rest).map_or(self.text.len(), |n| at + n)
    }

    fn block_comment(&self, mut at: usize) -> (TokenKind, usize) {
        let mut depth = 1u32;
        while let Some(n) = memchr2(b'*', b'/', self.text.get(at..).unwrap_or_default()) {
            at += n;
            match (self.byte(at), self.byte(at + 1)) {
                (b'*', b'/') if depth == 1 => return (TokenKind::BlockComment, at + 2),
                (b'*', b'/') => (depth, at) = (depth - 1, at + 2),
                (b'/', b'*') => (depth, at) = (depth + 1, at + 2),
                _ => at += 1,
            }
        }
        (TokenKind::Unterminated, self.text.len())
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    #[inline]
    fn next(&mut self) -> Option<Token> {
        let (start, byte) = loop {
            let byte = *self.text.get(self.at)?;
            if class_of(byte) != Class::Space {
                break (self.at, byte);
            }
            self.at += 1;
        };
        let (kind, end) = match class_of(byte) {
            Class::Identifier => (TokenKind::Word, self.word(start)),
            Class::LiteralLetter => self.letter(start),
            Class::Digit => (TokenKind::Number, literals::number(self.text, start)),
            Class::Quote => self.ordinary_string(start + 1, TokenKind::Text),
            Class::NameQuote => self.quoted_name(start + 1, TokenKind::QuotedName),
            Class::Dollar => self.dollar(start),
            Class::Operator => self.operator(start),
            Class::Dot if self.byte(start + 1).is_ascii_digit() => {
                (TokenKind::Number, literals::number(self.text, start))
            }
            Class::Dot if self.byte(start + 1) == b'.' => (TokenKind::Punctuation, start + 2),
            Class::Colon if matches!(self.byte(start + 1), b':' | b'=') => (TokenKind::Punctuation, start + 2),
            Class::Dot | Class::Colon | Class::Other | Class::Space => (TokenKind::Punctuation, start + 1),
        };
        self.at = end;
        Some(Token { kind, start, end })
    }
}

#[cfg(test)]
mod tests;
