//! Values of constant expressions, as far as conditions that are always true need them.

use std::cmp::Ordering;

use pg_query::{
    Node, NodeEnum,
    protobuf::{AExpr, AExprKind, FuncCall, TypeCast, a_const::Val},
};

use super::{FALSE, Fold, Folding, NULL, OPEN, TRUE, scalar};
use crate::sql::parse::grammar::{
    settings,
    walk::{qualified, word},
};

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    is: Is,
    /// A literal is in it, so that another text of the same shape has another value here.
    literal: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Is {
    Null,
    Bool(bool),
    Int(i64),
    Number(f64),
    Text(String),
}

/// The value of a literal.
pub(super) fn of_constant(node: &NodeEnum) -> Option<Value> {
    let NodeEnum::AConst(constant) = node else { return None };
    if constant.isnull {
        return Some(Value { is: Is::Null, literal: false });
    }
    Some(match constant.val.as_ref()? {
        Val::Ival(n) => Value { is: Is::Int(n.ival.into()), literal: true },
        Val::Fval(n) => match n.fval.parse() {
            Ok(int) => Value { is: Is::Int(int), literal: true },
            Err(_) => Value { is: Is::Number(n.fval.parse().ok()?), literal: true },
        },
        // A keyword, not a literal: it is in the shape.
        Val::Boolval(b) => Value { is: Is::Bool(b.boolval), literal: false },
        Val::Sval(s) => Value { is: Is::Text(s.sval.clone()), literal: true },
        Val::Bsval(s) => Value { is: Is::Text(s.bsval.clone()), literal: true },
    })
}

impl Value {
    pub(super) fn is_null(&self) -> bool {
        self.is == Is::Null
    }

    /// As a condition.
    pub(super) fn truth(&self) -> Fold {
        let is = match &self.is {
            Is::Null => return Fold::firm(NULL),
            Is::Bool(is) => *is,
            Is::Text(text) => match settings::boolean(text) {
                Some(is) => is,
                None => return Fold::literal(OPEN),
            },
            Is::Int(n) => *n != 0,
            Is::Number(_) => return Fold::firm(OPEN),
        };
        if self.literal { Fold::literal(if is { TRUE } else { FALSE }) } else { Fold::of(is) }
    }

    pub(super) fn compare(&self, operator: &str, other: &Self) -> Fold {
        if self.is_null() || other.is_null() {
            return Fold::firm(NULL);
        }
        let Some(order) = self.order(other) else { return Fold::literal(OPEN) };
        let holds = match operator {
            "=" => order == Ordering::Equal,
            "<>" | "!=" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            _ => return Fold::literal(OPEN),
        };
        let is = if holds { TRUE } else { FALSE };
        if self.literal || other.literal { Fold::literal(is) } else { Fold::firm(is) }
    }

    /// A text beside another type is read as that type, as PostgreSQL reads an untyped literal.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (&self.is, &other.is) {
            (Is::Bool(a), Is::Bool(b)) => Some(a.cmp(b)),
            (Is::Bool(a), Is::Text(b)) => Some(a.cmp(&settings::boolean(b)?)),
            (Is::Text(a), Is::Bool(b)) => Some(settings::boolean(a)?.cmp(b)),
            (Is::Text(a), Is::Text(b)) => Some(a.cmp(b)),
            (Is::Int(a), Is::Int(b)) => Some(a.cmp(b)),
            _ => self.number()?.partial_cmp(&other.number()?),
        }
    }

    fn number(&self) -> Option<f64> {
        match &self.is {
            Is::Int(n) => Some(*n as f64),
            Is::Number(n) => Some(*n),
            Is::Text(text) => text.trim().parse().ok(),
            Is::Null | Is::Bool(_) => None,
        }
    }

    /// LIKE of two constants.
    pub(super) fn matches(&self, pattern: &Self, fold_case: bool) -> Fold {
        let (Is::Text(text), Is::Text(like)) = (&self.is, &pattern.is) else {
            return Fold { is: OPEN, could: OPEN | TRUE | FALSE };
        };
        let case = |text: &str| if fold_case { text.to_lowercase() } else { text.to_owned() };
        let (text, like) = (case(text), case(like));
        let is = matches_like(&text.chars().collect::<Vec<_>>(), &like.chars().collect::<Vec<_>>());
        if self.literal || pattern.literal { Fold::literal(if is { TRUE } else { FALSE }) } else { Fold::of(is) }
    }

    fn text(&self) -> Option<String> {
        match &self.is {
            Is::Text(text) => Some(text.clone()),
            Is::Int(n) => Some(n.to_string()),
            Is::Null | Is::Bool(_) | Is::Number(_) => None,
        }
    }
}

/// PostgreSQL's LIKE with the usual escape character. The last `%` is the only one to come back to.
fn matches_like(text: &[char], pattern: &[char]) -> bool {
    let (mut at, mut next) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while at < text.len() {
        let step = match pattern.get(next) {
            Some('%') => {
                back = Some((next + 1, at));
                next += 1;
                continue;
            }
            Some('_') => Some(1),
            Some('\\') => (pattern.get(next + 1) == text.get(at)).then_some(2),
            literal => (literal == text.get(at)).then_some(1),
        };
        match (step, &mut back) {
            (Some(step), _) => (at, next) = (at + 1, next + step),
            (None, Some((pattern, from))) => {
                *from += 1;
                (at, next) = (*from, *pattern);
            }
            (None, None) => return false,
        }
    }
    pattern.get(next..).unwrap_or_default().iter().all(|&c| c == '%')
}

