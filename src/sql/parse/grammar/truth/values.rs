//! Values of constant expressions, as far as conditions that are always true need them.

use std::cmp::Ordering;

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{AExpr, AExprKind, FuncCall, a_const::Val},
};

use super::{FALSE, Fold, Folding, Language, NULL, OPEN, TRUE, scalar};
use crate::sql::parse::grammar::{
    children::each_child,
    settings,
    walk::{qualified, word},
};

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    is: Is,
    from: From,
}

/// Where a value comes from: does another text of the same shape have another one here?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    /// Keywords alone: it is the same in all of them.
    Keywords,
    /// A literal: in all of them a value other than NULL.
    Literal,
    /// Made from literals: with others it could be NULL, or fail.
    Literals,
}

#[derive(Clone, Debug, PartialEq)]
enum Is {
    Null,
    Bool(bool),
    Int(i64),
    Number(f64),
    Text(String),
    /// Some value, or a failure: it cannot be worked out here.
    Unknown,
}

/// The value of a literal.
pub(super) fn of_constant(node: &NodeEnum) -> Option<Value> {
    let NodeEnum::AConst(constant) = node else { return None };
    if constant.isnull {
        return Some(Value { is: Is::Null, from: From::Keywords });
    }
    let is = match constant.val.as_ref()? {
        Val::Ival(n) => Is::Int(n.ival.into()),
        Val::Fval(n) => match (n.fval.parse(), n.fval.parse()) {
            (Ok(int), _) => Is::Int(int),
            (_, Ok(number)) => Is::Number(number),
            _ => Is::Unknown,
        },
        Val::Boolval(b) => return Some(Value { is: Is::Bool(b.boolval), from: From::Keywords }),
        Val::Sval(s) => Is::Text(s.sval.clone()),
        Val::Bsval(s) => Is::Text(s.bsval.clone()),
    };
    Some(Value { is, from: From::Literal })
}

impl Value {
    pub(super) fn is_null(&self) -> bool {
        self.is == Is::Null
    }

    /// Could it be worked out?
    pub(super) fn is_known(&self) -> bool {
        self.is != Is::Unknown
    }

    /// With other literals it could be NULL, or fail.
    pub(super) fn is_worked_out(&self) -> bool {
        self.from == From::Literals
    }

    /// As a condition.
    pub(super) fn truth(&self) -> Fold {
        let truth = |is: bool| if is { TRUE } else { FALSE };
        let is = match &self.is {
            Is::Null => NULL,
            Is::Bool(is) => truth(*is),
            Is::Text(text) => settings::boolean(text).map_or(OPEN, truth),
            Is::Int(n) => truth(*n != 0),
            Is::Number(_) | Is::Unknown => OPEN,
        };
        if self.from == From::Keywords { Fold::firm(is) } else { Fold::literal(is) }
    }

