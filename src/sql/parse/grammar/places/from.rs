//! The items of a FROM list: where each of their relations can be given a condition.

use std::ops::Range;

use pg_query::{
    Node, NodeEnum,
    protobuf::{JoinExpr, JoinType, RangeTableSample, RangeVar},
};

use super::{Finder, script::Script};
use crate::sql::places::{Derived, Filter, Form};

/// Where a condition on a relation may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Into the query's own WHERE.
    Where(usize),
    /// Only beside the relation itself: rows must be gone before an outer join fills up with NULL, or its name is hidden.
    Itself,
}

/// The first relation of a FROM item that is not inside a sub-select.
pub(super) fn first_relation(item: &Node) -> Option<&RangeVar> {
    match item.node.as_ref()? {
        NodeEnum::RangeVar(table) => Some(table),
        NodeEnum::RangeTableSample(sample) => first_relation(sample.relation.as_deref()?),
        NodeEnum::JoinExpr(join) => {
            join.larg.as_deref().and_then(first_relation).or_else(|| join.rarg.as_deref().and_then(first_relation))
        }
        _ => None,
    }
}

/// Is it the relation of `TABLE t`?
pub(super) fn is_command(script: &Script<'_>, name: usize) -> bool {
    let mut before = name;
    for word in ["(", "only", "table"] {
        let Some(at) = before.checked_sub(1) else { return false };
        if script.bytes(at).eq_ignore_ascii_case(word) {
            before = at;
        } else if word == "table" {
            return false;
        }
    }
    true
}

impl<'t> Finder<'t> {
    /// Items of FROM or USING; `spot`: the WHERE of their query.
    pub(super) fn sources(&mut self, items: &'t [Node], spot: Option<usize>) {
        for item in items {
            self.item(item, spot.map_or(Reach::Itself, Reach::Where), None);
        }
    }

    fn item(&mut self, item: &'t Node, reach: Reach, sample: Option<&'t RangeTableSample>) {
        let Some(node) = item.node.as_ref() else { return };
        match node {
            NodeEnum::RangeVar(table) => self.table(table, reach, sample),
            NodeEnum::RangeTableSample(sample) => {
                if let Some(relation) = sample.relation.as_deref() {
                    self.item(relation, reach, Some(sample));
                }
                for argument in sample.args.iter().chain(sample.repeatable.as_deref()) {
                    if let Some(node) = argument.node.as_ref() {
                        self.visit(node.to_ref());
                    }
                }
            }
            NodeEnum::JoinExpr(join) => self.join(join, reach),
            other => {
                self.other_source(other);
                self.visit(other.to_ref());
            }
        }
    }

    fn join(&mut self, join: &'t JoinExpr, reach: Reach) {
        // An alias hides the names below it.
        let reach = if join.alias.is_some() { Reach::Itself } else { reach };
        let (left, right) = match JoinType::try_from(join.jointype) {
            Ok(JoinType::JoinInner) => (reach, reach),
            Ok(JoinType::JoinLeft) => (reach, Reach::Itself),
            Ok(JoinType::JoinRight) => (Reach::Itself, reach),
            _ => (Reach::Itself, Reach::Itself),
        };
        let first = self.found.places.relations.len();
        for (side, reach) in [(&join.larg, left), (&join.rarg, right)] {
            if let Some(item) = side.as_deref() {
                self.item(item, reach, None);
            }
        }
        if join.is_natural {
            for relation in self.found.places.relations.iter_mut().skip(first) {
                relation.natural = true;
            }
        }
        for column in &join.using_clause {
            self.unplaced_column(super::word(column));
        }
        if let Some(alias) = join.alias.as_ref().or(join.join_using_alias.as_ref()) {
            self.hide(&alias.aliasname);
        }
        if let Some(condition) = join.quals.as_deref().and_then(|condition| condition.node.as_ref()) {
            self.visit(condition.to_ref());
        }
    }

    fn table(&mut self, table: &'t RangeVar, reach: Reach, sample: Option<&'t RangeTableSample>) {
        if table.schemaname.is_empty() && self.with.contains(&&*table.relname) {
            self.hide(table.alias.as_ref().map_or(&table.relname, |alias| &alias.aliasname));
            return;
        }
        let renamed_columns = table.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty());
        let filter = match reach {
            Reach::Where(spot) if !renamed_columns => Filter::Conditions(vec![spot]),
            _ => match self.derived(table, sample) {
                Some(derived) => Filter::Derived(derived),
                None => Filter::Impossible("its place in FROM cannot be made out"),
            },
        };
        self.source(table, filter);
    }

    /// What a query in the place of this relation is made of.
    fn derived(&self, table: &RangeVar, sample: Option<&RangeTableSample>) -> Option<Derived> {
        let script = &self.script;
        let name = self.name_tokens(table)?;
        let relation = self.with_only(name.clone(), table.inh)?;
        if is_command(script, name.start) {
            // `TABLE t`, or `TABLE ONLY (t)`.
            let start = relation.start.checked_sub(1)?;
            script.bytes(start).eq_ignore_ascii_case("table").then_some(())?;
            let item = script.range(start..relation.end);
            let relation = script.range(relation);
            return Some(Derived { item, relation, columns: None, sample: None, form: Form::Command });
        }
        let mut at = relation.end;
        let alias = match table.alias.as_ref() {
            None => None,
            Some(alias) => {
                let start = at;
                // Here AS is the word itself, whatever stands before it.
                at += usize::from(script.bytes(at).eq_ignore_ascii_case("as"));
                (script.identifier(at)? == alias.aliasname).then_some(())?;
                at += 1;
                if !alias.colnames.is_empty() {
                    at = script.behind_bracket(at)?;
                }
                Some(script.range(start..at))
            }
        };
        let sampled = match sample {
            None => None,
            Some(sample) => {
                let start = at;
                script.is_keyword(at, &["tablesample"]).then_some(())?;
                at = script.behind_bracket(script.find_bracket(at)?)?;
                if sample.repeatable.is_some() {
                    script.is_keyword(at, &["repeatable"]).then_some(())?;
                    at = script.behind_bracket(at + 1)?;
                }
                Some(script.range(start..at))
            }
        };
        Some(Derived {
            item: script.range(relation.start..at),
            relation: script.range(relation),
            columns: None,
            sample: sampled,
            form: Form::Item(alias),
        })
    }

    /// The name with ONLY, its brackets and the star around it.
    fn with_only(&self, name: Range<usize>, inherits: bool) -> Option<Range<usize>> {
        let script = &self.script;
        let before = |at: usize| at.checked_sub(1).map_or("", |before| script.bytes(before));
        if inherits {
            let star = usize::from(script.bytes(name.end) == "*");
            return Some(name.start..name.end + star);
        }
        let only = |at: usize| before(at).eq_ignore_ascii_case("only");
        if only(name.start) {
            Some(name.start - 1..name.end)
        } else if before(name.start) == "(" && only(name.start - 1) && script.bytes(name.end) == ")" {
            Some(name.start - 2..name.end + 1)
        } else {
            None
        }
    }

    /// Where an alias of a relation stands whose name ends before this token.
    pub(super) fn alias_at(&self, end: usize) -> usize {
        let script = &self.script;
        let at = match script.bytes(end) {
            "*" => end + 1,
            ")" => {
                let opened = script.open_of(end).and_then(|open| open.checked_sub(1));
                if opened.is_some_and(|only| script.bytes(only).eq_ignore_ascii_case("only")) { end + 1 } else { end }
            }
            _ => end,
        };
        script.end_before(at)
    }
}
