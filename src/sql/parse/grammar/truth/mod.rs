//! Is a condition true whatever the rows are? What can be told without rows, parameters and catalog is worked out.
//!
//! Two things are found of each condition: what it is with the literals that stand there, and what it could be with others of the
//! same kinds. If the two disagree about what is asked, the answer hangs on literals and the walk says so.

mod same;
mod values;

use pg_query::{
    Node, NodeEnum,
    protobuf::{
        AExpr, AExprKind, BoolExpr, BoolExprType, BoolTestType, BooleanTest, CaseExpr, NullTest, NullTestType,
        RangeVar, SelectStmt, SetOperation, SubLink, SubLinkType,
    },
};

use super::{
    target::{is_same, shown},
    walk::word,
};
pub(super) use same::Known;
use same::Likeness;

/// What is found about one condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// It is true for every row.
    pub(super) always: bool,
    /// An OR in it is widened by a branch that is always true.
    pub(super) widened: bool,
    /// It is true for no row.
    pub(super) never: bool,
    /// Other literals could give another answer to the first two.
    pub(super) by_literals: bool,
    /// Other literals could give another outcome of any kind.
    pub(super) varies: bool,
}

/// Judges the condition of a WHERE, HAVING or ON.
pub(super) fn judge(condition: &Node, table: Known<'_>) -> Judged {
    let mut folding = Folding { table, patterns: Patterns::Open, widened: false, by_literals: false };
    let mut fold = folding.truth(condition);
    let widened = folding.widened;
    if folding.patterns == Patterns::Met {
        // A search for nothing widens its OR, and is none the less an honest one.
        folding.patterns = Patterns::Judged;
        fold = folding.truth(condition);
    }
    Judged {
        always: fold.is == TRUE,
        widened,
        never: matches!(fold.is, FALSE | NULL),
        varies: fold.varies(),
        by_literals: folding.by_literals || (fold.could & TRUE != 0 && fold.could != TRUE),
    }
}

/// What is made of patterns beside columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patterns {
    /// They hang on the rows.
    Open,
    /// The same, and there was one.
    Met,
    /// One that matches every text is always true.
    Judged,
}

// Sets of outcomes: what SQL knows, and what hangs on rows or parameters.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const NULL: u8 = 4;
const OPEN: u8 = 8;
const ALL: [u8; 4] = [TRUE, FALSE, NULL, OPEN];

/// The outcome with these literals, and all that are possible with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fold {
    is: u8,
    could: u8,
}

impl Fold {
    /// Whatever the literals are.
    fn firm(is: u8) -> Self {
        Self { is, could: is }
    }

    fn of(is: bool) -> Self {
        Self::firm(if is { TRUE } else { FALSE })
    }

    /// What hangs on literals. Others of the same kinds could make it anything: a comparison can come out otherwise, a cast can fail.
    fn literal(is: u8) -> Self {
        Self { is, could: TRUE | FALSE | NULL | OPEN }
    }

    /// Could other literals give another outcome?
    fn varies(self) -> bool {
        self.could != self.is
    }

    fn map(self, f: impl Fn(u8) -> u8) -> Self {
        let could = ALL.into_iter().filter(|one| self.could & one != 0).fold(0, |all, one| all | f(one));
        Self { is: f(self.is), could }
    }

    fn with(self, other: Self, f: impl Fn(u8, u8) -> u8) -> Self {
        let could = ALL.into_iter().filter(|one| self.could & one != 0).fold(0, |all, one| {
            ALL.into_iter().filter(|two| other.could & two != 0).fold(all, |all, two| all | f(one, two))
        });
        Self { is: f(self.is, other.is), could }
    }

    fn not(self) -> Self {
        self.map(|one| match one {
            TRUE => FALSE,
            FALSE => TRUE,
            other => other,
        })
    }

