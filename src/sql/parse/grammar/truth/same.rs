//! Do two expressions say the same? Where they stand is left out of account.

use pg_query::{
    Node, NodeEnum,
    protobuf::{AExprKind, BoolExprType, BoolTestType, ColumnRef, NullTestType, RangeVar, a_const::Val},
};

use super::{shown, word};

/// What is known of the relations that a condition is about.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Known<'t> {
    /// The one relation whose columns it is about, if there is just one: `id` and `t.id` are the same then.
    pub(in super::super) only: Option<&'t RangeVar>,
    /// The relation whose rows are chosen, where others are beside it.
    pub(in super::super) target: Option<&'t RangeVar>,
    /// Names under which that one stands beside itself: each row meets itself there.
    pub(in super::super) twins: &'t [&'t str],
}

/// How alike two expressions are that differ in literals at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Word for word the same, without a literal in them.
    Always,
    /// The same but for literals; `now`: these are the same as well.
    ByLiterals { now: bool },
}

impl Likeness {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Always, other) | (other, Self::Always) => other,
            (Self::ByLiterals { now: a }, Self::ByLiterals { now: b }) => Self::ByLiterals { now: a && b },
        }
    }
}

/// Functions that do not give the same twice.
const FICKLE: [&str; 7] =
    ["random", "random_normal", "clock_timestamp", "timeofday", "gen_random_uuid", "uuidv7", "nextval"];

/// `None`: they say different things.
pub(super) fn likeness(a: &Node, b: &Node, table: Known<'_>) -> Option<Likeness> {
    match (a.node.as_ref()?, b.node.as_ref()?) {
        (NodeEnum::ColumnRef(a), NodeEnum::ColumnRef(b)) => same_column(a, b, table).then_some(Likeness::Always),
        (NodeEnum::ParamRef(a), NodeEnum::ParamRef(b)) => (a.number == b.number).then_some(Likeness::Always),
        (NodeEnum::AConst(a), NodeEnum::AConst(b)) => match (&a.val, &b.val) {
            (None, None) => Some(Likeness::Always),
            (Some(Val::Boolval(a)), Some(Val::Boolval(b))) => (a == b).then_some(Likeness::Always),
            (Some(a), Some(b)) => {
                // Large integers are kept as text with a point would be; to the shape both are numbers.
                let number = |value: &Val| matches!(value, Val::Ival(_) | Val::Fval(_));
                let alike = std::mem::discriminant(a) == std::mem::discriminant(b) || (number(a) && number(b));
                alike.then(|| Likeness::ByLiterals { now: a == b })
            }
            _ => None,
        },
        (NodeEnum::TypeCast(a), NodeEnum::TypeCast(b)) => {
            let inner = likeness(a.arg.as_deref()?, b.arg.as_deref()?, table)?;
            Some(inner.and(same_type(&a.type_name.as_ref()?.names, &b.type_name.as_ref()?.names)?))
        }
        (NodeEnum::CollateClause(a), NodeEnum::CollateClause(b)) => {
            (words(&a.collname) == words(&b.collname)).then_some(())?;
            likeness(a.arg.as_deref()?, b.arg.as_deref()?, table)
        }
        (NodeEnum::AExpr(a), NodeEnum::AExpr(b)) => {
            (a.kind == b.kind && words(&a.name) == words(&b.name)).then_some(())?;
            let right = likeness(a.rexpr.as_deref()?, b.rexpr.as_deref()?, table)?;
            match (a.lexpr.as_deref(), b.lexpr.as_deref()) {
                (Some(a), Some(b)) => Some(right.and(likeness(a, b, table)?)),
                (None, None) => Some(right),
                _ => None,
            }
        }
        (NodeEnum::FuncCall(a), NodeEnum::FuncCall(b)) => {
            let alike = words(&a.funcname) == words(&b.funcname)
                && !a.funcname.last().is_some_and(|name| FICKLE.contains(&word(name)))
                && a.over.is_none()
                && b.over.is_none();
            alike.then_some(())?;
            all_alike(&a.args, &b.args, table)
        }
        (NodeEnum::List(a), NodeEnum::List(b)) => all_alike(&a.items, &b.items, table),
        (NodeEnum::CoalesceExpr(a), NodeEnum::CoalesceExpr(b)) => all_alike(&a.args, &b.args, table),
        (NodeEnum::RowExpr(a), NodeEnum::RowExpr(b)) => all_alike(&a.args, &b.args, table),
        (NodeEnum::AArrayExpr(a), NodeEnum::AArrayExpr(b)) => all_alike(&a.elements, &b.elements, table),
        _ => None,
    }
}

fn all_alike(a: &[Node], b: &[Node], table: Known<'_>) -> Option<Likeness> {
    if a.len() != b.len() {
        return None;
    }
    a.iter().zip(b).try_fold(Likeness::Always, |all, (a, b)| Some(all.and(likeness(a, b, table)?)))
}

