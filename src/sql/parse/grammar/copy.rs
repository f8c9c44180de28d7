//! COPY: to whom, from where.

use pg_query::{NodeRef, protobuf};

use super::{children::each_child, walk::Walk};
use crate::sql::{
    facts::{Kind, Marks, PrimaryReason, Verb},
    lexer::{StringRules, TokenKind, Tokens},
};

impl Walk<'_> {
    /// `text` begins with it.
    pub(super) fn copy(&mut self, copy: &protobuf::CopyStmt, text: &[u8]) -> (Verb, Kind) {
        let node = NodeRef::CopyStmt(copy);
        self.acts.expect_queries();
        let has_file = !copy.is_program && (!copy.filename.is_empty() || names_a_file(text));
        if copy.is_program {
            self.acts.mark(Marks::COPY_PROGRAM);
        } else if has_file {
            self.acts.mark(Marks::COPY_FILE);
        }
        if copy.is_from {
            self.must(PrimaryReason::Writes);
            each_child(node, &mut |child| match child {
                NodeRef::RangeVar(target) => self.writes(target),
                child => self.visit(child),
            });
            return (Verb::CopyFrom, Kind::Copy);
        }
        self.visit_children(node);
        // A file or a program: on the server's own disk.
        if copy.is_program || has_file {
            self.must(PrimaryReason::Utility);
        }
        (Verb::CopyTo, Kind::Copy)
    }
}

/// Does this COPY name a file? The tree has nothing for STDIN, and nothing for the name `''`.
fn names_a_file(text: &[u8]) -> bool {
    let mut depth = 0_u32;
    let mut tokens = Tokens::new(text, StringRules::default())
        .filter(|token| !matches!(token.kind, TokenKind::BlockComment | TokenKind::LineComment));
    let told = tokens.by_ref().find(|token| {
        let bytes = text.get(token.start..token.end).unwrap_or_default();
        match bytes {
            b"(" => depth = depth.saturating_add(1),
            b")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let direction = bytes.eq_ignore_ascii_case(b"from") || bytes.eq_ignore_ascii_case(b"to");
        depth == 0 && token.kind == TokenKind::Word && direction
    });
    told.is_some() && tokens.next().is_some_and(|name| name.kind == TokenKind::Text)
}
