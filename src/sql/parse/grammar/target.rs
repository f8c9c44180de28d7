//! Does a condition hang on the rows that would be changed?

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{ColumnRef, RangeVar, SelectStmt},
};

use super::{children::each_child, walk::word};

/// Could a column in it be one of the target's? A column without a qualifier is taken for one.
pub(super) fn hangs_on(condition: &Node, target: &RangeVar) -> bool {
    let scope = Scope { target, name_is_taken: false, reads_the_same: false };
    condition.node.as_ref().is_some_and(|node| scope.mentions(node.to_ref()))
}

/// Inside of a sub-select, where names may mean something else.
#[derive(Clone, Copy)]
struct Scope<'t> {
    target: &'t RangeVar,
    /// Another relation has the name of the target here.
    name_is_taken: bool,
    /// The table of the target is read here, so that columns without a qualifier are those of this reading.
    reads_the_same: bool,
}

impl Scope<'_> {
    fn mentions(self, node: NodeRef<'_>) -> bool {
        let scope = match node {
            NodeRef::CurrentOfExpr(_) => return true,
            NodeRef::ColumnRef(column) => return self.has(column),
            NodeRef::SelectStmt(query) => self.inside(query),
            _ => self,
        };
        let mut found = false;
        each_child(node, &mut |child| found = found || scope.mentions(child));
        found
    }

    fn has(self, column: &ColumnRef) -> bool {
        match column.fields.as_slice() {
            [Node { node: Some(NodeEnum::AStar(_)) }] => false,
            [_] => !self.reads_the_same,
            [.., relation, _] => !self.name_is_taken && word(relation) == shown(self.target),
            [] => false,
        }
    }

    fn inside(self, query: &SelectStmt) -> Self {
        query.from_clause.iter().fold(self, Self::beside)
    }

    fn beside(self, item: &Node) -> Self {
        match item.node.as_ref() {
            Some(NodeEnum::RangeVar(relation)) => Self {
                name_is_taken: self.name_is_taken || shown(relation) == shown(self.target),
                reads_the_same: self.reads_the_same || relation.relname == self.target.relname,
                ..self
            },
            Some(NodeEnum::JoinExpr(join)) => {
                [join.larg.as_deref(), join.rarg.as_deref()].into_iter().flatten().fold(self, Self::beside)
            }
            _ => self,
        }
    }
}

/// May the two be one table?
pub(super) fn is_same(one: &RangeVar, other: &RangeVar) -> bool {
    let schemas = (&*one.schemaname, &*other.schemaname);
    one.relname == other.relname && (schemas.0 == schemas.1 || schemas.0.is_empty() || schemas.1.is_empty())
}

/// The names under which a table stands beside itself in these FROM items, its own first; empty: it does not.
pub(super) fn twins<'n>(target: &'n RangeVar, others: &'n [Node]) -> Vec<&'n str> {
    let mut names = Vec::new();
    others.iter().for_each(|item| add_twins(item, target, &mut names));
    if !names.is_empty() {
        names.insert(0, shown(target));
    }
    names
}

fn add_twins<'n>(item: &'n Node, target: &RangeVar, names: &mut Vec<&'n str>) {
    match item.node.as_ref() {
        Some(NodeEnum::RangeVar(relation)) if is_same(relation, target) => names.push(shown(relation)),
        Some(NodeEnum::JoinExpr(join)) => {
            [join.larg.as_deref(), join.rarg.as_deref()]
                .into_iter()
                .flatten()
                .for_each(|side| add_twins(side, target, names));
        }
        // `(select * from t) x`: all of it, or a part, which a condition inside says.
        Some(NodeEnum::RangeSubselect(inner)) => {
            let (Some(alias), Some(query)) = (&inner.alias, inner.subquery.as_deref()) else { return };
            let Some(NodeEnum::SelectStmt(query)) = query.node.as_ref() else { return };
            let whole = query.where_clause.is_none() && query.limit_count.is_none() && query.having_clause.is_none();
            if let [Node { node: Some(NodeEnum::RangeVar(relation)) }] = query.from_clause.as_slice()
                && whole
                && is_same(relation, target)
            {
                names.push(&alias.aliasname);
            }
        }
        _ => {}
    }
}

/// The name by which columns call a relation.
pub(super) fn shown(relation: &RangeVar) -> &str {
    relation.alias.as_ref().map_or(&relation.relname, |alias| &alias.aliasname)
}
