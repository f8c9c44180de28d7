//! Hints: what a client asks for in the first comment of its text.
//!
//! Only a block comment before the second token counts, and only if all of it is understood: a hint can then stand in
//! no literal, no nested comment and nowhere that user data reaches. Whether it is believed is policy's decision.

use std::time::Duration;

/// Where a hint wants the statement to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintTarget {
    /// `pgsluice: primary`, `route:writer`.
    Primary,
    /// `pgsluice: replica`, `route:reader`.
    Replica,
}

/// What the hints of a text ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// Where to run.
    pub target: Option<HintTarget>,
    /// How long the statement may take.
    pub timeout: Option<Duration>,
    /// Neither use nor fill the result cache.
    pub no_cache: bool,
}

/// Sees the tokens of a text go by and picks the hint out.
#[derive(Default)]
pub(super) struct Finder {
    tokens: u8,
    hints: Option<Hints>,
}

impl Finder {
    /// A token that is no comment.
    #[inline]
    pub(super) fn token(&mut self) {
        self.tokens = self.tokens.saturating_add(1);
    }

    /// A comment at top level, with its delimiters.
    #[inline]
    pub(super) fn comment(&mut self, comment: &[u8]) {
        // `/*+ … */` belongs to pg_hint_plan, which wants to be first.
        if self.tokens < 2 && self.hints.is_none() && !comment.starts_with(b"/*+") {
            self.hints = Some(read(comment).unwrap_or_default());
        }
    }

    pub(super) fn found(self) -> Hints {
        self.hints.unwrap_or_default()
    }
}

/// The hints of one comment; `None` if any of it is not a hint.
fn read(comment: &[u8]) -> Option<Hints> {
    let inside = comment.strip_prefix(b"/*")?.strip_suffix(b"*/")?;
    let words = std::str::from_utf8(inside).ok()?.trim().to_ascii_lowercase();
    let (words, ours) = match words.strip_prefix("pgsluice:") {
        Some(rest) => (rest, true),
        None => (words.as_str(), false),
    };
    let mut hints = Hints::default();
    let mut some = false;
    for word in words.split([' ', ',', '\t', '\r', '\n']).filter(|w| !w.is_empty()) {
        let (name, value) = match word.split_once(if ours { '=' } else { ':' }) {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match (ours, name, value) {
            (true, "primary", None) | (false, "route", Some("writer")) => hints.target = Some(HintTarget::Primary),
            (true, "replica", None) | (false, "route", Some("reader")) => hints.target = Some(HintTarget::Replica),
            (true, "no_cache", None) => hints.no_cache = true,
            (_, "timeout", Some(value)) => hints.timeout = Some(duration(value)?),
            _ => return None,
        }
        some = true;
    }
    some.then_some(hints)
}

/// `250ms`, `5s`, `10m`, `1h`; at most a week, so that nothing downstream overflows.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    const WEEK: u64 = 7 * 24 * 3_600_000;
    number.checked_mul(millis).filter(|&total| total <= WEEK).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{
        lexer::StringRules,
        shape::{ShapeKey, outline},
    };

    fn check(text: &str, expected: &str) {
        let hints = outline(text.as_bytes(), StringRules::default(), &ShapeKey::random(), &mut Vec::new()).hints;
        let mut words = Vec::new();
        match hints.target {
            Some(HintTarget::Primary) => words.push("primary".to_owned()),
            Some(HintTarget::Replica) => words.push("replica".to_owned()),
            None => {}
        }
        words.extend(hints.timeout.map(|t| format!("{t:?}")));
        words.extend(hints.no_cache.then(|| "no_cache".to_owned()));
        assert_eq!(words.join(" "), expected, "{text}");
    }

    #[test]
    fn spellings() {
        check("/* pgsluice: primary */ select 1", "primary");
        check("select /* pgsluice: replica */ 1", "replica");
        check("/*pgsluice:timeout=5s no_cache*/select 1", "5s no_cache");
        check("/* route:writer */ select 1", "primary");
        check("/* route:reader timeout:250ms */ select 1", "replica 250ms");
        check("/* PgSluice: Primary */ select 1", "primary");
        check("/*+ SeqScan(t) */ /* pgsluice: primary */ select 1", "primary");
        check("/* timeout:5s */ select 1", "5s");
    }

    #[test]
    fn what_is_no_hint() {
        for text in [
            "select '/* pgsluice: primary */'",
            "select $$/* pgsluice: primary */$$",
            "select \"/* pgsluice: primary */\"",
            "/* /* pgsluice: primary */ */ select 1",
            "/* pgsluice: primary /* x */ */ select 1",
            "/* x */ /* pgsluice: primary */ select 1",
            "select 1 /* pgsluice: primary */",
            "-- pgsluice: primary\nselect 1",
            "-- x\n/* pgsluice: primary */ select 1",
            "/* pgsluice: prmary */ select 1",
            "/* pgsluice: primary delete */ select 1",
            "/* pgsluice: timeout=5 */ select 1",
            "/* pgsluice: timeout=99999999999999999999s */ select 1",
            "/* pgsluice: timeout=9999999h */ select 1",
            "/*+ pgsluice: primary */ select 1",
            "/* pgsluice: */ select 1",
            "/* pgsluice: primary",
            "/**/ select 1",
            "",
        ] {
            check(text, "");
        }
    }
}
