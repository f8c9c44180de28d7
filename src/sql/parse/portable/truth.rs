//! Could a condition be true whatever the rows are? Values are not compared: a comparison of constants counts as true.

use sqlparser::ast::{
    BinaryOperator, Expr, InTarget, JoinConstraint, JoinOperator, Query, SetExpr, UnaryOperator, Value,
};

/// What is found about one condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// It may be true for every row.
    pub(super) always: bool,
    /// It is true for no row.
    pub(super) never: bool,
    /// An OR in it may be widened by a branch that is always true.
    pub(super) widened: bool,
}

/// Is the condition of a join widened?
pub(super) fn widens_join(join: &JoinOperator) -> bool {
    match join {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition)) => judge(condition).widened,
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    /// For certain, or perhaps.
    True,
    False,
    Open,
}

pub(super) fn judge(condition: &Expr) -> Judged {
    let mut widened = false;
    let truth = truth(condition, &mut widened);
    Judged { always: truth == Truth::True, never: truth == Truth::False, widened }
}

fn truth(condition: &Expr, widened: &mut bool) -> Truth {
    match condition {
        Expr::Nested(inner) => truth(inner, widened),
        Expr::Value(value) => match &value.value {
            Value::Boolean(false) | Value::Null => Truth::False,
            Value::Placeholder(_) => Truth::Open,
            _ => Truth::True,
        },
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            match (truth(left, widened), truth(right, widened)) {
                (Truth::False, _) | (_, Truth::False) => Truth::False,
                (Truth::True, Truth::True) => Truth::True,
                _ => Truth::Open,
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            let both = (truth(left, widened), truth(right, widened));
            let complement = complements(left, right);
            if both.0 == Truth::True || both.1 == Truth::True || complement {
                *widened = true;
                return Truth::True;
            }
            if both == (Truth::False, Truth::False) { Truth::False } else { Truth::Open }
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            // NOT (a AND 1 = 0) widens as well; whether it is so is not worked out.
            if matches!(strip(expr), Expr::BinaryOp { op: BinaryOperator::And, .. }) && has_constant(expr) {
                *widened = true;
                return Truth::True;
            }
            match truth(expr, widened) {
                Truth::True if has_constant(expr) => Truth::True,
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Open => Truth::Open,
            }
        }
        // A regular expression that matches everything is not told from others.
        Expr::BinaryOp { left, op: BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexIMatch, right } => {
            either(is_constant(right) || alike(left, right))
        }
        Expr::BinaryOp { op: BinaryOperator::PGRegexNotMatch | BinaryOperator::PGRegexNotIMatch, right, .. }
            if is_constant(right) =>
        {
            Truth::False
        }
        // A column compared with something else hangs on the rows, but for what is the same on both sides.
        Expr::BinaryOp { left, right, .. } => either(is_constant(left) && is_constant(right) || alike(left, right)),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            either(is_constant(left) && is_constant(right) || alike(left, right))
        }
        Expr::Between { expr, low, high, .. } => {
            either(is_constant(expr) && is_constant(low) && is_constant(high) || alike(expr, low) || alike(expr, high))
        }
        Expr::In { expr, target: InTarget::List(list), .. } => {
            either(is_constant(expr) || list.iter().any(|item| alike(expr, item)))
        }
        // `id in (select id from t)` of the same t would be true; which t it is, is not worked out.
        Expr::In { target: InTarget::Subquery(query), .. } => either(!has_condition(query)),
        Expr::In { .. } => Truth::True,
        Expr::AnyOp { left, right, .. } => either(
            is_constant(left)
                || has_columns(right)
                || matches!(strip(right), Expr::Subquery(query) if !has_condition(query)),
        ),
        Expr::AllOp { right, .. } => {
            either(!matches!(strip(right), Expr::Value(_) | Expr::Cast { .. } | Expr::Subquery(_)) || has_array(right))
        }
        Expr::Exists { subquery, .. } => either(!has_condition(subquery)),
        Expr::Like { expr, pattern, negated, .. }
        | Expr::ILike { expr, pattern, negated, .. }
        | Expr::SimilarTo { expr, pattern, negated, .. } => {
            if is_constant(expr) && is_constant(pattern) {
                return Truth::True;
            }
            let similar = matches!(condition, Expr::SimilarTo { .. });
            match (is_wild(pattern, similar) || alike(expr, pattern), negated) {
                (true, true) => Truth::False,
                (matches, _) => either(matches),
            }
        }
        // Every row has its system columns.
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
            either(is_constant(inner) || last_name(inner).is_some_and(is_system))
        }
        Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => either(has_constant(inner) || truth(inner, widened) != Truth::Open),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Truth::Open,
        // Anything else is something of which this cannot tell.
        other => either(!mentions_rows(other)),
    }
}