    fn and(self, other: Self) -> Self {
        self.with(other, |a, b| match (a, b) {
            (FALSE, _) | (_, FALSE) => FALSE,
            (OPEN, _) | (_, OPEN) => OPEN,
            (NULL, _) | (_, NULL) => NULL,
            _ => TRUE,
        })
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

struct Folding<'a> {
    table: Known<'a>,
    patterns: Patterns,
    widened: bool,
    by_literals: bool,
}

const SYSTEM: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

/// Pairs of an OR's branches are only compared up to this many branches.
const PAIRS: usize = 8;

impl Folding<'_> {
    fn truth(&mut self, node: &Node) -> Fold {
        let Some(node) = node.node.as_ref() else { return Fold::firm(OPEN) };
        match node {
            NodeEnum::BoolExpr(n) => self.logic(n),
            NodeEnum::AExpr(n) => self.comparison(n),
            NodeEnum::NullTest(n) => self.null_test(n),
            NodeEnum::BooleanTest(n) => self.boolean_test(n),
            NodeEnum::SubLink(n) => self.sub_select(n),
            NodeEnum::CaseExpr(n) if n.arg.is_none() => self.case(n),
            NodeEnum::CollateClause(n) => n.arg.as_deref().map_or(Fold::firm(OPEN), |arg| self.truth(arg)),
            NodeEnum::CoalesceExpr(n) => self.first_known(&n.args),
            NodeEnum::TypeCast(n) if is_boolean(n.type_name.as_ref().and_then(|t| t.names.last())) => {
                n.arg.as_deref().map_or(Fold::firm(OPEN), |arg| self.as_boolean(arg))
            }
            NodeEnum::AConst(_) => values::of_constant(node).map_or(Fold::firm(OPEN), |value| value.truth()),
            _ => Fold::firm(OPEN),
        }
    }

    /// A cast to boolean: of a condition, or of a literal's text.
    fn as_boolean(&mut self, node: &Node) -> Fold {
        match self.value(node) {
            Some(value) if value.is_known() => value.truth(),
            Some(_) => Fold::literal(self.truth(node).is),
            None => self.truth(node),
        }
    }

    fn logic(&mut self, logic: &BoolExpr) -> Fold {
        match BoolExprType::try_from(logic.boolop) {
            Ok(BoolExprType::AndExpr) => logic.args.iter().fold(Fold::firm(TRUE), |all, arg| all.and(self.truth(arg))),
            Ok(BoolExprType::OrExpr) => self.any_of(logic),
            Ok(BoolExprType::NotExpr) => {
                let Some(arg) = logic.args.first() else { return Fold::firm(OPEN) };
                let inner = self.truth(arg);
                // By De Morgan an OR as well: NOT (a AND 1 = 0).
                if let Some(NodeEnum::BoolExpr(and)) = arg.node.as_ref()
                    && and.boolop == BoolExprType::AndExpr as i32
                {
                    self.widens(inner.not());
                }
                inner.not()
            }
            Ok(BoolExprType::Undefined) | Err(_) => Fold::firm(OPEN),
        }
    }

    fn any_of(&mut self, or: &BoolExpr) -> Fold {
        let mut all = Fold::firm(FALSE);
        for arg in &or.args {
            all = all.or(self.truth(arg));
        }
        if or.args.len() <= PAIRS && all.is != TRUE {
            for (i, a) in or.args.iter().enumerate() {
                for b in or.args.iter().skip(i + 1) {
                    all = all.or(same::complements(a, b, self.table).map_or(Fold::firm(FALSE), like));
                }
            }
        }
        self.widens(all);
        all
    }

    fn widens(&mut self, or: Fold) {
        self.widened |= or.is == TRUE;
        self.by_literals |= or.could & TRUE != 0 && or.could != TRUE;
    }

    /// COALESCE of conditions.
    fn first_known(&mut self, args: &[Node]) -> Fold {
        let Some((first, rest)) = args.split_first() else { return Fold::firm(NULL) };
        let first = self.as_boolean(first);
        self.by_literals |= first.varies();
        match first.is {
            NULL => self.first_known(rest),
            OPEN => Fold::firm(OPEN),
            _ => first,
        }
    }

    fn null_test(&mut self, test: &NullTest) -> Fold {
        let Some(value) = test.arg.as_deref().and_then(|arg| self.value(arg)) else {
            // Every row has its system columns (documentation, "System Columns").
            let system = test.arg.as_deref().and_then(column_name).is_some_and(|name| SYSTEM.contains(&name));
            return if system {
                Fold::of(test.nulltesttype == NullTestType::IsNotNull as i32)
            } else {
                Fold::firm(OPEN)
            };
        };
        if !value.is_known() {
            return Fold::literal(OPEN);
        }
        let holds = Fold::of(value.is_null() == (test.nulltesttype == NullTestType::IsNull as i32));
        // A literal other than NULL is not null, whatever it says.
        if value.is_worked_out() { Fold::literal(holds.is) } else { holds }
    }

