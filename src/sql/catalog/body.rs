//! Code that a catalog holds, as far as it can be read.

use std::collections::BTreeSet;

use crate::sql::{
    facts::{Effect, Facts, Name},
    functions::Functions,
    lexer::{StringRules, TokenKind, Tokens},
    mentions::Mentions,
    parse,
};

/// A longer body is not read.
const LONGEST: usize = 256 * 1024;

/// A view's query, a function's body, an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// SQL, read whole.
    Statements(Box<Said>),
    /// A procedural language: whatever it calls or reads without EXECUTE, it must name.
    Words(Box<Words>),
    /// Not to be read.
    Unread,
}

/// What of the facts is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub(super) reads: Box<[Name]>,
    pub(super) functions: Box<[Name]>,
    pub(super) mentions: Mentions,
}

/// Every word of a procedural body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Names and operators, each once, with a zero byte behind each.
    all: Box<str>,
    /// It runs text that it makes up.
    pub(super) is_dynamic: bool,
}

impl Words {
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.split_terminator('\0')
    }
}

impl Body {
    /// Of SQL statements. `functions` are those that are built in.
    pub fn sql(text: &str, functions: &Functions) -> Self {
        if text.len() > LONGEST {
            return Self::Unread;
        }
        Self::of(parse::facts(text.as_bytes(), functions))
    }

    /// Of what `pg_get_function_sqlbody` shows: BEGIN ATOMIC … END, or RETURN.
    pub fn standard(text: &str, functions: &Functions) -> Self {
        let text = text.trim();
        if let Some(expression) = text.strip_prefix("RETURN") {
            return Self::expressions(expression, functions);
        }
        let inside = text.strip_prefix("BEGIN ATOMIC").and_then(|rest| rest.strip_suffix("END"));
        inside.map_or(Self::Unread, |inside| Self::sql(inside, functions))
    }

    /// Of expressions with commas between them.
    pub fn expressions(text: &str, functions: &Functions) -> Self {
        Self::sql(&format!("SELECT {text}"), functions)
    }

    /// Of PL/pgSQL.
    pub fn plpgsql(text: &str) -> Self {
        if text.len() > LONGEST {
            return Self::Unread;
        }
        let mut words: BTreeSet<String> = BTreeSet::new();
        let mut is_dynamic = false;
        for token in Tokens::new(text.as_bytes(), StringRules::default()) {
            let Some(word) = text.get(token.start..token.end) else { return Self::Unread };
            match token.kind {
                TokenKind::Word => {
                    is_dynamic |= word.eq_ignore_ascii_case("execute");
                    words.insert(truncated(word.to_ascii_lowercase()));
                }
                TokenKind::QuotedName => {
                    let inside = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(word);
                    words.insert(truncated(inside.replace("\"\"", "\"")));
                }
                TokenKind::Operator => {
                    words.insert(word.to_owned());
                }
                // Could be any name.
                TokenKind::UnicodeName | TokenKind::Unterminated => return Self::Unread,
                _ => {}
            }
        }
        let mut all = String::new();
        for word in words {
            all.push_str(&word);
            all.push('\0');
        }
        Self::Words(Box::new(Words { all: all.into(), is_dynamic }))
    }

    fn of(facts: Facts) -> Self {
        // What it does to the session does not stand in the text that calls it.
        let acts = facts.effects.iter().any(|effect| *effect != Effect::OpaqueCode);
        let mentions = Mentions { opaque: facts.mentions.opaque || acts, ..facts.mentions };
        Self::Statements(Box::new(Said { reads: facts.reads, functions: facts.functions, mentions }))
    }
}

/// An identifier as PostgreSQL keeps it: 63 bytes of it at most, and no part of a character (`truncate_identifier`).
fn truncated(mut name: String) -> String {
    const LONGEST_NAME: usize = 63;
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name.truncate(end);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_procedural_body_is_its_words() {
        let check = |text: &str, expected: &str| {
            let shown = match Body::plpgsql(text) {
                Body::Words(words) => {
                    format!(
                        "{}{}",
                        words.iter().collect::<Vec<_>>().join(" "),
                        if words.is_dynamic { " …" } else { "" }
                    )
                }
                Body::Statements(_) | Body::Unread => "unread".to_owned(),
            };
            assert_eq!(shown, expected, "{text}");
        };
        check("begin return F(x) || 'g()' -- h()\n; end", "begin end f return x ||");
        check("begin return \"F\"(1); end", "F begin end return");
        check("begin execute 'select 1'; end", "begin end execute …");
        check("begin return U&\"d\\0061t\"(1); end", "unread");
        check("begin return \"\"\"f\"\"\"(1); end", "\"f\" begin end return");
        let (long, kept) = (format!("{}xyz", "é".repeat(31)), "é".repeat(31) + "x");
        check(&format!("begin return {long}(1); end"), &format!("begin end return {kept}"));
        check("begin return 'x", "unread");
        check("begin return $$ f() $$; end", "begin end return");
    }
}