/// A pattern that matches everything, or of which that is not known.
fn is_wild(pattern: &Expr, similar: bool) -> bool {
    match strip(pattern) {
        Expr::Value(value) if !similar => match value.value.clone().into_string() {
            Some(text) => !text.is_empty() && text.bytes().all(|byte| byte == b'%'),
            None => !matches!(value.value, Value::Placeholder(_)),
        },
        other => is_constant(other),
    }
}

fn either(always: bool) -> Truth {
    if always { Truth::True } else { Truth::Open }
}

fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => strip(inner),
        other => other,
    }
}

/// May one of the two be true wherever the other is not?
fn complements(a: &Expr, b: &Expr) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    // `x` and `not x`, `x in …` and `x not in …`, `x is null` and `x is not null`.
    let (shown, other) = (strip(a).to_string(), strip(b).to_string());
    let bare = |text: &str| text.replace("NOT ", "").replace(['(', ')'], "");
    if shown != other && bare(&shown) == bare(&other) {
        return true;
    }
    match (strip(a), strip(b)) {
        (Expr::BinaryOp { left: a, op, right: x }, Expr::BinaryOp { left: b, op: other, right: y }) => {
            let opposite =
                matches!((op, other), (Eq, NotEq) | (NotEq, Eq) | (Lt, GtEq) | (GtEq, Lt) | (Gt, LtEq) | (LtEq, Gt));
            // What literals say is not looked at.
            opposite && alike(a, b) && (x == y || is_constant(x) && is_constant(y))
        }
        _ => false,
    }
}

/// Do the two say the same, or could they: a column with and without its table?
fn alike(left: &Expr, right: &Expr) -> bool {
    let (left, right) = (strip(left), strip(right));
    match (left, right) {
        (Expr::CompoundIdentifier(a), Expr::CompoundIdentifier(b)) if a.len() == b.len() => {
            a.iter().zip(b).all(|(a, b)| a.value.eq_ignore_ascii_case(&b.value))
        }
        _ => match (last_name(left), last_name(right)) {
            (Some(a), Some(b)) => a == b,
            _ => {
                has_columns(left) && left.to_string().eq_ignore_ascii_case(&right.to_string())
                    || same_parameter(left, right)
            }
        },
    }
}

fn last_name(expr: &Expr) -> Option<String> {
    match strip(expr) {
        Expr::Identifier(name) => Some(name.value.to_ascii_lowercase()),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.to_ascii_lowercase()),
        _ => None,
    }
}

fn is_system(column: String) -> bool {
    matches!(&*column, "tableoid" | "xmin" | "cmin" | "xmax" | "cmax" | "ctid")
}

fn has_array(expr: &Expr) -> bool {
    any(expr, &|expr| matches!(expr, Expr::Array(_)))
}

fn same_parameter(left: &Expr, right: &Expr) -> bool {
    matches!((left, right), (Expr::Value(a), Expr::Value(b)) if matches!(a.value, Value::Placeholder(_)) && a.value == b.value)
}

/// No column, no parameter, no query with a FROM.
fn is_constant(expr: &Expr) -> bool {
    !mentions_rows(expr)
}

/// Some part of it is.
fn has_constant(expr: &Expr) -> bool {
    match strip(expr) {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            has_constant(left) || has_constant(right)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => has_constant(expr),
        other => truth(other, &mut false) == Truth::True || is_constant(other),
    }
}

fn has_columns(expr: &Expr) -> bool {
    any(expr, &|expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

fn mentions_rows(expr: &Expr) -> bool {
    any(expr, &|expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Subquery(query) | Expr::Exists { subquery: query, .. } => has_condition(query),
        Expr::Function(function) => OPEN.contains(&&*function.name.to_string().to_ascii_lowercase()),
        _ => false,
    })
}

/// Functions whose value is not known beforehand, and that conditions of honest statements are made of.
const OPEN: [&str; 4] = ["current_setting", "now", "random", "pg_has_role"];

fn any(expr: &Expr, of: &dyn Fn(&Expr) -> bool) -> bool {
    struct Look<'f>(&'f dyn Fn(&Expr) -> bool);
    impl sqlparser::ast::Visitor for Look<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> std::ops::ControlFlow<()> {
            if (self.0)(expr) { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        }
    }
    sqlparser::ast::Visit::visit(expr, &mut Look(of)).is_break()
}

/// A query whose rows hang on something: it has a FROM, and a WHERE that says something.
fn has_condition(query: &Query) -> bool {
    // One row, whatever is counted.
    if super::clauses::only_aggregates(&query.body) {
        return false;
    }
    match &*query.body {
        SetExpr::Select(select) => select.selection.as_ref().is_some_and(|condition| match select.from.is_empty() {
            true => has_columns(condition),
            false => !judge(condition).always,
        }),
        SetExpr::Query(query) => has_condition(query),
        _ => false,
    }
}