    fn boolean_test(&mut self, test: &BooleanTest) -> Fold {
        let Some(arg) = test.arg.as_deref() else { return Fold::firm(OPEN) };
        let (wanted, holds) = match BoolTestType::try_from(test.booltesttype) {
            Ok(BoolTestType::IsTrue) => (TRUE, TRUE),
            Ok(BoolTestType::IsNotTrue) => (TRUE, FALSE),
            Ok(BoolTestType::IsFalse) => (FALSE, TRUE),
            Ok(BoolTestType::IsNotFalse) => (FALSE, FALSE),
            Ok(BoolTestType::IsUnknown) => (NULL, TRUE),
            Ok(BoolTestType::IsNotUnknown) => (NULL, FALSE),
            Ok(BoolTestType::Undefined) | Err(_) => return Fold::firm(OPEN),
        };
        let fails = if holds == TRUE { FALSE } else { TRUE };
        self.as_boolean(arg).map(|one| match one {
            OPEN => OPEN,
            one if one == wanted => holds,
            _ => fails,
        })
    }

    fn case(&mut self, case: &CaseExpr) -> Fold {
        for arm in &case.args {
            let Some(NodeEnum::CaseWhen(arm)) = arm.node.as_ref() else { return Fold::firm(OPEN) };
            let (Some(condition), Some(result)) = (arm.expr.as_deref(), arm.result.as_deref()) else {
                return Fold::firm(OPEN);
            };
            let condition = self.truth(condition);
            self.by_literals |= condition.varies();
            match condition.is {
                TRUE => return self.as_boolean(result),
                OPEN => return Fold::firm(OPEN),
                _ => {}
            }
        }
        case.defresult.as_deref().map_or(Fold::firm(NULL), |result| self.as_boolean(result))
    }

    fn comparison(&mut self, comparison: &AExpr) -> Fold {
        let (left, right) = (comparison.lexpr.as_deref(), comparison.rexpr.as_deref());
        let (Some(left), Some(right)) = (left, right) else { return Fold::firm(OPEN) };
        let kind = AExprKind::try_from(comparison.kind);
        let operator = comparison.name.last().map_or("", word);
        match kind {
            Ok(AExprKind::AexprOp) => match operator {
                "~" | "~*" => self.pattern(left, right, Language::Regex),
                "!~" | "!~*" => self.pattern(left, right, Language::Regex).not(),
                _ => self.compare(operator, left, right),
            },
            Ok(AExprKind::AexprSimilar) => {
                let matches = self.pattern(left, right, Language::Similar);
                if operator.starts_with('!') { matches.not() } else { matches }
            }
            Ok(AExprKind::AexprOpAny) if matches!(operator, "~~" | "~~*") => match elements(right) {
                Some(items) => {
                    items.iter().fold(Fold::firm(FALSE), |any, item| any.or(self.matches(operator, left, item)))
                }
                None => Fold::firm(OPEN),
            },
            Ok(AExprKind::AexprNotDistinct) => self.distinct(left, right).not(),
            Ok(AExprKind::AexprDistinct) => self.distinct(left, right),
            Ok(AExprKind::AexprIn) => {
                let found = self.any_equal(left, items(right));
                if operator == "<>" { found.not() } else { found }
            }
            Ok(AExprKind::AexprOpAny) if operator == "=" => match right.node.as_ref() {
                Some(NodeEnum::AArrayExpr(array)) => self.any_equal(left, &array.elements),
                _ => Fold::firm(OPEN),
            },
            // `<> ALL` of nothing is what an empty NOT IN becomes in some drivers: true for every row. Arrays written as text stay open, as
            // every text of the shape would have to be judged by itself.
            Ok(AExprKind::AexprOpAll) => match (operator, elements(right)) {
                ("=", Some(items)) => {
                    items.iter().fold(Fold::firm(TRUE), |all, item| all.and(self.compare("=", left, item)))
                }
                ("<>", Some(items)) => self.any_equal(left, items).not(),
                _ => Fold::firm(OPEN),
            },
            Ok(AExprKind::AexprLike | AExprKind::AexprIlike) => {
                let matches = self.matches(operator, left, right);
                if operator.starts_with('!') { matches.not() } else { matches }
            }
            Ok(AExprKind::AexprBetween | AExprKind::AexprBetweenSym) => self.between(left, items(right)),
            Ok(AExprKind::AexprNotBetween | AExprKind::AexprNotBetweenSym) => self.between(left, items(right)).not(),
            _ => Fold::firm(OPEN),
        }
    }

    /// LIKE: of two constants, of what matches itself, or of a pattern that matches everything.
    fn matches(&mut self, operator: &str, left: &Node, right: &Node) -> Fold {
        match (self.value(left), self.value(right)) {
            (Some(text), Some(pattern)) => text.matches(&pattern, operator.ends_with('*')),
            (None, Some(_)) => self.pattern(left, right, Language::Like),
            _ => same::likeness(left, right, self.table).map_or(Fold::firm(OPEN), like),
        }
    }