/// Is one of the two true wherever the other is not, NULL aside?
pub(super) fn complements(a: &Node, b: &Node, table: Known<'_>) -> Option<Likeness> {
    match (a.node.as_ref()?, b.node.as_ref()?) {
        (NodeEnum::BoolExpr(not), _) if not.boolop == BoolExprType::NotExpr as i32 => {
            condition_alike(not.args.first()?, b, table)
        }
        (_, NodeEnum::BoolExpr(not)) if not.boolop == BoolExprType::NotExpr as i32 => {
            condition_alike(a, not.args.first()?, table)
        }
        (NodeEnum::NullTest(a), NodeEnum::NullTest(b)) => {
            let both = [NullTestType::IsNull as i32, NullTestType::IsNotNull as i32];
            let opposite = both == [a.nulltesttype, b.nulltesttype] || both == [b.nulltesttype, a.nulltesttype];
            opposite.then_some(())?;
            likeness(a.arg.as_deref()?, b.arg.as_deref()?, table)
        }
        (NodeEnum::BooleanTest(a), NodeEnum::BooleanTest(b)) => {
            use BoolTestType::{IsFalse, IsNotFalse, IsNotTrue, IsNotUnknown, IsTrue, IsUnknown};
            let pair = (BoolTestType::try_from(a.booltesttype).ok()?, BoolTestType::try_from(b.booltesttype).ok()?);
            let opposite = matches!(
                pair,
                (IsTrue, IsNotTrue)
                    | (IsNotTrue, IsTrue)
                    | (IsFalse, IsNotFalse)
                    | (IsNotFalse, IsFalse)
                    | (IsUnknown, IsNotUnknown)
                    | (IsNotUnknown, IsUnknown)
            );
            opposite.then_some(())?;
            condition_alike(a.arg.as_deref()?, b.arg.as_deref()?, table)
        }
        (NodeEnum::AExpr(a), NodeEnum::AExpr(b)) => {
            let (plain, inside) = (AExprKind::AexprOp as i32, AExprKind::AexprIn as i32);
            let (between, outside) = (AExprKind::AexprBetween as i32, AExprKind::AexprNotBetween as i32);
            let pattern = [AExprKind::AexprLike as i32, AExprKind::AexprIlike as i32];
            let names = (a.name.last().map(word)?, b.name.last().map(word)?);
            let compared =
                matches!(names, ("=", "<>") | ("<>", "=") | ("<", ">=") | (">=", "<") | (">", "<=") | ("<=", ">"));
            let listed = matches!(names, ("=", "<>") | ("<>", "="));
            let matched = matches!(names, ("~~", "!~~") | ("!~~", "~~") | ("~~*", "!~~*") | ("!~~*", "~~*"));
            let opposite = match (a.kind, b.kind) {
                (a, b) if (a, b) == (between, outside) || (a, b) == (outside, between) => true,
                (a, b) if a != b => false,
                (kind, _) if kind == plain => compared,
                (kind, _) if kind == inside => listed,
                (kind, _) => pattern.contains(&kind) && matched,
            };
            opposite.then_some(())?;
            let left = likeness(a.lexpr.as_deref()?, b.lexpr.as_deref()?, table)?;
            Some(left.and(likeness(a.rexpr.as_deref()?, b.rexpr.as_deref()?, table)?))
        }
        _ => None,
    }
}

/// The same, for conditions.
fn condition_alike(a: &Node, b: &Node, table: Known<'_>) -> Option<Likeness> {
    match (a.node.as_ref()?, b.node.as_ref()?) {
        (NodeEnum::NullTest(a), NodeEnum::NullTest(b)) => {
            (a.nulltesttype == b.nulltesttype).then_some(())?;
            likeness(a.arg.as_deref()?, b.arg.as_deref()?, table)
        }
        (NodeEnum::BoolExpr(a), NodeEnum::BoolExpr(b)) => {
            (a.boolop == b.boolop && a.args.len() == b.args.len()).then_some(())?;
            a.args
                .iter()
                .zip(&b.args)
                .try_fold(Likeness::Always, |all, (a, b)| Some(all.and(condition_alike(a, b, table)?)))
        }
        _ => likeness(a, b, table),
    }
}

fn same_type(a: &[Node], b: &[Node]) -> Option<Likeness> {
    let (a, b) = (words(a), words(b));
    // `float(n)` is one of the two by its n.
    let float = |names: &[&str]| names.last().is_some_and(|name| matches!(*name, "float4" | "float8"));
    if float(&a) && float(&b) {
        return Some(Likeness::ByLiterals { now: a == b });
    }
    (a == b).then_some(Likeness::Always)
}

fn words(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(word).collect()
}

fn same_column(a: &ColumnRef, b: &ColumnRef, table: Known<'_>) -> bool {
    let (a, b) = (words(&a.fields), words(&b.fields));
    // A star has no word.
    if a.last().is_none_or(|name| name.is_empty()) {
        return false;
    }
    if a == b {
        return true;
    }
    let only = table.only.map(shown);
    let is_twin = |name: &str| table.twins.contains(&name);
    match (a.as_slice(), b.as_slice()) {
        ([bare], [qualifier, name]) | ([qualifier, name], [bare]) => bare == name && Some(*qualifier) == only,
        ([table_a, name_a], [table_b, name_b]) => name_a == name_b && is_twin(table_a) && is_twin(table_b),
        // `schema.t.id` and `t.id`.
        ([.., table_a, name_a], [.., table_b, name_b]) => a.len() != b.len() && (table_a, name_a) == (table_b, name_b),
        _ => false,
    }
}