    pub(super) fn compare(&self, operator: &str, other: &Self) -> Fold {
        let from = self.from.max(other.from);
        if self.is_null() || other.is_null() {
            return if from == From::Literals { Fold::literal(NULL) } else { Fold::firm(NULL) };
        }
        let fold = |is| if from == From::Keywords { Fold::firm(is) } else { Fold::literal(is) };
        let Some(order) = self.order(other) else { return fold(OPEN) };
        let holds = match operator {
            "=" => order == Ordering::Equal,
            "<>" | "!=" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            _ => return fold(OPEN),
        };
        fold(if holds { TRUE } else { FALSE })
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
            Is::Null | Is::Bool(_) | Is::Unknown => None,
        }
    }

    /// LIKE of two constants.
    pub(super) fn matches(&self, pattern: &Self, fold_case: bool) -> Fold {
        let fold = |is| if self.from.max(pattern.from) == From::Keywords { Fold::firm(is) } else { Fold::literal(is) };
        let (Is::Text(text), Is::Text(like)) = (&self.is, &pattern.is) else { return fold(OPEN) };
        let case = |text: &str| if fold_case { text.to_lowercase() } else { text.to_owned() };
        let (text, like) = (case(text), case(like));
        let is = matches_like(&text.chars().collect::<Vec<_>>(), &like.chars().collect::<Vec<_>>());
        fold(if is { TRUE } else { FALSE })
    }

    /// Does every text match this pattern? Of regular expressions a few texts tell.
    pub(super) fn matches_everything(&self, language: Language) -> bool {
        const LONGEST: usize = 200;
        const TEXTS: [&str; 8] = ["", "a", "Z", "0", " ", "é!", "q\nq", "The quick brown fox, 1234567890"];
        let Is::Text(pattern) = &self.is else { return false };
        let regex = match language {
            Language::Like => return !pattern.is_empty() && pattern.bytes().all(|byte| byte == b'%'),
            Language::Similar => format!("^(?s:{})$", pattern.replace('%', ".*").replace('_', ".")),
            Language::Regex => format!("(?s:{pattern})"),
        };
        // Repetitions by number could make it large.
        let small = regex.len() <= LONGEST && !regex.contains('{');
        small && regex::Regex::new(&regex).is_ok_and(|regex| TEXTS.iter().all(|text| regex.is_match(text)))
    }

    fn text(&self) -> Option<String> {
        match &self.is {
            Is::Text(text) => Some(text.clone()),
            Is::Int(n) => Some(n.to_string()),
            Is::Null | Is::Bool(_) | Is::Number(_) | Is::Unknown => None,
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
    /// The value of an expression of constants alone. Whether there is one, and where it comes from, is the same for all texts of the
    /// shape; what cannot be worked out is `Unknown`.
    pub(super) fn value(&mut self, node: &Node) -> Option<Value> {
        match node.node.as_ref()? {
            constant @ NodeEnum::AConst(_) => of_constant(constant),
            NodeEnum::TypeCast(cast) => {
                let value = self.value(cast.arg.as_deref()?)?;
                let kind = cast.type_name.as_ref().and_then(|name| name.names.last()).map_or("", word);
                let from = match &value.is {
                    // Any text is one.
                    Is::Text(_) if kind == "text" => value.from,
                    _ => value.from.worked_out(),
                };
                Some(Value { is: value.cast(kind).unwrap_or(Is::Unknown), from })
            }
            NodeEnum::CollateClause(n) => self.value(n.arg.as_deref()?),
            NodeEnum::AExpr(n) if n.kind == AExprKind::AexprOp as i32 => self.operation(n),
            NodeEnum::FuncCall(n) if !n.args.is_empty() => self.call(n),
            NodeEnum::CoalesceExpr(n) => {
                for arg in &n.args {
                    match self.value(arg)? {
                        // With other literals it could be this one.
                        Value { is: Is::Null, from: From::Literals } => return Some(Value::UNKNOWN),
                        value if !value.is_null() => return Some(value),
                        _ => {}
                    }
                }
                Some(Value { is: Is::Null, from: From::Keywords })
            }
            NodeEnum::SubLink(link) => match link.subselect.as_deref()?.node.as_ref()? {
                NodeEnum::SelectStmt(query) if link.testexpr.is_none() => {
                    let is_scalar = link.sub_link_type == pg_query::protobuf::SubLinkType::ExprSublink as i32;
                    self.value(scalar(query).filter(|_| is_scalar)?)
                }
                _ => None,
            },
            other => (constants(other.to_ref()) == Some(Literals::Some)).then_some(Value::UNKNOWN),
        }
    }

    fn operation(&mut self, operation: &AExpr) -> Option<Value> {
        let operator = operation.name.last().map(word)?;
        let right = self.value(operation.rexpr.as_deref()?)?;
        let Some(left) = operation.lexpr.as_deref() else {
            let from = right.from.worked_out();
            return Some(Value { is: right.signed(operator).unwrap_or(Is::Unknown), from });
        };
        let left = self.value(left)?;
        let never = |one: &Value, other: &Value| one.is_null() && !one.is_worked_out() && !other.is_worked_out();
        if never(&left, &right) || never(&right, &left) {
            return Some(Value { is: Is::Null, from: From::Keywords });
        }
        let from = left.from.max(right.from).worked_out();
        Some(Value { is: left.with(operator, &right).unwrap_or(Is::Unknown), from })
    }

    /// A few functions that injections use to make constants look like more.
    fn call(&mut self, call: &FuncCall) -> Option<Value> {
        let (schema, function) = qualified(&call.funcname);
        let arguments = call.args.iter().map(|argument| self.value(argument)).collect::<Option<Vec<_>>>()?;
        let from = arguments.iter().map(|argument| argument.from).max()?.worked_out();
        let is = match arguments.as_slice() {
            [argument] if matches!(schema, "" | "pg_catalog") => argument.given_to(function),
            _ => None,
        };
        match is {
            // Of keywords alone: what is not known is not known for any literal.
            None if from == From::Keywords => None,
            is => Some(Value { is: is.unwrap_or(Is::Unknown), from }),
        }
    }
}

impl From {
    fn worked_out(self) -> Self {
        if self == Self::Keywords { Self::Keywords } else { Self::Literals }
    }
}

impl Value {
    const UNKNOWN: Self = Self { is: Is::Unknown, from: From::Literals };

    fn cast(&self, kind: &str) -> Option<Is> {
        Some(match (kind, &self.is) {
            (_, Is::Null) => Is::Null,
            ("bool" | "boolean", Is::Text(text)) => Is::Bool(settings::boolean(text)?),
            ("bool" | "boolean", Is::Int(n)) => Is::Bool(*n != 0),
            ("int2" | "int4" | "int8", Is::Text(text)) => Is::Int(text.trim().parse().ok()?),
            ("int2" | "int4" | "int8", Is::Bool(b)) => Is::Int((*b).into()),
            ("int2" | "int4" | "int8", Is::Number(_)) => return None,
            ("numeric" | "float4" | "float8", Is::Text(_)) => Is::Number(self.number()?),
            ("text" | "varchar", Is::Int(_)) => Is::Text(self.text()?),
            (_, other) => other.clone(),
        })
    }

    fn signed(&self, operator: &str) -> Option<Is> {
        Some(match (operator, &self.is) {
            (_, Is::Null) => Is::Null,
            ("-", Is::Int(n)) => Is::Int(n.checked_neg()?),
            ("-", Is::Number(n)) => Is::Number(-n),
            ("+", Is::Int(_) | Is::Number(_)) => self.is.clone(),
            _ => return None,
        })
    }

    fn with(&self, operator: &str, other: &Self) -> Option<Is> {
        if !self.is_known() || !other.is_known() {
            return None;
        }
        if matches!(operator, "=" | "<>" | "<" | "<=" | ">" | ">=") {
            return Some(match self.compare(operator, other).is {
                TRUE => Is::Bool(true),
                FALSE => Is::Bool(false),
                NULL => Is::Null,
                _ => return None,
            });
        }
        if self.is_null() || other.is_null() {
            return Some(Is::Null);
        }
        Some(match (operator, &self.is, &other.is) {
            ("+", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_add(*b)?),
            ("-", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_sub(*b)?),
            ("*", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_mul(*b)?),
            ("/", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_div(*b)?),
            ("%", Is::Int(a), Is::Int(b)) => Is::Int(a.checked_rem(*b)?),
            ("+", _, _) => Is::Number(self.number()? + other.number()?),
            ("-", _, _) => Is::Number(self.number()? - other.number()?),
            ("*", _, _) => Is::Number(self.number()? * other.number()?),
            ("||", _, _) => Is::Text(self.text()? + &other.text()?),
            _ => return None,
        })
    }

    fn given_to(&self, function: &str) -> Option<Is> {
        Some(match (function, &self.is) {
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
        })
    }
}

/// Are there literals in what consists of constants alone?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literals {
    None,
    Some,
}

/// `None`: it hangs on rows or parameters.
fn constants(node: NodeRef<'_>) -> Option<Literals> {
    let mut found = match node {
        NodeRef::ColumnRef(_) | NodeRef::ParamRef(_) | NodeRef::RangeVar(_) | NodeRef::CurrentOfExpr(_) => return None,
        NodeRef::AConst(constant) if !constant.isnull && !matches!(constant.val, Some(Val::Boolval(_))) => {
            Some(Literals::Some)
        }
        _ => Some(Literals::None),
    };
    each_child(node, &mut |child| {
        if let Some(known) = found {
            found = constants(child).map(|inner| if inner == Literals::Some { inner } else { known });
        }
    });
    found
}