    /// Something beside a pattern. NULL aside, which no condition of this form can ask for.
    fn pattern(&mut self, left: &Node, right: &Node, language: Language) -> Fold {
        let pattern = match (language, right.node.as_ref()) {
            // SIMILAR TO is written as a call (gram.y).
            (Language::Similar, Some(NodeEnum::FuncCall(call))) => call.args.first().and_then(|arg| self.value(arg)),
            _ => self.value(right),
        };
        let Some(pattern) = pattern else { return Fold::firm(OPEN) };
        if self.patterns != Patterns::Judged {
            self.patterns = Patterns::Met;
            return Fold::firm(OPEN);
        }
        if self.value(left).is_some() {
            return Fold { is: OPEN, could: TRUE | OPEN };
        }
        let is = if pattern.matches_everything(language) { TRUE } else { OPEN };
        // A literal `%` is part of the shape (shape.rs).
        let firm = language == Language::Like && pattern.is_known() && !pattern.is_worked_out();
        if firm { Fold::firm(is) } else { Fold { is, could: TRUE | OPEN } }
    }

    fn any_equal(&mut self, left: &Node, items: &[Node]) -> Fold {
        // A list of literals beside a column is the common case, and says nothing.
        let constant = self.value(left).is_some();
        items.iter().fold(Fold::firm(FALSE), |any, item| {
            let plain = matches!(item.node, Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)));
            any.or(if plain && !constant { Fold::firm(OPEN) } else { self.compare("=", left, item) })
        })
    }

    fn between(&mut self, left: &Node, bounds: &[Node]) -> Fold {
        match bounds {
            [low, high] => self.compare(">=", left, low).and(self.compare("<=", left, high)),
            _ => Fold::firm(OPEN),
        }
    }

    fn distinct(&mut self, left: &Node, right: &Node) -> Fold {
        let alike = |table| same::likeness(left, right, table).map_or(Fold::firm(OPEN), like).not();
        match (self.value(left), self.value(right)) {
            (Some(a), Some(b)) if a.is_known() && b.is_known() => match (a.is_null(), b.is_null()) {
                (false, false) => a.compare("=", &b).not(),
                (null, other) if a.is_worked_out() || b.is_worked_out() => Fold::literal(Fold::of(null != other).is),
                (null, other) => Fold::of(null != other),
            },
            (Some(_), Some(_)) => Fold::literal(alike(self.table).is),
            _ => alike(self.table),
        }
    }

    fn compare(&mut self, operator: &str, left: &Node, right: &Node) -> Fold {
        let values = (self.value(left), self.value(right));
        if let (Some(left), Some(right)) = &values
            && left.is_known()
            && right.is_known()
        {
            return left.compare(operator, right);
        }
        // NULL in a column aside, which no condition of this form can ask for.
        let likeness = same::likeness(left, right, self.table);
        let alike = match (operator, likeness) {
            ("=" | "<=" | ">=", Some(likeness)) => like(likeness),
            ("<>" | "!=" | "<" | ">", Some(likeness)) => like(likeness).not(),
            _ => Fold::firm(OPEN),
        };
        if matches!(values, (Some(_), Some(_))) { Fold::literal(alike.is) } else { alike }
    }

    fn sub_select(&mut self, link: &SubLink) -> Fold {
        let query = match link.subselect.as_deref().and_then(|query| query.node.as_ref()) {
            Some(NodeEnum::SelectStmt(query)) => &**query,
            _ => return Fold::firm(OPEN),
        };
        match SubLinkType::try_from(link.sub_link_type) {
            Ok(SubLinkType::ExistsSublink) => self.exists(query),
            Ok(SubLinkType::ExprSublink) => match scalar(query) {
                Some(target) => self.as_boolean(target),
                None => Fold::firm(OPEN),
            },
            // `id in (select id from t)` of the same t; every row finds itself.
            Ok(SubLinkType::AnySublink)
                if link.oper_name.is_empty() || link.oper_name.last().map(word) == Some("=") =>
            {
                let column = link.testexpr.as_deref().and_then(column_name);
                let itself = column.is_some() && column == self.whole_column(query);
                match (link.testexpr.as_deref(), scalar(query)) {
                    _ if itself => Fold::firm(TRUE),
                    (Some(left), Some(right)) => self.compare("=", left, right),
                    _ => Fold::firm(OPEN),
                }
            }
            _ => Fold::firm(OPEN),
        }
    }

    fn exists(&mut self, query: &SelectStmt) -> Fold {
        if !is_plain(query) || query.having_clause.is_some() {
            return Fold::firm(OPEN);
        }
        if !query.values_lists.is_empty() || (query.group_clause.is_empty() && super::acts::only_aggregates(query)) {
            return Fold::firm(TRUE);
        }
        if let ([from], [], Some(target)) =
            (query.from_clause.as_slice(), query.group_clause.as_slice(), self.table.only.or(self.table.target))
            && let Some(NodeEnum::RangeVar(twin)) = from.node.as_ref()
            && is_same(twin, target)
            && shown(twin) != shown(target)
        {
            // Each row of the target finds itself, if nothing else is asked for.
            let twins = [shown(target), shown(twin)];
            return self.beside_itself(query.where_clause.as_deref(), twin, &twins);
        }
        if !query.from_clause.is_empty() || !query.group_clause.is_empty() {
            return Fold::firm(OPEN);
        }
        let condition = query.where_clause.as_deref().map_or(Fold::firm(TRUE), |condition| self.truth(condition));
        condition.map(|one| if one == NULL { FALSE } else { one })
    }

    /// What a condition says of a row that meets itself. What it says of other pairs is open.
    fn beside_itself(&mut self, condition: Option<&Node>, inner: &RangeVar, twins: &[&str]) -> Fold {
        let Some(condition) = condition else { return Fold::firm(OPEN) };
        let table = Known { only: Some(inner), target: self.table.only.or(self.table.target), twins };
        let mut inside = Folding { table, patterns: self.patterns, widened: false, by_literals: false };
        let fold = inside.truth(condition);
        if inside.patterns == Patterns::Met {
            self.patterns = Patterns::Met;
        }
        fold.map(|one| if one == TRUE { TRUE } else { OPEN })
    }

    /// The column of `select column from t` without any condition, if t is the table in question.
    fn whole_column<'q>(&self, query: &'q SelectStmt) -> Option<&'q str> {
        let [NodeEnum::RangeVar(from)] =
            query.from_clause.iter().filter_map(|f| f.node.as_ref()).collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let table = self.table.only?;
        let whole = is_plain(query)
            && query.where_clause.is_none()
            && query.having_clause.is_none()
            && query.group_clause.is_empty()
            && is_same(from, table);
        match query.target_list.as_slice() {
            [target] if whole => match target.node.as_ref()? {
                NodeEnum::ResTarget(target) => column_name(target.val.as_deref()?),
                _ => None,
            },
            _ => None,
        }
    }
}

