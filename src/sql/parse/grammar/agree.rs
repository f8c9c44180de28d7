//! Does a changed text say what the changes meant it to say?
//!
//! Edits work on tokens; this looks at trees only. The old tree with the changes made in mind, and the tree of the new text as it
//! is, are written down node by node. They must be alike, or the new text is not used.

use std::fmt::Write as _;

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{self, BoolExprType, ColumnRef, RangeVar, SelectStmt},
};

use super::{children::each_child, places::Holder, walk::word};

/// What the changes come to in the tree. Nodes that know where they stand are found by it.
#[derive(Default)]
pub(super) struct Plan {
    /// New names of relations, with the alias that they get.
    pub(super) relations: Vec<(i32, String, String, Option<String>)>,
    /// FROM items, and queries of COPY, in the place of relations.
    pub(super) derived: Vec<(i32, Node)>,
    /// New names of columns in expressions, and the titles that keep the old ones.
    pub(super) columns: Vec<(i32, String, Option<String>)>,
    /// New names of columns that are assigned to.
    pub(super) assigned: Vec<(i32, String)>,
    /// New names of columns in lists without a place: old and new.
    pub(super) listed: Vec<(String, String)>,
    /// Columns that lose the schema of their relation.
    pub(super) cut: Vec<i32>,
    /// Conditions that are added, by the node that holds them.
    pub(super) conditions: Vec<(Holder, Vec<Node>)>,
    /// The same for `TABLE t`, by the relation.
    pub(super) commands: Vec<(i32, Node)>,
}

/// The tree written down, with the plan carried out.
pub(super) fn written(tree: &protobuf::ParseResult, plan: &Plan) -> String {
    let mut writer = Writer { out: String::new(), plan };
    for node in tree.stmts.iter().filter_map(|raw| raw.stmt.as_ref()) {
        writer.node(Some(node));
        writer.out.push(';');
    }
    writer.out
}

struct Writer<'p> {
    out: String,
    plan: &'p Plan,
}

