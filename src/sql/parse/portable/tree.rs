//! A walk over a query or a change of data: its relations, and what each statement in it does.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FromTable, Ident, Merge, MergeAction, MergeClauseKind, ObjectName, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, TableObject, TableWithJoins, Visit, Visitor,
};

use super::{Found, clauses, target, truth};
use crate::sql::{
    facts::{Act, Clause, Marks, Name, PrimaryReason, Verb},
    parse::relations::{self, RelationClass},
};

/// An identifier, folded as PostgreSQL folds it.
pub(super) fn ident(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// Schema and name.
pub(super) fn named(name: &ObjectName) -> Option<Name> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(ident)).collect();
    match parts?.as_slice() {
        [name] => Some(Name { schema: None, name: name.as_str().into() }),
        [.., schema, name] => Some(Name { schema: Some(schema.as_str().into()), name: name.as_str().into() }),
        [] => None,
    }
}

pub(super) struct Reader<'f> {
    found: &'f mut Found,
    /// WITH queries in scope, by the query that has them.
    scopes: Vec<Scope>,
    /// The acts under way, as indexes.
    acts: Vec<usize>,
    /// Changes at the end of a WITH, by address, with the act that has begun for them.
    awaited: Vec<(usize, usize)>,
    /// Targets of changes, which are not read, by address.
    targets: Vec<usize>,
    /// A set operation was met, and a system catalog.
    combined: bool,
    catalog: bool,
}

struct Scope {
    names: Vec<String>,
    bodies: Vec<usize>,
    recursive: bool,
    visible: usize,
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

impl<'f> Reader<'f> {
    pub(super) fn new(found: &'f mut Found) -> Self {
        Self {
            found,
            scopes: Vec::new(),
            acts: Vec::new(),
            awaited: Vec::new(),
            targets: Vec::new(),
            combined: false,
            catalog: false,
        }
    }

    pub(super) fn finish(self) {
        if self.combined && self.catalog {
            self.found.acts.iter_mut().for_each(|act| act.marks |= Marks::UNION_CATALOG);
        }
    }

    fn mark(&mut self, mark: Marks) {
        if let Some(act) = self.acts.last().and_then(|at| self.found.acts.get_mut(*at)) {
            act.marks |= mark;
        }
    }

    fn reads(&mut self, name: &Name) {
        let known = name.schema.is_none()
            && self
                .scopes
                .iter()
                .any(|scope| scope.names.iter().take(scope.visible).any(|known| **known == *name.name));
        if known {
            return;
        }
        let schema = name.schema.as_deref().unwrap_or_default();
        match relations::classify(schema, &name.name) {
            RelationClass::Plain => {}
            RelationClass::NodeLocal => self.found.must(PrimaryReason::NodeLocal),
            RelationClass::Session | RelationClass::Temporary => self.found.opaque(PrimaryReason::SessionState),
            RelationClass::Unknown => self.found.must(PrimaryReason::UnknownRelation),
        }
        if relations::is_catalog(schema, &name.name) {
            self.catalog = true;
            self.mark(Marks::CATALOG);
        }
        self.found.reads.insert(name.clone());
    }

    fn writes(&mut self, name: Option<Name>) {
        self.found.must(PrimaryReason::Writes);
        match name {
            Some(name) => {
                // A rule of pg_settings calls set_config.
                if relations::is_catalog(name.schema.as_deref().unwrap_or_default(), &name.name) {
                    self.found.opaque(PrimaryReason::Writes);
                }
                self.found.writes.insert(name);
            }
            None => self.found.opaque(PrimaryReason::Writes),
        }
    }

    fn target(&mut self, table: &TableWithJoins) {
        self.targets.push(address(&table.relation));
        self.writes(target::name(&table.relation));
    }

    fn condition(&mut self, condition: Option<&Expr>) -> Clause {
        let Some(condition) = condition else { return Clause::Missing };
        let judged = truth::judge(condition);
        if judged.widened {
            self.mark(Marks::TAUTOLOGY);
        }
        if judged.always { Clause::Missing } else { Clause::Present }
    }

    /// Does a condition choose among the rows of the target? One that names none of their columns hits all of them or none.
    fn choice<V: Visit>(
        &mut self,
        condition: Option<&Expr>,
        target: Option<&TableFactor>,
        others: Option<&V>,
    ) -> Clause {
        let (clause, Some(condition)) = (self.condition(condition), condition) else { return Clause::Missing };
        let itself = target.and_then(|target| target::meeting_itself(condition, target, others));
        if itself.is_some_and(|itself| truth::judge(&itself).always) {
            return Clause::Missing;
        }
        let chooses = target.is_none_or(|target| target::hangs_on(condition, target));
        if chooses || truth::judge(condition).never { clause } else { Clause::Missing }
    }

    /// The filter of MERGE, if it updates or deletes: of the clause that has the least of one.
    fn merge(&mut self, merge: &Merge) -> Clause {
        let joined = self.choice(Some(&merge.on), Some(&merge.table), Some(&merge.source));
        let mut filter = Clause::NotApplicable;
        for clause in &merge.clauses {
            let own = self.choice(clause.predicate.as_ref(), Some(&merge.table), Some(&merge.source));
            if matches!(clause.action, MergeAction::Update(_) | MergeAction::Delete { .. }) {
                let of_all_others = clause.clause_kind == MergeClauseKind::NotMatchedBySource;
                filter = filter.max(if of_all_others { own } else { own.min(joined) });
            }
        }
        filter
    }