fn like(likeness: Likeness) -> Fold {
    match likeness {
        Likeness::Always => Fold::firm(TRUE),
        Likeness::ByLiterals { now } => Fold { is: if now { TRUE } else { OPEN }, could: TRUE | OPEN },
    }
}

/// What a pattern is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Like,
    Similar,
    Regex,
}

/// The list on the right of IN and BETWEEN.
fn items(node: &Node) -> &[Node] {
    match node.node.as_ref() {
        Some(NodeEnum::List(list)) => &list.items,
        _ => std::slice::from_ref(node),
    }
}

/// Of `array[…]`, cast or not.
fn elements(node: &Node) -> Option<&[Node]> {
    match node.node.as_ref()? {
        NodeEnum::AArrayExpr(array) => Some(&array.elements),
        NodeEnum::TypeCast(cast) => elements(cast.arg.as_deref()?),
        _ => None,
    }
}

fn is_boolean(name: Option<&Node>) -> bool {
    name.is_some_and(|name| matches!(word(name), "bool" | "boolean"))
}

/// Neither a set operation nor cut short.
fn is_plain(query: &SelectStmt) -> bool {
    query.op == SetOperation::SetopNone as i32
        && query.limit_count.is_none()
        && query.limit_offset.is_none()
        && query.with_clause.is_none()
}

/// What `(select x)` selects.
fn scalar(query: &SelectStmt) -> Option<&Node> {
    let bare = is_plain(query)
        && query.from_clause.is_empty()
        && query.where_clause.is_none()
        && query.having_clause.is_none()
        && query.group_clause.is_empty();
    match query.target_list.as_slice() {
        [target] if bare => match target.node.as_ref()? {
            NodeEnum::ResTarget(target) => target.val.as_deref(),
            _ => None,
        },
        _ => None,
    }
}

fn column_name(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::ColumnRef(column) => column.fields.last().map(word).filter(|name| !name.is_empty()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
