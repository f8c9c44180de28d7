//! What is the same for all texts of one shape, written so that a person can read it: rules compare regular expressions with it.
//!
//! Comments and white space are gone, words without quotes are in lower case, literals are `$n`, numbered from left to right behind
//! the highest parameter of the text. There is one space between two tokens, but none before `( ) [ ] , ; . ::` and none behind
//! `( [ . ::`.

use super::lexer::{StringRules, Token, TokenKind, Tokens};

/// The form of a text. Nothing in it depends on how the text was spelled, or which values it has.
pub fn form(text: &[u8]) -> String {
    let of = |token: &Token| String::from_utf8_lossy(text.get(token.start..token.end).unwrap_or_default());
    let mut values = Tokens::new(text, StringRules::default())
        .filter(|token| token.kind == TokenKind::Parameter)
        .filter_map(|token| of(&token).get(1..)?.parse::<u64>().ok())
        .max()
        .unwrap_or_default();
    let mut form = String::with_capacity(text.len());
    let (mut open, mut escape_character) = (true, false);
    for token in Tokens::new(text, StringRules::default()) {
        let written = of(&token);
        let is_name_of_escape = std::mem::take(&mut escape_character);
        let word = match token.kind {
            TokenKind::BlockComment | TokenKind::LineComment | TokenKind::Unterminated => continue,
            TokenKind::Word => {
                escape_character = written.eq_ignore_ascii_case("uescape");
                written.to_ascii_lowercase()
            }
            // It is part of the name before it, no value.
            TokenKind::Text if is_name_of_escape => written.into_owned(),
            TokenKind::Text | TokenKind::NationalText | TokenKind::Bits | TokenKind::Number => {
                values = values.saturating_add(1);
                format!("${values}")
            }
            _ => written.into_owned(),
        };
        if !open && !matches!(&*word, "(" | ")" | "[" | "]" | "," | ";" | "." | "::") {
            form.push(' ');
        }
        open = matches!(&*word, "(" | "[" | "." | "::");
        form.push_str(&word);
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_does_not_depend_on_the_spelling() {
        for (text, expected) in [
            ("DELETE  FROM\nfw_p/**/WHERE id=1 -- x", "delete from fw_p where id = $1"),
            ("delete from fw_p where id = 'a'", "delete from fw_p where id = $1"),
            (
                "select COUNT( * ) from \"A b\".t where a=$2 and b in (1,'x',B'0')",
                "select count(*) from \"A b\".t where a = $2 and b in($3, $4, $5)",
            ),
            (
                "insert into t (a) values (1) , (2) ; select a [ 1 ] :: int",
                "insert into t(a) values($1),($2); select a[$3]::int",
            ),
            ("select N'x', -1, a<>1, 'it''s'\n'more'", "select $1, - $2, a <> $3, $4"),
            ("select U&\"d!0061\" UESCAPE '!', U&'x'", "select U&\"d!0061\" uescape '!', $1"),
            ("", ""),
        ] {
            assert_eq!(form(text.as_bytes()), expected, "{text}");
        }
    }
}