impl Writer<'_> {
    fn list(&mut self, nodes: &[Node]) {
        self.out.push('[');
        nodes.iter().for_each(|node| self.node(Some(node)));
        self.out.push(']');
    }

    fn node(&mut self, node: Option<&Node>) {
        match node.and_then(|node| node.node.as_ref()) {
            Some(node) => self.write(node.to_ref()),
            None => self.out.push('-'),
        }
    }

    fn say(&mut self, what: impl std::fmt::Debug) {
        // Writing to a String does not fail.
        let _ = write!(self.out, "{what:?} ");
    }

    fn write(&mut self, node: NodeRef<'_>) {
        match node {
            NodeRef::RangeVar(n) => return self.range_var(n),
            NodeRef::ColumnRef(n) => return self.column(n),
            NodeRef::SelectStmt(n) => return self.select(n),
            NodeRef::ResTarget(n) => return self.target(n),
            NodeRef::CopyStmt(n) => return self.copy(n),
            // TABLESAMPLE is inside of the query.
            NodeRef::RangeTableSample(n) if self.derived(n.relation.as_deref()) => {
                return self.node(n.relation.as_deref());
            }
            NodeRef::UpdateStmt(n) => {
                self.say("update");
                n.relation.iter().for_each(|relation| self.range_var(relation));
                self.list(&n.target_list);
                self.list(&n.from_clause);
                self.condition(n.where_clause.as_deref(), Holder::of(n));
                n.returning_clause.iter().for_each(|r| self.write(NodeRef::ReturningClause(r)));
                n.with_clause.iter().for_each(|with| self.write(NodeRef::WithClause(with)));
                return;
            }
            NodeRef::DeleteStmt(n) => {
                self.say("delete");
                n.relation.iter().for_each(|relation| self.range_var(relation));
                self.list(&n.using_clause);
                self.condition(n.where_clause.as_deref(), Holder::of(n));
                n.returning_clause.iter().for_each(|r| self.write(NodeRef::ReturningClause(r)));
                n.with_clause.iter().for_each(|with| self.write(NodeRef::WithClause(with)));
                return;
            }
            NodeRef::MergeStmt(n) => {
                self.say("merge");
                n.relation.iter().for_each(|relation| self.range_var(relation));
                self.node(n.source_relation.as_deref());
                self.condition(n.join_condition.as_deref(), Holder::of(n));
                self.list(&n.merge_when_clauses);
                n.returning_clause.iter().for_each(|r| self.write(NodeRef::ReturningClause(r)));
                n.with_clause.iter().for_each(|with| self.write(NodeRef::WithClause(with)));
                return;
            }
            NodeRef::MergeWhenClause(n) => {
                self.say((n.match_kind, n.command_type, n.r#override));
                self.condition(n.condition.as_deref(), Holder::of(n));
                self.list(&n.target_list);
                self.list(&n.values);
                return;
            }
            NodeRef::OnConflictClause(n) => {
                self.say(("conflict", n.action));
                n.infer.as_deref().into_iter().for_each(|infer| self.write(NodeRef::InferClause(infer)));
                self.list(&n.target_list);
                self.condition(n.where_clause.as_deref(), Holder::of(n));
                return;
            }
            _ => {}
        }
        self.particulars(node);
        self.out.push('(');
        each_child(node, &mut |child| self.write(child));
        self.out.push(')');
    }

    /// What a node says by itself.
    fn particulars(&mut self, node: NodeRef<'_>) {
        self.say(std::mem::discriminant(&node));
        match node {
            NodeRef::String(n) => self.say(&n.sval),
            NodeRef::AConst(n) => self.say((n.isnull, &n.val)),
            NodeRef::ParamRef(n) => self.say(n.number),
            NodeRef::Alias(n) => self.say(&n.aliasname),
            NodeRef::AExpr(n) => self.say(n.kind),
            NodeRef::BoolExpr(n) => self.say(n.boolop),
            NodeRef::NullTest(n) => self.say(n.nulltesttype),
            NodeRef::BooleanTest(n) => self.say(n.booltesttype),
            NodeRef::SubLink(n) => self.say(n.sub_link_type),
            NodeRef::JoinExpr(n) => self.say((n.jointype, n.is_natural)),
            NodeRef::FuncCall(n) => self.say((n.agg_star, n.agg_distinct, n.agg_within_group, n.func_variadic)),
            NodeRef::CommonTableExpr(n) => self.say((&n.ctename, n.ctematerialized)),
            NodeRef::WithClause(n) => self.say(n.recursive),
            NodeRef::SortBy(n) => self.say((n.sortby_dir, n.sortby_nulls)),
            NodeRef::TypeName(n) => self.say((n.setof, n.pct_type, n.typemod)),
            NodeRef::LockingClause(n) => self.say((n.strength, n.wait_policy)),
            NodeRef::InsertStmt(n) => self.say(n.r#override),
            NodeRef::MinMaxExpr(n) => self.say(n.op),
            NodeRef::SqlvalueFunction(n) => self.say((n.op, n.typmod)),
            NodeRef::RangeSubselect(n) => self.say(n.lateral),
            NodeRef::RangeFunction(n) => self.say((n.lateral, n.ordinality, n.is_rowsfrom)),
            NodeRef::GroupingSet(n) => self.say(n.kind),
            NodeRef::WindowDef(n) => self.say((&n.name, &n.refname, n.frame_options)),
            NodeRef::DefElem(n) => self.say((&n.defnamespace, &n.defname, n.defaction)),
            NodeRef::Integer(n) => self.say(n.ival),
            NodeRef::Float(n) => self.say(&n.fval),
            NodeRef::Boolean(n) => self.say(n.boolval),
            NodeRef::BitString(n) => self.say(&n.bsval),
            NodeRef::IndexElem(n) => {
                let name = self.plan.listed.iter().find(|(old, _)| *old == n.name).map_or(&n.name, |(_, new)| new);
                let name = name.clone();
                self.say((name, n.ordering, n.nulls_ordering));
            }
            NodeRef::PrepareStmt(n) => self.say(&n.name),
            NodeRef::ExecuteStmt(n) => self.say(&n.name),
            NodeRef::DeclareCursorStmt(n) => self.say((&n.portalname, n.options)),
            NodeRef::CreateTableAsStmt(n) => self.say((n.objtype, n.if_not_exists)),
            NodeRef::ViewStmt(n) => self.say((n.replace, n.with_check_option)),
            _ => {}
        }
    }

    fn derived(&self, table: Option<&Node>) -> bool {
        match table.and_then(|table| table.node.as_ref()) {
            Some(NodeEnum::RangeVar(table)) => self.plan.derived.iter().any(|(at, _)| *at == table.location),
            _ => false,
        }
    }

    fn range_var(&mut self, table: &RangeVar) {
        if let Some((_, item)) = self.plan.derived.iter().find(|(at, _)| *at == table.location) {
            let written = plainly(item);
            self.out.push_str(&written);
            return;
        }
        let new = self.plan.relations.iter().find(|(at, ..)| *at == table.location);
        let (schema, name) = new.map_or((&table.schemaname, &table.relname), |(_, schema, name, _)| (schema, name));
        let catalog = if new.is_some() { "" } else { &table.catalogname };
        let added = new.and_then(|(.., alias)| alias.as_deref());
        let alias = table.alias.as_ref().map(|alias| &*alias.aliasname).or(added).map(str::to_owned);
        self.say(("relation", catalog, schema.clone(), name.clone(), table.inh, &table.relpersistence, alias));
        self.list(table.alias.as_ref().map(|alias| alias.colnames.as_slice()).unwrap_or_default());
    }

    fn column(&mut self, column: &ColumnRef) {
        let mut fields: Vec<String> = column.fields.iter().map(|field| word(field).to_owned()).collect();
        if self.plan.cut.contains(&column.location) {
            let kept = fields.len().saturating_sub(2);
            fields.drain(..kept);
        }
        if let Some((_, new, _)) = self.plan.columns.iter().find(|(at, ..)| *at == column.location)
            && let Some(last) = fields.last_mut()
        {
            new.clone_into(last);
        }
        self.say(("column", fields));
    }

    fn target(&mut self, target: &protobuf::ResTarget) {
        let assigned = self.plan.assigned.iter().find(|(at, _)| *at == target.location);
        let title = || {
            let inside = target.val.as_deref().and_then(super::places::naming)?;
            self.plan.columns.iter().find(|(at, ..)| *at == inside.location)?.2.clone()
        };
        let name = match assigned {
            Some((_, new)) => new.clone(),
            None if target.name.is_empty() => title().unwrap_or_default(),
            None => target.name.clone(),
        };
        self.say(("target", name));
        self.list(&target.indirection);
        self.node(target.val.as_deref());
    }

    fn select(&mut self, query: &SelectStmt) {
        self.say(("select", query.op, query.all, query.group_distinct, query.limit_option));
        self.list(&query.distinct_clause);
        query.into_clause.as_deref().into_iter().for_each(|into| self.write(NodeRef::IntoClause(into)));
        self.list(&query.target_list);
        self.list(&query.from_clause);
        let command = match query.from_clause.first().and_then(|item| item.node.as_ref()) {
            Some(NodeEnum::RangeVar(table)) => self.plan.commands.iter().find(|(at, _)| *at == table.location),
            _ => None,
        };
        match command {
            Some((_, condition)) => {
                let written = plainly(condition);
                self.out.push_str(&written);
            }
            None => self.condition(query.where_clause.as_deref(), Holder::of(query)),
        }
        self.list(&query.group_clause);
        self.node(query.having_clause.as_deref());
        self.list(&query.window_clause);
        self.list(&query.values_lists);
        self.list(&query.sort_clause);
        self.node(query.limit_offset.as_deref());
        self.node(query.limit_count.as_deref());
        self.list(&query.locking_clause);
        query.with_clause.iter().for_each(|with| self.write(NodeRef::WithClause(with)));
        for arm in [&query.larg, &query.rarg].into_iter().flatten() {
            self.select(arm);
        }
    }

    fn copy(&mut self, copy: &protobuf::CopyStmt) {
        let derived =
            copy.relation.as_ref().and_then(|table| self.plan.derived.iter().find(|(at, _)| *at == table.location));
        self.say(("copy", copy.is_from, copy.is_program, &copy.filename));
        match derived {
            Some((_, query)) => {
                let written = plainly(query);
                self.out.push_str("-[]");
                self.out.push_str(&written);
            }
            None => {
                match copy.relation.as_ref() {
                    Some(table) => self.range_var(table),
                    None => self.out.push('-'),
                }
                let renamed: Vec<String> = copy.attlist.iter().map(|column| self.listed(word(column))).collect();
                if renamed.is_empty() {
                    self.out.push_str("[]")
                } else {
                    self.say(renamed)
                }
                self.node(copy.query.as_deref());
            }
        }
        self.list(&copy.options);
        self.node(copy.where_clause.as_deref());
    }

    fn listed(&self, name: &str) -> String {
        let new = self.plan.listed.iter().find(|(old, _)| old == name);
        new.map_or(name, |(_, new)| new).to_owned()
    }

    /// A condition with what is added to it; the grammar makes one AND of it all.
    fn condition(&mut self, existing: Option<&Node>, holder: Holder) {
        let added = self.plan.conditions.iter().find(|(of, _)| *of == holder).map(|(_, added)| added.as_slice());
        let Some(added) = added.filter(|added| !added.is_empty()) else { return self.node(existing) };
        let mut parts: Vec<String> = Vec::new();
        let (mut first, rest): (Vec<&Node>, &[Node]) = match (existing, added.split_first()) {
            (Some(existing), _) => (vec![existing], added),
            (None, Some((first, rest))) => (vec![first], rest),
            (None, None) => (Vec::new(), added),
        };
        if let [one] = first[..]
            && !rest.is_empty()
            && let Some(NodeEnum::BoolExpr(and)) = one.node.as_ref()
            && and.boolop == BoolExprType::AndExpr as i32
        {
            first = and.args.iter().collect();
        }
        for (i, node) in first.iter().copied().chain(rest).enumerate() {
            // Only what the client wrote is changed otherwise.
            let is_users = existing.is_some() && i < first.len();
            let start = self.out.len();
            if is_users {
                self.node(Some(node));
                parts.push(self.out.split_off(start));
            } else {
                parts.push(plainly(node));
            }
        }
        match parts.as_slice() {
            [one] => self.out.push_str(one),
            many => {
                let node = protobuf::BoolExpr { boolop: BoolExprType::AndExpr as i32, ..Default::default() };
                let all = many.concat();
                self.particulars(NodeRef::BoolExpr(&node));
                self.out.push('(');
                self.out.push_str(&all);
                self.out.push(')');
            }
        }
    }
}

/// A node as it is.
fn plainly(node: &Node) -> String {
    let mut writer = Writer { out: String::new(), plan: &Plan::default() };
    writer.node(Some(node));
    writer.out
}