impl Folding<'_> {
    /// The value of an expression that is the same for every row and every parameter.
    pub(super) fn value(&mut self, node: &Node) -> Option<Value> {
        let node = node.node.as_ref()?;
        match node {
            NodeEnum::AConst(_) => of_constant(node),
            NodeEnum::TypeCast(cast) => self.cast(cast),
            NodeEnum::CollateClause(n) => self.value(n.arg.as_deref()?),
            NodeEnum::AExpr(n) if n.kind == AExprKind::AexprOp as i32 => self.operation(n),
            NodeEnum::FuncCall(n) => self.call(n),
            NodeEnum::CoalesceExpr(n) => n.args.iter().find_map(|arg| match self.value(arg) {
                Some(value) if value.is_null() => None,
                other => Some(other),
            })?,
            NodeEnum::SubLink(link) => match link.subselect.as_deref()?.node.as_ref()? {
                NodeEnum::SelectStmt(query) if link.testexpr.is_none() => {
                    let is_scalar = link.sub_link_type == pg_query::protobuf::SubLinkType::ExprSublink as i32;
                    self.value(scalar(query).filter(|_| is_scalar)?)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn cast(&mut self, cast: &TypeCast) -> Option<Value> {
        let value = self.value(cast.arg.as_deref()?)?;
        let kind = word(cast.type_name.as_ref()?.names.last()?);
        let is = match (kind, &value.is) {
            (_, Is::Null) => Is::Null,
            ("bool" | "boolean", Is::Text(text)) => Is::Bool(settings::boolean(text)?),
            ("bool" | "boolean", Is::Int(n)) => Is::Bool(*n != 0),
            ("int2" | "int4" | "int8", Is::Text(text)) => Is::Int(text.trim().parse().ok()?),
            ("int2" | "int4" | "int8", Is::Bool(b)) => Is::Int((*b).into()),
            ("int2" | "int4" | "int8", Is::Number(_)) => return None,
            ("numeric" | "float4" | "float8", Is::Text(_)) => Is::Number(value.number()?),
            ("text" | "varchar", Is::Int(_)) => Is::Text(value.text()?),
            (_, other) => other.clone(),
        };
        Some(Value { is, ..value })
    }

    fn operation(&mut self, operation: &AExpr) -> Option<Value> {
        let operator = operation.name.last().map(word)?;
        let right = self.value(operation.rexpr.as_deref()?)?;
        let Some(left) = operation.lexpr.as_deref() else {
            let is = match (operator, &right.is) {
                ("-", Is::Int(n)) => Is::Int(n.checked_neg()?),
                ("-", Is::Number(n)) => Is::Number(-n),
                ("+", Is::Int(_) | Is::Number(_)) => right.is,
                _ => return None,
            };
            return Some(Value { is, literal: right.literal });
        };
        let left = self.value(left)?;
        let literal = left.literal || right.literal;
        if matches!(operator, "=" | "<>" | "<" | "<=" | ">" | ">=") {
            let is = match left.compare(operator, &right).is {
                TRUE => Is::Bool(true),
                FALSE => Is::Bool(false),
                NULL => Is::Null,
                _ => return None,
            };
            return Some(Value { is, literal });
        }
        if left.is_null() || right.is_null() {
            return Some(Value { is: Is::Null, literal });
        }
        let is = match (operator, &left.is, &right.is) {
            ("+", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_add(*b)?),
            ("-", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_sub(*b)?),
            ("*", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_mul(*b)?),
            ("/", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_div(*b)?),
            ("%", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_rem(*b)?),
            ("+", _, _) => Is::Number(left.number()? + right.number()?),
            ("-", _, _) => Is::Number(left.number()? - right.number()?),
            ("*", _, _) => Is::Number(left.number()? * right.number()?),
            ("||", _, _) => Is::Text(left.text()? + &right.text()?),
            _ => return None,
        };
        Some(Value { is, literal })
    }

    /// A few functions that injections use to make constants look like more.
    fn call(&mut self, call: &FuncCall) -> Option<Value> {
        let (schema, function) = qualified(&call.funcname);
        let [argument] = call.args.as_slice() else { return None };
        if !matches!(schema, "" | "pg_catalog") {
            return None;
        }
        let argument = self.value(argument)?;
        let is = match (function, &argument.is) {
            (_, Is::Null) => Is::Null,
            ("length" | "char_length" | "character_length", Is::Text(text)) => {
                Is::Int(text.chars().count().try_into().ok()?)
            }
            ("ascii", Is::Text(text)) => Is::Int(text.chars().next().map_or(0, u32::from).into()),
            ("chr", Is::Int(n)) => Is::Text(char::from_u32(u32::try_from(*n).ok()?)?.into()),
            ("lower", Is::Text(text)) => Is::Text(text.to_lowercase()),
            ("upper", Is::Text(text)) => Is::Text(text.to_uppercase()),
            ("abs", Is::Int(n)) => Is::Int(n.checked_abs()?),
            _ => return None,
        };
        Some(Value { is, literal: argument.literal })
    }
}
