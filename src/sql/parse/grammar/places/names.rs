//! Columns, and whose they are.

use std::ops::Range;

use pg_query::{
    Node, NodeEnum,
    protobuf::{ColumnRef, OnConflictClause, RangeVar, SortBy},
};

use super::{Finder, Level, Whose, word};
use crate::sql::places::Column;

impl<'t> Finder<'t> {
    /// The tokens of a relation's name.
    pub(super) fn name_tokens(&self, table: &RangeVar) -> Option<Range<usize>> {
        let parts = [&*table.catalogname, &*table.schemaname, &*table.relname];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        self.script.name(self.script.at(table.location)?, &parts)
    }

    /// Something in FROM that is no relation.
    pub(super) fn other_source(&mut self, source: &'t NodeEnum) {
        let alias = match source {
            NodeEnum::RangeSubselect(n) => n.alias.as_ref(),
            NodeEnum::RangeFunction(n) => n.alias.as_ref(),
            NodeEnum::RangeTableFunc(n) => n.alias.as_ref(),
            NodeEnum::JsonTable(n) => n.alias.as_ref(),
            _ => None,
        };
        self.hide(alias.map_or("", |alias| &alias.aliasname));
    }

    /// A name that stands for something else than a relation.
    pub(super) fn hide(&mut self, called: &'t str) {
        if let Some(scope) = self.levels.last_mut() {
            scope.level.others = true;
            scope.others.push(called);
        }
    }

    /// The columns of a result: what they are called is kept.
    pub(super) fn titled(&mut self, targets: &'t [Node]) {
        for target in targets {
            let Some(NodeEnum::ResTarget(target)) = target.node.as_ref() else { continue };
            if !target.name.is_empty()
                && let Some(scope) = self.levels.last_mut()
            {
                scope.titles.push(&target.name);
            }
            let Some(value) = target.val.as_deref() else { continue };
            match naming(value).filter(|_| target.name.is_empty()) {
                Some(column) => {
                    let title_at = self.script.at(column.location).map(|token| self.script.item_end(token));
                    self.column(column, title_at);
                }
                None => {
                    if let Some(node) = value.node.as_ref() {
                        self.visit(node.to_ref());
                    }
                }
            }
        }
    }

    /// ORDER BY: a bare name is a column of the result before it is one of a relation.
    pub(super) fn sorted(&mut self, sort: &'t SortBy) {
        let Some(node) = sort.node.as_deref().and_then(|node| node.node.as_ref()) else { return };
        let title = match node {
            NodeEnum::ColumnRef(column) if column.fields.len() == 1 => {
                let name = column.fields.first().map(word).unwrap_or_default();
                self.levels.last().is_some_and(|scope| scope.titles.contains(&name))
            }
            _ => false,
        };
        if !title {
            self.visit(node.to_ref());
        }
    }

    /// Columns that INSERT fills, and UPDATE sets.
    pub(super) fn assigned(&mut self, targets: &'t [Node], relation: usize) {
        // UPDATE's target is its statement's first relation.
        let relation = match relation {
            0 => self.levels.last().and_then(|scope| scope.level.relations.first().copied()).unwrap_or_default(),
            other => other,
        };
        for target in targets {
            let Some(NodeEnum::ResTarget(target)) = target.node.as_ref() else { continue };
            let span = self.script.at(target.location).and_then(|token| self.script.name(token, &[&target.name]));
            self.add_column(&target.name, span, None, Whose::Relation(relation), None);
        }
    }

    /// The columns of COPY and of USING in a tree have no place.
    pub(super) fn listed_column(&mut self, column: &'t Node, table: &RangeVar, relation: usize) {
        let name = word(column);
        let list = self.name_tokens(table).map(|tokens| tokens.end);
        let span = list.and_then(|open| self.script.in_list(open, name));
        self.add_column(name, span.map(|token| token..token + 1), None, Whose::Relation(relation), None);
    }

    /// ON CONFLICT (columns) DO UPDATE SET …
    pub(super) fn conflict(&mut self, conflict: &'t OnConflictClause, target: usize) {
        if let Some(infer) = conflict.infer.as_deref() {
            let open = self.script.at(conflict.location).map(|on| on + 2);
            for element in &infer.index_elems {
                let Some(NodeEnum::IndexElem(element)) = element.node.as_ref() else { continue };
                if !element.name.is_empty() {
                    let span = open.and_then(|open| self.script.in_list(open, &element.name));
                    let span = span.map(|token| token..token + 1);
                    self.add_column(&element.name, span, None, Whose::Relation(target), None);
                }
                if let Some(node) = element.expr.as_deref().and_then(|node| node.node.as_ref()) {
                    self.visit(node.to_ref());
                }
            }
            if let Some(node) = infer.where_clause.as_deref().and_then(|node| node.node.as_ref()) {
                self.visit(node.to_ref());
            }
        }
        self.assigned(&conflict.target_list, target);
        for value in conflict.target_list.iter().filter_map(|target| match target.node.as_ref() {
            Some(NodeEnum::ResTarget(target)) => target.val.as_deref()?.node.as_ref(),
            _ => None,
        }) {
            self.visit(value.to_ref());
        }
        if let Some(node) = conflict.where_clause.as_deref().and_then(|node| node.node.as_ref()) {
            self.visit(node.to_ref());
        }
    }

