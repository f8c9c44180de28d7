//! What each statement does, gathered while the walk passes through it.

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{self, CmdType, MergeMatchKind, RangeVar, SelectStmt, SetOperation},
};

use super::{
    crossing, target,
    truth::{self, Judged, Known},
    walk::{Read, Walk, word},
};
use crate::sql::facts::{Act, Clause, Marks, Verb};

/// The acts of a text, and what the walk must remember to tell them.
pub(super) struct Acts {
    all: Vec<Act>,
    /// The one under way.
    at: usize,
    /// A query met now is an act of its own: what COPY, DECLARE, CREATE VIEW and their like have in them.
    inner: bool,
    /// What the FROM items met so far in this query leave to ask for: a relation without a filter is `Missing`.
    sources: Clause,
    /// A system catalog was read in this arm of a set operation.
    catalog: bool,
    /// Inside EXISTS, where `*` means nothing.
    exists: bool,
}

/// What is put aside while something else is walked.
pub(super) struct Aside {
    at: usize,
    inner: bool,
    sources: Clause,
    exists: bool,
}

impl Acts {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), at: 0, inner: false, sources: Clause::NotApplicable, catalog: false, exists: false }
    }

    pub(super) fn finish(self) -> Box<[Act]> {
        self.all.into()
    }

    /// A statement begins; its verb is known when it has been walked.
    pub(super) fn begin(&mut self) -> Aside {
        let aside = Aside { at: self.at, inner: self.inner, sources: self.sources, exists: self.exists };
        self.at = self.all.len();
        self.all.push(Act::of(Verb::Unknown));
        (self.inner, self.sources, self.exists) = (false, Clause::NotApplicable, false);
        aside
    }

    pub(super) fn end(&mut self, aside: Aside, verb: Verb, object: Option<&'static str>) {
        if let Some(act) = self.all.get_mut(self.at) {
            (act.verb, act.object) = (verb, object);
        }
        (self.at, self.inner, self.sources, self.exists) = (aside.at, aside.inner, aside.sources, aside.exists);
    }

    /// Acts found elsewhere: in the body of a function or a block.
    pub(super) fn add(&mut self, acts: impl IntoIterator<Item = Act>) {
        self.all.extend(acts);
    }

    /// The queries directly inside the statement under way are acts.
    pub(super) fn expect_queries(&mut self) {
        self.inner = true;
    }

    pub(super) fn expects_queries(&self) -> bool {
        self.inner
    }

    pub(super) fn mark(&mut self, mark: Marks) {
        if let Some(act) = self.all.get_mut(self.at) {
            act.marks |= mark;
        }
    }

    pub(super) fn parameter(&mut self, name: &str) {
        if let Some(act) = self.all.get_mut(self.at) {
            let mut names = std::mem::take(&mut act.parameters).into_vec();
            names.push(name.into());
            act.parameters = names.into();
        }
    }

    /// A relation, or a WITH query with this filter, is read.
    pub(super) fn source(&mut self, filter: Clause) {
        self.sources = self.sources.max(filter);
    }

    pub(super) fn catalog(&mut self) {
        self.catalog = true;
        self.mark(Marks::CATALOG);
    }

    fn clauses(&mut self, filter: Clause, limit: Clause) {
        if let Some(act) = self.all.get_mut(self.at) {
            (act.filter, act.limit) = (filter, limit);
        }
    }
}

