//! Are relations joined without a condition between them?

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{BoolExprType, JoinExpr, JoinType, SelectStmt},
};

use super::{children::each_child, truth, walk::word};

/// Relations beyond which nobody looks for the conditions between them, since that takes their product with the conditions.
const MOST: usize = 256;

/// True if some item of the FROM list can be told to have nothing to do with the others. A name without a table could be
/// anybody's column, so a condition with one in it joins whatever it likes; so does whatever is not a relation.
pub(super) fn crosses(query: &SelectStmt) -> bool {
    let joins = query.from_clause.iter().any(|item| matches!(item.node.as_ref(), Some(NodeEnum::JoinExpr(_))));
    if query.from_clause.len() < 2 && !joins {
        return false;
    }
    let mut groups = Groups::default();
    for item in &query.from_clause {
        groups.item(item);
    }
    if groups.sets.len() < 2 || groups.sets.iter().any(|set| set.is_empty()) {
        return false;
    }
    if groups.sets.iter().map(Vec::len).sum::<usize>() > MOST {
        return true;
    }
    if let Some(condition) = query.where_clause.as_deref() {
        groups.condition(condition);
    }
    groups.sets.len() > 1
}

/// Names of relations, in sets that are joined to each other.
#[derive(Default)]
struct Groups<'a> {
    sets: Vec<Vec<&'a str>>,
}

impl<'a> Groups<'a> {
    fn item(&mut self, item: &'a Node) {
        match item.node.as_ref() {
            Some(NodeEnum::JoinExpr(join)) if is_crossing(join) => {
                for side in [join.larg.as_deref(), join.rarg.as_deref()].into_iter().flatten() {
                    self.item(side);
                }
            }
            Some(NodeEnum::JoinExpr(_) | NodeEnum::RangeVar(_)) => {
                let mut names = Vec::new();
                collect(item, &mut names);
                self.sets.push(names);
            }
            Some(NodeEnum::RangeSubselect(select)) if !select.lateral => {
                let mut names = Vec::new();
                collect(item, &mut names);
                self.sets.push(names);
            }
            // A function, a sample, what is lateral: it looks at the others, or gives a row or two.
            _ => {}
        }
    }

    fn condition(&mut self, condition: &'a Node) {
        if let Some(NodeEnum::BoolExpr(logic)) = condition.node.as_ref()
            && logic.boolop == BoolExprType::AndExpr as i32
        {
            logic.args.iter().for_each(|arg| self.condition(arg));
            return;
        }
        let mut named = Named::default();
        if let Some(node) = condition.node.as_ref() {
            named.look(node.to_ref());
        }
        let (touched, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sets)
            .into_iter()
            .partition(|set| named.anybody || set.iter().any(|name| named.tables.contains(name)));
        self.sets = others;
        if !touched.is_empty() {
            self.sets.push(touched.concat());
        }
    }
}

/// What a condition names.
#[derive(Default)]
struct Named<'a> {
    tables: Vec<&'a str>,
    /// A column without its table.
    anybody: bool,
}

impl<'a> Named<'a> {
    fn look(&mut self, node: NodeRef<'a>) {
        if let NodeRef::ColumnRef(column) = node {
            match column.fields.as_slice() {
                [.., table, _] => self.tables.push(word(table)),
                _ => self.anybody = true,
            }
        }
        each_child(node, &mut |child| self.look(child));
    }
}

/// CROSS JOIN, or JOIN ON a condition that is always true, unless the right side looks at the left.
fn is_crossing(join: &JoinExpr) -> bool {
    let free = match join.quals.as_deref() {
        None => !join.is_natural && join.using_clause.is_empty(),
        Some(condition) => truth::judge(condition, truth::Known::default()).always,
    };
    free && join.jointype == JoinType::JoinInner as i32 && join.alias.is_none()
}

/// The names by which columns of a FROM item can be called.
fn collect<'a>(item: &'a Node, names: &mut Vec<&'a str>) {
    match item.node.as_ref() {
        Some(NodeEnum::RangeVar(table)) => {
            names.push(table.alias.as_ref().map_or(&table.relname, |alias| &alias.aliasname));
        }
        Some(NodeEnum::RangeSubselect(select)) => names.extend(select.alias.as_ref().map(|a| &*a.aliasname)),
        Some(NodeEnum::RangeFunction(function)) => names.extend(function.alias.as_ref().map(|a| &*a.aliasname)),
        Some(NodeEnum::JoinExpr(join)) => {
            names.extend(join.alias.as_ref().map(|a| &*a.aliasname));
            for side in [join.larg.as_deref(), join.rarg.as_deref()].into_iter().flatten() {
                collect(side, names);
            }
        }
        _ => {}
    }
}