    /// A column somewhere in an expression.
    pub(super) fn column(&mut self, column: &'t ColumnRef, title_at: Option<usize>) {
        let fields: Vec<&'t str> = column.fields.iter().map(word).collect();
        let Some((last, qualifiers)) = fields.split_last() else { return };
        self.names.extend(qualifiers.last().or(Some(last)).filter(|_| !last.is_empty() || !qualifiers.is_empty()));
        let start = self.script.at(column.location);
        if last.is_empty() {
            // `t.*`, or `*`.
            if let (Some(start), false) = (start, qualifiers.is_empty()) {
                let named = self.script.name(start, qualifiers);
                let whose = self.owner(qualifiers);
                let qualifier = named.map(|tokens| self.qualifier(&tokens));
                self.found.places.columns.push(Column {
                    name: "*".into(),
                    span: None,
                    qualifier,
                    whose,
                    title_at: None,
                });
            }
            return;
        }
        let tokens = start.and_then(|start| self.script.name(start, &fields));
        let span = tokens.clone().map(|tokens| tokens.end - 1..tokens.end);
        let (qualifier, whose) = match qualifiers {
            [] => (None, Whose::Visible(self.visible())),
            _ => {
                let named = tokens.map(|tokens| tokens.start..tokens.end - 2);
                (named.map(|tokens| self.qualifier(&tokens)), self.owner(qualifiers))
            }
        };
        self.add_column(last, span, qualifier, whose, title_at);
    }

    fn qualifier(&self, tokens: &Range<usize>) -> (Range<usize>, Range<usize>) {
        (self.script.range(tokens.clone()), self.script.range(tokens.end - 1..tokens.end))
    }

    /// A column that the tree names without a place, or that could be one.
    pub(super) fn unplaced_column(&mut self, name: &'t str) {
        let whose = Whose::Visible(self.visible());
        self.add_column(name, None, None, whose, None);
    }

    fn add_column(
        &mut self,
        name: &str,
        tokens: Option<Range<usize>>,
        qualifier: Option<(Range<usize>, Range<usize>)>,
        whose: Whose,
        title_at: Option<usize>,
    ) {
        let span = tokens.map(|tokens| self.script.range(tokens));
        self.found.places.columns.push(Column { name: name.into(), span, qualifier, whose, title_at });
    }

    fn visible(&self) -> Vec<Level> {
        let levels = self.levels.iter().rev().map(|scope| scope.level.clone());
        levels.filter(|level| level.others || !level.relations.is_empty()).collect()
    }

    /// Whose a qualified column is.
    fn owner(&self, qualifiers: &[&str]) -> Whose {
        let Some(called) = qualifiers.last() else { return Whose::Nobody };
        for scope in self.levels.iter().rev() {
            if let Some((_, relation)) = scope.called.iter().find(|(name, _)| name == called) {
                return Whose::Relation(*relation);
            }
            if scope.others.contains(called) {
                return Whose::Nobody;
            }
            // RETURNING old.a, new.a.
            if matches!(*called, "old" | "new")
                && let Some(target) = scope.level.relations.first()
            {
                return Whose::Relation(*target);
            }
        }
        Whose::Nobody
    }

    /// Which relations are called by their names.
    pub(super) fn call_names(&mut self) {
        let names: std::collections::HashSet<&str> = self.names.iter().copied().collect();
        for relation in &mut self.found.places.relations {
            relation.called = names.contains(&*relation.name.name);
        }
    }
}

/// The column that gives a result's column its title.
pub(in super::super) fn naming(value: &Node) -> Option<&ColumnRef> {
    match value.node.as_ref()? {
        NodeEnum::ColumnRef(column) => {
            column.fields.last().is_some_and(|last| !word(last).is_empty()).then_some(column)
        }
        NodeEnum::TypeCast(cast) => naming(cast.arg.as_deref()?),
        NodeEnum::CollateClause(collate) => naming(collate.arg.as_deref()?),
        _ => None,
    }
}