    /// A statement that changes data, if it is one.
    fn change(&mut self, statement: &Statement) -> ControlFlow<()> {
        let (verb, filter) = match statement {
            Statement::Insert(insert) => {
                let name = match &insert.table {
                    TableObject::TableName(name) => named(name),
                    _ => None,
                };
                self.writes(name);
                (Verb::Insert, Clause::NotApplicable)
            }
            Statement::Update(update) => {
                self.target(&update.table);
                (
                    Verb::Update,
                    self.choice(update.selection.as_ref(), Some(&update.table.relation), update.from.as_ref()),
                )
            }
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                from.iter().for_each(|table| self.target(table));
                (
                    Verb::Delete,
                    self.choice(
                        delete.selection.as_ref(),
                        from.first().map(|table| &table.relation),
                        delete.using.as_ref(),
                    ),
                )
            }
            Statement::Merge(merge) => {
                self.targets.push(address(&merge.table));
                self.writes(target::name(&merge.table));
                (Verb::Merge, self.merge(merge))
            }
            _ => return ControlFlow::Continue(()),
        };
        if let Some(act) = self.acts.last().and_then(|at| self.found.acts.get_mut(*at)) {
            (act.verb, act.filter) = (verb, filter);
            if let Statement::Update(update) = statement
                && target::name(&update.table.relation).is_some_and(|name| &*name.name == "pg_settings")
            {
                act.parameters = [super::ANY.into()].into();
            }
        }
        ControlFlow::Continue(())
    }

    /// `TABLE t`, in an arm of a set operation too.
    fn tables(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Table(table) => {
                let part = |name: &Option<Ident>| name.as_ref().map(|name| ident(name).into());
                if let Some(name) = part(&table.table_name) {
                    self.mark(Marks::STAR);
                    self.reads(&Name { schema: part(&table.schema_name), name });
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.combined = true;
                self.tables(left);
                self.tables(right);
            }
            _ => {}
        }
    }
}

impl Visitor for Reader<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        let at = address(statement);
        if let Some((_, act)) = self.awaited.iter().find(|(change, _)| *change == at) {
            self.acts.push(*act);
            return self.change(statement);
        }
        self.acts.push(self.found.acts.len());
        let mut act = Act::of(Verb::Unknown);
        if let Statement::Query(query) = statement {
            act.verb = if matches!(&*query.body, SetExpr::Values(_)) { Verb::Values } else { Verb::Select };
            act.filter = clauses::filter(query, &mut Vec::new());
            act.limit = clauses::limit(query, act.filter);
            if let SetExpr::Insert(change)
            | SetExpr::Update(change)
            | SetExpr::Delete(change)
            | SetExpr::Merge(change) = &*query.body
            {
                self.awaited.push((address(change), self.found.acts.len()));
            }
        }
        self.found.acts.push(act);
        self.change(statement)
    }

    fn post_visit_statement(&mut self, _: &Statement) -> ControlFlow<()> {
        self.acts.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let at = address(query);
        if let Some(scope) = self.scopes.last_mut()
            && let Some(index) = scope.bodies.iter().position(|body| *body == at)
        {
            scope.visible = if scope.recursive { scope.names.len() } else { index };
        }
        let with = query.with.as_ref();
        let ctes = || with.iter().flat_map(|with| &with.cte_tables);
        let names: Vec<String> = ctes().map(|cte| ident(&cte.alias.name)).collect();
        let visible = names.len();
        let bodies = ctes().map(|cte| address(&*cte.query)).collect();
        self.scopes.push(Scope { names, bodies, recursive: with.is_some_and(|with| with.recursive), visible });
        self.tables(&query.body);
        if !query.locks.is_empty() {
            self.found.must(PrimaryReason::LocksRows);
        }
        let foreign = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        if foreign {
            self.found.opaque(PrimaryReason::UnknownFunction);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        let at = address(query);
        if let Some(scope) = self.scopes.last_mut()
            && scope.bodies.contains(&at)
        {
            // The last WITH query has been read: from here on all are seen. One before it sets this anew.
            scope.visible = scope.names.len();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        if select.projection.iter().any(star) {
            self.mark(Marks::STAR);
        }
        if clauses::crosses(select) {
            self.mark(Marks::CROSS_JOIN);
        }
        for condition in [select.selection.as_ref(), select.having.as_ref()].into_iter().flatten() {
            self.condition(Some(condition));
        }
        for join in select.from.iter().flat_map(|item| &item.joins) {
            if truth::widens_join(&join.join_operator) {
                self.mark(Marks::TAUTOLOGY);
            }
        }
        if select.into.is_some() {
            self.found.opaque(PrimaryReason::Writes);
            self.found.act(Verb::Create).object = Some("table");
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, .. } if !self.targets.contains(&address(factor)) => {
                match named(name) {
                    Some(name) => self.reads(&name),
                    None => self.found.must(PrimaryReason::UnknownRelation),
                }
            }
            // Calls are the lexer's business.
            TableFactor::Table { .. }
            | TableFactor::Derived { .. }
            | TableFactor::Function { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::NestedJoin { .. } => {}
            _ => self.found.opaque(PrimaryReason::UnknownFunction),
        }
        ControlFlow::Continue(())
    }
}
