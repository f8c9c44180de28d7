//! WHERE and LIMIT of queries, and joins without a condition.

use sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, LimitClause, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, Value,
};

use super::{tree::ident, truth};
use crate::sql::facts::Clause;

/// Names of WITH queries, and the filter that each has.
pub(super) type Scope = Vec<(String, Clause)>;

/// The filter of a query: `Missing` if a relation is read without one.
pub(super) fn filter(query: &Query, scope: &mut Scope) -> Clause {
    let outside = scope.len();
    if let Some(with) = &query.with {
        for cte in &with.cte_tables {
            let name = ident(&cte.alias.name);
            if with.recursive {
                scope.push((name, Clause::NotApplicable));
                let inside = filter(&cte.query, scope);
                if let Some(last) = scope.last_mut() {
                    last.1 = inside;
                }
            } else {
                let inside = filter(&cte.query, scope);
                scope.push((name, inside));
            }
        }
    }
    let found = body(&query.body, scope);
    scope.truncate(outside);
    found
}

fn body(body: &SetExpr, scope: &mut Scope) -> Clause {
    match body {
        SetExpr::Select(select) => {
            let sources = select.from.iter().fold(Clause::NotApplicable, |all, item| all.max(joined(item, scope)));
            let says = select.selection.as_ref().is_some_and(|condition| !truth::judge(condition).always);
            if sources == Clause::Missing && says { Clause::Present } else { sources }
        }
        SetExpr::Query(query) => filter(query, scope),
        SetExpr::SetOperation { left, right, .. } => {
            let left = self::body(left, scope);
            left.max(self::body(right, scope))
        }
        SetExpr::Table(_) => Clause::Missing,
        SetExpr::Values(_) | SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            Clause::NotApplicable
        }
    }
}

fn joined(item: &TableWithJoins, scope: &mut Scope) -> Clause {
    let first = source(&item.relation, scope);
    item.joins.iter().fold(first, |all, join| all.max(source(&join.relation, scope)))
}

fn source(factor: &TableFactor, scope: &mut Scope) -> Clause {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            let cte = match name.0.as_slice() {
                [one] => {
                    one.as_ident().map(ident).and_then(|name| scope.iter().rev().find(|(known, _)| *known == name))
                }
                _ => None,
            };
            cte.map_or(Clause::Missing, |(_, filter)| *filter)
        }
        TableFactor::Derived { subquery, .. } => filter(subquery, scope),
        TableFactor::NestedJoin { table_with_joins, .. } => joined(table_with_joins, scope),
        _ => Clause::NotApplicable,
    }
}

/// The LIMIT of a query with this filter.
pub(super) fn limit(query: &Query, filter: Clause) -> Clause {
    let limited = match (&query.limit_clause, &query.fetch) {
        (Some(LimitClause::LimitOffset { limit: Some(limit), .. }), _) => {
            !matches!(limit, Expr::Value(value) if value.value == Value::Null)
        }
        (_, Some(fetch)) => !fetch.percent,
        _ => false,
    };
    if filter == Clause::NotApplicable || only_aggregates(&query.body) {
        Clause::NotApplicable
    } else if limited {
        Clause::Present
    } else {
        Clause::Missing
    }
}

/// Only the surest: `select count(*) from t`.
pub(super) fn only_aggregates(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else { return false };
    let plain = match &select.group_by {
        sqlparser::ast::GroupByExpr::Expressions(by, modifiers) => by.is_empty() && modifiers.is_empty(),
        sqlparser::ast::GroupByExpr::All(_) => false,
    };
    let aggregate = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } => {
            let name = function.name.to_string().to_ascii_lowercase();
            function.over.is_none() && matches!(&*name, "count" | "sum" | "avg" | "min" | "max")
        }
        _ => false,
    };
    plain && !select.projection.is_empty() && select.projection.iter().all(aggregate)
}

/// Could relations be joined without a condition? Two that are compared with each other are not; beyond two this does not tell.
pub(super) fn crosses(select: &Select) -> bool {
    let crossing: usize =
        select.from.iter().map(|item| 1 + item.joins.iter().filter(|join| is_crossing(join)).count()).sum();
    let lateral = |factor: &TableFactor| match factor {
        TableFactor::Table { args, .. } => args.is_some(),
        TableFactor::Derived { lateral, .. } => *lateral,
        TableFactor::NestedJoin { .. } => false,
        _ => true,
    };
    let all_lateral = select.from.iter().skip(1).all(|item| lateral(&item.relation))
        && select
            .from
            .iter()
            .flat_map(|item| &item.joins)
            .filter(|join| is_crossing(join))
            .all(|join| lateral(&join.relation));
    let nested = select
        .from
        .iter()
        .any(|item| nests_crossing(&item.relation) || item.joins.iter().any(|join| nests_crossing(&join.relation)));
    if nested {
        return true;
    }
    match crossing {
        0 | 1 => false,
        _ if all_lateral => false,
        2 => !select.selection.as_ref().is_some_and(compares_columns),
        _ => true,
    }
}

fn nests_crossing(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => {
            nests_crossing(&table_with_joins.relation) || table_with_joins.joins.iter().any(is_crossing)
        }
        _ => false,
    }
}

fn is_crossing(join: &Join) -> bool {
    match &join.join_operator {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => match constraint {
            JoinConstraint::On(condition) => truth::judge(condition).always,
            JoinConstraint::None => true,
            JoinConstraint::Using(_) | JoinConstraint::UsingAlias(..) | JoinConstraint::Natural => false,
        },
        _ => false,
    }
}

/// A column of one table beside one of another, in a condition that must hold.
fn compares_columns(condition: &Expr) -> bool {
    let table = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(names) => names.iter().rev().nth(1).map(ident),
        _ => None,
    };
    match condition {
        Expr::Nested(inner) => compares_columns(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => compares_columns(left) || compares_columns(right),
        Expr::BinaryOp { left, op, right } if *op != BinaryOperator::Or => match (table(left), table(right)) {
            (Some(left), Some(right)) => left != right,
            _ => false,
        },
        _ => false,
    }
}
