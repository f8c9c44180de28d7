//! Literals that stand for the time at which they are read.

use memchr::memmem;

use super::lexer::{StringRules, TokenKind, Tokens};

/// Words that the input functions of PostgreSQL's date and time types take for the present (documentation, "Special Values").
const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// May a literal of `text` mean another time each time the text is parsed? Cast to a date or a time it becomes a constant then, so a
/// statement prepared by one session must not serve another, later one. A literal with escapes may say anything.
pub fn tells_time(text: &[u8], rules: StringRules) -> bool {
    if !text.contains(&b'\'') && !text.contains(&b'$') {
        return false;
    }
    let literals =
        Tokens::new(text, rules).filter(|token| matches!(token.kind, TokenKind::Text | TokenKind::NationalText));
    literals.filter_map(|token| text.get(token.start..token.end)).any(|literal| {
        let escapes = literal.contains(&b'\\') && !literal.starts_with(b"$");
        let literal = literal.to_ascii_lowercase();
        escapes || WORDS.iter().any(|word| memmem::find(&literal, word).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_is_found_in_literals_only() {
        for (text, tells) in [
            ("select now()", false),
            ("select now() - '1 day'::interval", false),
            ("select $1::timestamptz", false),
            ("select 'now'::timestamptz", true),
            ("select date ' TODAY '", true),
            ("select $$tomorrow$$::date", true),
            ("select '12:00 yesterday'::timestamp", true),
            ("select E'n\\x6fw'::timestamptz", true),
            ("select U&'\\006eow'::timestamptz", true),
            ("select 'a' /* 'now' */ -- 'now'", false),
        ] {
            assert_eq!(tells_time(text.as_bytes(), StringRules::default()), tells, "{text}");
        }
    }
}
