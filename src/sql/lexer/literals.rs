//! Where literals and quoted names end.

use memchr::{memchr, memchr2, memmem};

use super::{TokenKind, Tokens, bytes};

impl Tokens<'_> {
    /// `'…'` with the session's rules; `at` is behind the opening quote.
    pub(super) fn ordinary_string(&mut self, at: usize, kind: TokenKind) -> (TokenKind, usize) {
        if self.rules.standard_conforming_strings {
            return self.plain_string(at, kind);
        }
        let (found, end) = self.escaped_string(at);
        let inside = self.text.get(at..end).unwrap_or_default();
        self.backslash |= memchr(b'\\', inside).is_some();
        (if found == TokenKind::Text { kind } else { found }, end)
    }

    /// A literal in which only `''` is special.
    pub(super) fn plain_string(&self, mut at: usize, kind: TokenKind) -> (TokenKind, usize) {
        while let Some(n) = memchr(b'\'', self.text.get(at..).unwrap_or_default()) {
            at += n + 1;
            match self.after_quote(at) {
                Some(next) => at = next,
                None => return (kind, at),
            }
        }
        (TokenKind::Unterminated, self.text.len())
    }

    /// A literal in which a backslash takes the next byte with it.
    pub(super) fn escaped_string(&self, mut at: usize) -> (TokenKind, usize) {
        while let Some(n) = memchr2(b'\'', b'\\', self.text.get(at..).unwrap_or_default()) {
            at += n + 1;
            if self.byte(at - 1) == b'\\' {
                at += 1;
                continue;
            }
            match self.after_quote(at) {
                Some(next) => at = next,
                None => return (TokenKind::Text, at),
            }
        }
        (TokenKind::Unterminated, self.text.len())
    }

    /// Behind a quote inside a literal: where the literal goes on, or `None` if it has ended. It goes on after a doubled
    /// quote, and when white space with a line break in it (line comments allowed) leads to another quote.
    fn after_quote(&self, at: usize) -> Option<usize> {
        match self.byte(at) {
            b'\'' => return Some(at + 1),
            b'-' => {}
            byte if bytes::is_space(byte) => {}
            _ => return None,
        }
        let mut at = at;
        let mut broken = false;
        loop {
            match self.byte(at) {
                b'\n' | b'\r' => (broken, at) = (true, at + 1),
                byte if bytes::is_space(byte) => at += 1,
                b'-' if self.byte(at + 1) == b'-' => at = self.end_of_line(at + 2),
                b'\'' if broken => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// `"…"`; `at` is behind the opening quote.
    pub(super) fn quoted_name(&self, mut at: usize, kind: TokenKind) -> (TokenKind, usize) {
        while let Some(n) = memchr(b'"', self.text.get(at..).unwrap_or_default()) {
            at += n + 1;
            if self.byte(at) != b'"' {
                return (kind, at);
            }
            at += 1;
        }
        (TokenKind::Unterminated, self.text.len())
    }
}

/// The delimiter `$tag$` that begins at `start`, if one does.
pub(super) fn dollar_tag(text: &[u8], start: usize) -> Option<&[u8]> {
    let rest = text.get(start..)?;
    let mut len = 1;
    while rest.get(len).is_some_and(|&b| bytes::is_tag(b)) {
        len += 1;
    }
    if rest.get(len) != Some(&b'$') || rest.get(1).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    rest.get(..=len)
}

/// A dollar-quoted literal ends at the first repetition of its delimiter, wherever that stands.
pub(super) fn dollar_quoted(text: &[u8], start: usize, tag: &[u8]) -> (TokenKind, usize) {
    let body = start + tag.len();
    match memmem::find(text.get(body..).unwrap_or_default(), tag) {
        Some(n) => (TokenKind::Text, body + n + tag.len()),
        None => (TokenKind::Unterminated, text.len()),
    }
}

/// End of the number that begins at `start` with a digit, or with a dot before a digit.
pub(super) fn number(text: &[u8], start: usize) -> usize {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    if byte(start) == b'0' {
        let behind = start + 2;
        let end = match byte(start + 1) {
            b'x' | b'X' => digits::<16>(text, behind),
            b'o' | b'O' => digits::<8>(text, behind),
            b'b' | b'B' => digits::<2>(text, behind),
            _ => behind,
        };
        if end > behind {
            return end;
        }
    }
    let mut at = if byte(start) == b'.' { start } else { digits::<10>(text, start) };
    // `1..10` is a number, two dots and a number.
    if byte(at) == b'.' && byte(at + 1) != b'.' {
        at = digits::<10>(text, at + 1);
    }
    if matches!(byte(at), b'e' | b'E') {
        let sign = usize::from(matches!(byte(at + 1), b'+' | b'-'));
        if byte(at + 1 + sign).is_ascii_digit() {
            at = digits::<10>(text, at + 1 + sign);
        }
    }
    at
}

/// End of the digits from `at` on; single underscores may stand between them, and in front of them if `at` is not where the number
/// begins (`0x_1F`).
#[inline]
fn digits<const RADIX: u32>(text: &[u8], mut at: usize) -> usize {
    let is_digit = |at: usize| text.get(at).is_some_and(|&byte| char::from(byte).is_digit(RADIX));
    while is_digit(at) || (text.get(at) == Some(&b'_') && is_digit(at + 1)) {
        at += 1;
    }
    at
}