impl Walk<'_> {
    /// A query that is a statement.
    pub(super) fn query_act(&mut self, query: &SelectStmt) {
        self.query(query);
        let filter = std::mem::replace(&mut self.acts.sources, Clause::NotApplicable);
        let limited = query.limit_count.as_deref().is_some_and(|count| !is_null(count));
        let limit = if filter == Clause::NotApplicable {
            Clause::NotApplicable
        } else if limited {
            Clause::Present
        } else if query.group_clause.is_empty() && only_aggregates(query) {
            Clause::NotApplicable
        } else {
            Clause::Missing
        };
        self.acts.clauses(filter, limit);
        if query.into_clause.is_some() && !self.in_block {
            let mut creates = Act::of(Verb::Create);
            creates.object = Some("table");
            self.acts.add([creates]);
        }
    }

    /// A query wherever it stands.
    pub(super) fn query(&mut self, query: &SelectStmt) {
        let outer = std::mem::replace(&mut self.acts.sources, Clause::NotApplicable);
        if !self.acts.exists && query.target_list.iter().any(is_star) {
            self.acts.mark(Marks::STAR);
        }
        if crossing::crosses(query) {
            self.acts.mark(Marks::CROSS_JOIN);
        }
        self.in_scope(query.with_clause.as_ref(), NodeRef::SelectStmt(query), None);
        let only = match query.from_clause.as_slice() {
            [Node { node: Some(NodeEnum::RangeVar(table)) }] => Some(table),
            _ => None,
        };
        let table = Known { only, ..Known::default() };
        let filter = self.filter(query.where_clause.as_deref(), table);
        if let Some(having) = query.having_clause.as_deref() {
            self.condition(having, table);
        }
        let left = match (self.acts.sources, filter) {
            (Clause::Missing, Clause::Present) => Clause::Present,
            (sources, _) => sources,
        };
        self.acts.sources = outer.max(left);
    }

    /// One arm of a set operation; true if it reads a system catalog.
    pub(super) fn arm(&mut self, arm: NodeRef<'_>) -> bool {
        let before = std::mem::replace(&mut self.acts.catalog, false);
        self.visit(arm);
        std::mem::replace(&mut self.acts.catalog, before)
    }

    /// The filter of UPDATE and DELETE.
    pub(super) fn modify_act(&mut self, condition: Option<&Node>, others: &[Node], target: Option<&RangeVar>) {
        let twins = target.map(|target| target::twins(target, others)).unwrap_or_default();
        let known = Known { only: target.filter(|_| others.is_empty()), target, twins: &twins };
        let filter = self.choice(condition, known, target);
        self.acts.clauses(filter, Clause::NotApplicable);
    }

    /// The filter of MERGE, if it updates or deletes: of the clause that has the least of one.
    pub(super) fn merge_act(&mut self, merge: &protobuf::MergeStmt) {
        let target = merge.relation.as_ref();
        let source = merge.source_relation.as_deref().map(std::slice::from_ref).unwrap_or_default();
        let twins = target.map(|target| target::twins(target, source)).unwrap_or_default();
        let known = Known { only: None, target, twins: &twins };
        let joined = self.choice(merge.join_condition.as_deref(), known, target);
        let mut filter = Clause::NotApplicable;
        for clause in merge.merge_when_clauses.iter().filter_map(|node| match node.node.as_ref()? {
            NodeEnum::MergeWhenClause(clause) => Some(clause),
            _ => None,
        }) {
            let own = self.choice(clause.condition.as_deref(), known, target);
            let changes = [CmdType::CmdUpdate as i32, CmdType::CmdDelete as i32].contains(&clause.command_type);
            let of_all_others = clause.match_kind == MergeMatchKind::MergeWhenNotMatchedBySource as i32;
            if changes {
                filter = filter.max(if of_all_others { own } else { own.min(joined) });
            }
        }
        self.acts.clauses(filter, Clause::NotApplicable);
    }

    /// Does a condition choose among the rows of the target? One that names none of their columns hits all of them or none; it is none
    /// for certain only if constants say so.
    fn choice(&mut self, condition: Option<&Node>, table: Known<'_>, target: Option<&RangeVar>) -> Clause {
        let Some(condition) = condition else { return Clause::Missing };
        let judged = self.judged(condition, table);
        if judged.always || target.is_none_or(|target| target::hangs_on(condition, target)) {
            return if judged.always { Clause::Missing } else { Clause::Present };
        }
        if judged.varies {
            self.by_literals();
        }
        if judged.never { Clause::Present } else { Clause::Missing }
    }

    fn filter(&mut self, condition: Option<&Node>, table: Known<'_>) -> Clause {
        match condition {
            Some(condition) if !self.judged(condition, table).always => Clause::Present,
            _ => Clause::Missing,
        }
    }

    /// Notes what stands out in a condition.
    pub(super) fn condition(&mut self, condition: &Node, table: Known<'_>) {
        self.judged(condition, table);
    }

    fn judged(&mut self, condition: &Node, table: Known<'_>) -> Judged {
        let judged = truth::judge(condition, table);
        if judged.widened {
            self.acts.mark(Marks::TAUTOLOGY);
        }
        if judged.by_literals {
            self.by_literals();
        }
        judged
    }

    /// A sub-select in an expression: it is no source of the query around it.
    pub(super) fn sub_link(&mut self, link: &protobuf::SubLink) {
        let (sources, exists, inner) = (self.acts.sources, self.acts.exists, self.acts.inner);
        self.acts.exists = link.sub_link_type == protobuf::SubLinkType::ExistsSublink as i32;
        self.acts.inner = false;
        self.visit_children(NodeRef::SubLink(link));
        (self.acts.sources, self.acts.exists, self.acts.inner) = (sources, exists, inner);
    }

    /// A WITH query: it is a source where it is named, with the filter that it has.
    pub(super) fn with_query(&mut self, query: &protobuf::CommonTableExpr) -> Read {
        let sources = std::mem::replace(&mut self.acts.sources, Clause::NotApplicable);
        let outside = std::mem::replace(&mut self.acts.catalog, false);
        self.visit_children(NodeRef::CommonTableExpr(query));
        let catalog = self.acts.catalog;
        self.acts.catalog |= outside;
        Read { filter: std::mem::replace(&mut self.acts.sources, sources), catalog }
    }
}

/// Without GROUP BY such a query gives one row.
pub(super) fn only_aggregates(query: &SelectStmt) -> bool {
    let aggregate = |target: &Node| match target.node.as_ref() {
        Some(NodeEnum::ResTarget(target)) => target.val.as_deref().is_some_and(is_aggregate),
        _ => false,
    };
    query.op == SetOperation::SetopNone as i32
        && !query.target_list.is_empty()
        && query.target_list.iter().all(aggregate)
}

const AGGREGATES: [&str; 14] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "string_agg",
    "array_agg",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
];

fn is_aggregate(node: &Node) -> bool {
    match node.node.as_ref() {
        Some(NodeEnum::FuncCall(call)) => {
            call.over.is_none() && call.funcname.last().is_some_and(|name| AGGREGATES.contains(&word(name)))
        }
        Some(NodeEnum::TypeCast(cast)) => cast.arg.as_deref().is_some_and(is_aggregate),
        Some(NodeEnum::CoalesceExpr(coalesce)) => coalesce.args.first().is_some_and(is_aggregate),
        _ => false,
    }
}

fn is_star(target: &Node) -> bool {
    let Some(NodeEnum::ResTarget(target)) = target.node.as_ref() else { return false };
    match target.val.as_deref().and_then(|value| value.node.as_ref()) {
        Some(NodeEnum::ColumnRef(column)) => {
            matches!(column.fields.last().and_then(|field| field.node.as_ref()), Some(NodeEnum::AStar(_)))
        }
        _ => false,
    }
}

fn is_null(node: &Node) -> bool {
    matches!(node.node.as_ref(), Some(NodeEnum::AConst(constant)) if constant.isnull)
}
