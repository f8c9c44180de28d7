//! A text as tokens, to find what the tree does not tell: where names end, and where clauses begin and end.

use std::ops::Range;

use crate::sql::{
    lexer::{StringRules, Token, TokenKind, Tokens},
    places::Condition,
};

pub(super) struct Script<'t> {
    text: &'t str,
    tokens: Vec<Token>,
}

/// Words that end a FROM or WHERE clause of the same level.
const ENDS: [&str; 12] = [
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "returning",
];

impl<'t> Script<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let comment = |kind| matches!(kind, TokenKind::BlockComment | TokenKind::LineComment);
        let tokens = Tokens::new(text.as_bytes(), StringRules::default()).filter(|t| !comment(t.kind)).collect();
        Self { text, tokens }
    }

    /// The token that begins at `location`.
    pub(super) fn at(&self, location: i32) -> Option<usize> {
        let start = usize::try_from(location).ok()?;
        self.tokens.binary_search_by_key(&start, |token| token.start).ok()
    }

    pub(super) fn bytes(&self, token: usize) -> &'t str {
        self.tokens.get(token).and_then(|t| self.text.get(t.start..t.end)).unwrap_or_default()
    }

    pub(super) fn start(&self, token: usize) -> usize {
        self.tokens.get(token).map_or(self.text.len(), |t| t.start)
    }

    /// End of the token before `token`.
    pub(super) fn end_before(&self, token: usize) -> usize {
        token.checked_sub(1).and_then(|before| self.tokens.get(before)).map_or(0, |t| t.end)
    }

    /// Bytes of the tokens `from..to`.
    pub(super) fn range(&self, tokens: Range<usize>) -> Range<usize> {
        self.start(tokens.start)..self.end_before(tokens.end)
    }

    /// A key word rather than a name: not behind a dot, nor behind AS.
    pub(super) fn is_keyword(&self, token: usize, words: &[&str]) -> bool {
        let is_word = self.tokens.get(token).is_some_and(|t| t.kind == TokenKind::Word);
        let text = self.bytes(token);
        let before = token.checked_sub(1).map_or("", |before| self.bytes(before));
        is_word
            && words.iter().any(|word| text.eq_ignore_ascii_case(word))
            && before != "."
            && (!before.eq_ignore_ascii_case("as") || self.is_behind_dot(token - 1))
    }

    fn is_behind_dot(&self, token: usize) -> bool {
        token.checked_sub(1).is_some_and(|before| self.bytes(before) == ".")
    }

    /// The tokens of a dotted name of these parts that begins with `first`; `None` if they do not say that.
    pub(super) fn name(&self, first: usize, parts: &[&str]) -> Option<Range<usize>> {
        let mut token = first;
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                (self.bytes(token) == ".").then_some(())?;
                token += 1;
            }
            if self.tokens.get(token)?.kind == TokenKind::UnicodeName {
                // The tree has it decoded.
                let escaped = self.bytes(token + 1).eq_ignore_ascii_case("uescape");
                token += if escaped { 3 } else { 1 };
            } else {
                (self.identifier(token)? == *part).then_some(())?;
                token += 1;
            }
        }
        Some(first..token)
    }

    /// An identifier, folded.
    pub(super) fn identifier(&self, token: usize) -> Option<String> {
        let text = self.bytes(token);
        match self.tokens.get(token)?.kind {
            TokenKind::Word => Some(text.to_ascii_lowercase()),
            TokenKind::QuotedName => Some(text.strip_prefix('"')?.strip_suffix('"')?.replace("\"\"", "\"")),
            _ => None,
        }
    }

    /// The token behind the bracket that `open` opens.
    pub(super) fn behind_bracket(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for token in open..self.tokens.len() {
            match self.bytes(token) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(token + 1);
            }
        }
        None
    }

    /// The first opening bracket from a token on.
    pub(super) fn find_bracket(&self, from: usize) -> Option<usize> {
        (from..self.tokens.len()).find(|at| self.bytes(*at) == "(")
    }

    /// The bracket that the one at `close` closes.
    pub(super) fn open_of(&self, close: usize) -> Option<usize> {
        let mut depth = 0;
        for token in (0..=close).rev() {
            match self.bytes(token) {
                ")" | "]" => depth += 1,
                "(" | "[" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(token);
            }
        }
        None
    }

    /// The token that names `name` as an item of the list that `open` opens.
    pub(super) fn in_list(&self, open: usize, name: &str) -> Option<usize> {
        let end = self.behind_bracket(open)?;
        (open + 1..end - 1)
            .find(|at| matches!(self.bytes(at - 1), "(" | ",") && self.identifier(*at).as_deref() == Some(name))
    }

    /// The FROM to whose list the token belongs; `None` if there is none before it on its level or around it.
    pub(super) fn own_from(&self, token: usize) -> Option<usize> {
        let mut depth = 0;
        for at in (0..token).rev() {
            match self.bytes(at) {
                ")" | "]" => depth += 1,
                "(" | "[" if depth > 0 => depth -= 1,
                ";" if depth == 0 => return None,
                _ if depth > 0 => {}
                _ if self.is_keyword(at, &["from"]) => {
                    // IS DISTINCT FROM.
                    let operator = at.checked_sub(1).is_some_and(|before| self.is_keyword(before, &["distinct"]));
                    if !operator {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The first of `words` at the level of `from`, from there on; `None` if the level ends before.
    pub(super) fn find(&self, from: usize, words: &[&str]) -> Option<usize> {
        let mut at = from;
        while at < self.tokens.len() {
            match self.bytes(at) {
                "(" | "[" => at = self.behind_bracket(at)?,
                ")" | "]" | ";" => return None,
                _ if self.is_keyword(at, words) => return Some(at),
                _ if self.is_keyword(at, &["case"]) => at = self.behind_case(at)?,
                _ => at += 1,
            }
        }
        None
    }

    fn behind_case(&self, case: usize) -> Option<usize> {
        let mut depth = 0;
        for token in case..self.tokens.len() {
            if self.is_keyword(token, &["case"]) {
                depth += 1;
            } else if self.is_keyword(token, &["end"]) {
                depth -= 1;
            }
            if depth == 0 {
                return Some(token + 1);
            }
        }
        None
    }

    /// Where the clause that `token` is in ends: at the next clause, a closing bracket, a semicolon, or the end.
    pub(super) fn clause_end(&self, token: usize) -> usize {
        let mut at = token;
        while at < self.tokens.len() {
            match self.bytes(at) {
                "(" | "[" => match self.behind_bracket(at) {
                    Some(behind) => at = behind,
                    None => return self.tokens.len(),
                },
                ")" | "]" | ";" => return at,
                _ if self.ends_clause(at) => return at,
                _ => at += 1,
            }
        }
        at
    }

    fn ends_clause(&self, at: usize) -> bool {
        let next = |words: &[&str]| self.is_keyword(at + 1, words);
        self.is_keyword(at, &ENDS)
            // INSERT … SELECT … ON CONFLICT.
            || (self.is_keyword(at, &["on"]) && next(&["conflict"]) && (self.bytes(at + 2) == "(" || self.is_keyword(at + 2, &["do", "on"])))
            // CREATE TABLE AS … WITH DATA, CREATE VIEW … WITH CHECK OPTION.
            || (self.is_keyword(at, &["with"]) && next(&["data", "no", "check", "cascaded", "local"]))
    }

    /// The WHERE clause of a query or command, of which `token` is in the part before it.
    pub(super) fn where_clause(&self, token: usize) -> Condition {
        let mut at = token;
        while at < self.tokens.len() {
            match self.bytes(at) {
                "(" | "[" => match self.behind_bracket(at) {
                    Some(behind) => at = behind,
                    None => break,
                },
                ")" | "]" | ";" => break,
                _ if self.is_keyword(at, &["where"]) => {
                    let condition = self.range(at + 1..self.clause_end(at + 1));
                    return Condition { at: condition.start, existing: Some(condition), word: "where" };
                }
                _ if self.ends_clause(at) => break,
                _ => at += 1,
            }
        }
        Condition { existing: None, at: self.end_before(at), word: "where" }
    }

    /// Where an item of a list ends: a result column's title would stand there.
    pub(super) fn item_end(&self, token: usize) -> usize {
        let mut at = token;
        while at < self.tokens.len() {
            match self.bytes(at) {
                "(" | "[" => match self.behind_bracket(at) {
                    Some(behind) => at = behind,
                    None => break,
                },
                ")" | "]" | ";" | "," => break,
                _ if self.is_keyword(at, &["from", "into", "where"]) || self.ends_clause(at) => break,
                _ => at += 1,
            }
        }
        self.end_before(at)
    }
}
