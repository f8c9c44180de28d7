//! Names that only a catalog can judge, gathered on the walk.

use std::collections::BTreeSet;

use pg_query::{Node, NodeEnum};

use super::walk::{name, qualified, word};
use crate::sql::{
    facts::{Name, PrimaryReason},
    mentions::{Field, Mentions},
};

/// What a text names that is not PostgreSQL's own, or need not be.
#[derive(Default)]
pub(super) struct Strangers {
    operators: BTreeSet<Name>,
    types: BTreeSet<Name>,
    fields: BTreeSet<Field>,
    /// Calls a function that is not built in.
    pub(super) called: bool,
    /// And it runs, rather than being stored or only planned.
    pub(super) runs: bool,
    /// Has a column named like one of a sequence's.
    pub(super) sequence: bool,
}

impl Strangers {
    pub(super) fn operator(&mut self, schema: &str, operator: &str) {
        if !operator.is_empty() {
            self.operators.insert(name(if schema == "pg_catalog" { "" } else { schema }, operator));
        }
    }

    pub(super) fn type_name(&mut self, parts: &[Node]) {
        let (schema, of_type) = qualified(parts);
        self.types.insert(name(schema, of_type));
    }

    /// `t.c`, `s.t.c`: the last part may be a function of the row.
    pub(super) fn column(&mut self, parts: &[Node]) {
        if let [_, .., last] = parts {
            self.field(last);
        }
    }

    /// `(…).c`: a column of a row, or a function of a row or of any other value.
    pub(super) fn behind_value(&mut self, part: &str) {
        self.fields.insert(Field::of(part));
        self.fields.insert(Field::behind_value(part));
    }

    fn field(&mut self, part: &Node) {
        if matches!(part.node, Some(NodeEnum::String(_))) {
            self.fields.insert(Field::of(word(part)));
        }
    }

    /// Without a catalog, strangers are not to be trusted.
    pub(super) fn reason(&self) -> Option<PrimaryReason> {
        match (self.called, self.sequence) {
            (true, _) => Some(PrimaryReason::UnknownFunction),
            (false, true) => Some(PrimaryReason::UnknownRelation),
            (false, false) => None,
        }
    }

    /// `primary` and `opaque` hold without any stranger. Where the text is not a read anyway, only its functions are of interest.
    pub(super) fn finish(self, primary: Option<PrimaryReason>, opaque: bool) -> Mentions {
        if primary.is_some() {
            return Mentions { primary, opaque, ..Mentions::default() };
        }
        Mentions {
            primary,
            opaque,
            operators: self.operators.into_iter().collect(),
            types: self.types.into_iter().collect(),
            fields: self.fields.into_iter().collect(),
        }
    }
}
