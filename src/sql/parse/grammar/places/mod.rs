//! The places of a text: its tree says what stands there, its tokens where.

mod from;
mod names;
mod script;

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{self, ParseResult, RangeVar, SelectStmt},
};

use super::{
    children::each_child,
    relations, settings,
    walk::{name, qualified, word},
};
use crate::sql::places::{Condition, Derived, Filter, Form, Level, Places, Relation, Whose};
pub(super) use names::naming;
use script::Script;

/// The places of a text and the nodes of the tree that they belong to.
pub(super) struct Found {
    pub(super) places: Places,
    /// For each condition the node that holds it.
    pub(super) holders: Vec<Holder>,
}

/// A node by its address: it stays where it is while its tree lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder(usize);

impl Holder {
    pub(super) fn of<T>(node: &T) -> Self {
        Self(std::ptr::from_ref(node).addr())
    }
}

/// Finds them all, or says why that cannot be.
pub(super) fn find(text: &str, tree: &ParseResult) -> Result<Found, &'static str> {
    let mut finder = Finder {
        script: Script::new(text),
        found: Found { places: Places::default(), holders: Vec::new() },
        with: Vec::new(),
        levels: Vec::new(),
        names: Vec::new(),
        stuck: None,
    };
    for node in tree.stmts.iter().filter_map(|raw| raw.stmt.as_ref()?.node.as_ref()) {
        finder.visit(node.to_ref());
    }
    finder.call_names();
    match finder.stuck {
        Some(why) => Err(why),
        None => Ok(finder.found),
    }
}

struct Finder<'t> {
    script: Script<'t>,
    found: Found,
    /// Names of the WITH queries in scope.
    with: Vec<&'t str>,
    /// What the queries around have in their FROM, the innermost last.
    levels: Vec<Scope<'t>>,
    /// Everything that is used as a qualifier, or could be a whole row.
    names: Vec<&'t str>,
    stuck: Option<&'static str>,
}

/// The FROM of one query.
#[derive(Default)]
struct Scope<'t> {
    level: Level,
    /// By what name each relation is called.
    called: Vec<(&'t str, usize)>,
    /// Names of what is no relation.
    others: Vec<&'t str>,
    /// Names of the result's columns, which ORDER BY sees first.
    titles: Vec<&'t str>,
}

impl<'t> Finder<'t> {
    /// The first thing that cannot be followed decides.
    fn stuck(&mut self, why: &'static str) {
        self.stuck.get_or_insert(why);
    }

    fn children(&mut self, node: NodeRef<'t>) {
        each_child(node, &mut |child| self.visit(child));
    }

    fn visit(&mut self, node: NodeRef<'t>) {
        match node {
            NodeRef::SelectStmt(n) => self.query(n),
            NodeRef::InsertStmt(n) => self.insert(n),
            NodeRef::UpdateStmt(n) => {
                self.with_scope(n.with_clause.as_ref(), |finder| {
                    let (at, holder) =
                        (finder.condition(n.relation.as_ref(), n.where_clause.as_deref()), Holder::of(n));
                    let spot = finder.spot(at, holder);
                    finder.target(n.relation.as_ref(), Filter::Conditions(vec![spot]));
                    finder.sources(&n.from_clause, Some(spot));
                    finder.assigned(&n.target_list, 0);
                    finder.parts(node, &[Part::Target, Part::From, Part::With]);
                });
            }
            NodeRef::DeleteStmt(n) => {
                self.with_scope(n.with_clause.as_ref(), |finder| {
                    let (at, holder) =
                        (finder.condition(n.relation.as_ref(), n.where_clause.as_deref()), Holder::of(n));
                    let spot = finder.spot(at, holder);
                    finder.target(n.relation.as_ref(), Filter::Conditions(vec![spot]));
                    finder.sources(&n.using_clause, Some(spot));
                    finder.parts(node, &[Part::Target, Part::From, Part::With]);
                });
            }
            NodeRef::MergeStmt(n) => self.merge(n),
            NodeRef::CopyStmt(n) => self.copy(n),
            NodeRef::DoStmt(_) => self.found.places.opaque = Some("DO block"),
            NodeRef::CreateFunctionStmt(n) => {
                if settings::has(&n.options, "as") {
                    self.found.places.opaque = Some("body of a function");
                }
                self.children(node);
            }
            NodeRef::IntoClause(n) => {
                if let Some(made) = n.rel.as_ref() {
                    self.made(made);
                }
            }
            NodeRef::ViewStmt(n) => {
                if let Some(made) = n.view.as_ref() {
                    self.made(made);
                }
                each_child(node, &mut |child| match child {
                    NodeRef::RangeVar(_) => {}
                    child => self.visit(child),
                });
            }
            NodeRef::CreateStmt(n) => {
                if let Some(made) = n.relation.as_ref() {
                    self.made(made);
                }
                each_child(node, &mut |child| match child {
                    NodeRef::RangeVar(r) if n.relation.as_ref().is_some_and(|made| std::ptr::eq(r, made)) => {}
                    child => self.visit(child),
                });
            }
            NodeRef::CreateSeqStmt(n) => {
                if let Some(made) = n.sequence.as_ref() {
                    self.made(made);
                }
            }
            NodeRef::DropStmt(n) => self.dropped(n),
            NodeRef::LockStmt(_) => {
                each_child(node, &mut |child| match child {
                    NodeRef::RangeVar(locked) => self.relation(locked, Filter::Needless),
                    child => self.visit(child),
                });
            }
            // Aliases of the FROM list.
            NodeRef::LockingClause(n) => self.names.extend(n.locked_rels.iter().filter_map(relation_name)),
            NodeRef::TruncateStmt(_) => {
                each_child(node, &mut |child| match child {
                    NodeRef::RangeVar(emptied) => {
                        self.relation(emptied, Filter::Impossible("it would be emptied whole"))
                    }
                    child => self.visit(child),
                });
            }
            NodeRef::RangeVar(n) => {
                self.relation(n, Filter::Impossible("this statement cannot be given a condition"));
                if let Some(defined) = self.found.places.relations.last_mut() {
                    defined.defined = true;
                }
            }
            NodeRef::ColumnRef(n) => self.column(n, None),
            NodeRef::AIndirection(n) => {
                self.children(node);
                for field in n.indirection.iter().map(word).filter(|field| !field.is_empty()) {
                    self.unplaced_column(field);
                }
            }
            node => self.children(node),
        }
    }

    fn query(&mut self, query: &'t SelectStmt) {
        self.with_scope(query.with_clause.as_ref(), |finder| {
            let spot = finder.query_condition(query);
            finder.sources(&query.from_clause, spot);
            finder.titled(&query.target_list);
            let combined = query.larg.is_some();
            each_child(NodeRef::SelectStmt(query), &mut |child| match child {
                NodeRef::WithClause(_) => {}
                child if is_one_of(child, &query.from_clause) || is_one_of(child, &query.target_list) => {}
                // A set operation is sorted by its result's columns only.
                NodeRef::SortBy(_) if combined => {}
                NodeRef::SortBy(sort) => finder.sorted(sort),
                child => finder.visit(child),
            });
        });
    }

    /// Where a condition of this query stands, if it has relations that could want one.
    fn query_condition(&mut self, query: &'t SelectStmt) -> Option<usize> {
        let first = query.from_clause.iter().find_map(from::first_relation)?;
        let token = self.script.at(first.location)?;
        if from::is_command(&self.script, token) {
            return None;
        }
        let Some(from) = self.script.own_from(token) else {
            self.stuck("the FROM of a query cannot be made out");
            return None;
        };
        let condition = self.script.where_clause(from + 1);
        if condition.existing.is_some() != query.where_clause.is_some() {
            self.stuck("the WHERE of a query cannot be made out");
        }
        Some(self.spot(condition, Holder::of(query)))
    }

    /// The WHERE of a command whose target is `target`.
    fn condition(&mut self, target: Option<&'t RangeVar>, existing: Option<&Node>) -> Condition {
        let token = target.and_then(|target| self.script.at(target.location)).unwrap_or_default();
        let condition = self.script.where_clause(token);
        let current = matches!(existing.and_then(|e| e.node.as_ref()), Some(NodeEnum::CurrentOfExpr(_)));
        if condition.existing.is_some() != existing.is_some() {
            self.stuck("the WHERE of a statement cannot be made out");
        }
        if current { Condition { word: "current", ..condition } } else { condition }
    }

    fn spot(&mut self, condition: Condition, holder: Holder) -> usize {
        self.found.places.conditions.push(condition);
        self.found.holders.push(holder);
        self.found.places.conditions.len() - 1
    }

    fn insert(&mut self, insert: &'t protobuf::InsertStmt) {
        self.with_scope(insert.with_clause.as_ref(), |finder| {
            let mut filter = Filter::Needless;
            if let Some(conflict) = insert.on_conflict_clause.as_deref()
                && conflict.action == protobuf::OnConflictAction::OnconflictUpdate as i32
            {
                let script = &finder.script;
                let does = script.at(conflict.location).and_then(|on| script.find(on + 1, &["do"]));
                match does.map(|does| script.where_clause(does + 1)) {
                    Some(condition) if condition.existing.is_some() == conflict.where_clause.is_some() => {
                        filter = Filter::Conditions(vec![finder.spot(condition, Holder::of(conflict))]);
                    }
                    _ => finder.stuck("the ON CONFLICT clause cannot be made out"),
                }
            }
            let target = finder.found.places.relations.len();
            finder.target(insert.relation.as_ref(), filter);
            if let Some(scope) = finder.levels.last_mut() {
                scope.called.push(("excluded", target));
            }
            finder.assigned(&insert.cols, target);
            // The query of INSERT does not see the target.
            let scope = finder.levels.pop();
            if let Some(query) = insert.select_stmt.as_deref().and_then(|query| query.node.as_ref()) {
                finder.visit(query.to_ref());
            }
            finder.levels.extend(scope);
            if let Some(conflict) = insert.on_conflict_clause.as_deref() {
                finder.conflict(conflict, target);
            }
            if let Some(returning) = insert.returning_clause.as_ref() {
                finder.titled(&returning.exprs);
            }
        });
    }

    fn merge(&mut self, merge: &'t protobuf::MergeStmt) {
        self.with_scope(merge.with_clause.as_ref(), |finder| {
            let target = finder.found.places.relations.len();
            let filter = match finder.merge_conditions(merge) {
                Some(spots) => Filter::Conditions(spots),
                None => Filter::Impossible("the clauses of MERGE cannot be made out"),
            };
            finder.target(merge.relation.as_ref(), filter);
            if let Some(source) = merge.source_relation.as_deref() {
                finder.sources(std::slice::from_ref(source), None);
            }
            for when in merge.merge_when_clauses.iter().filter_map(|when| when.node.as_ref()) {
                if let NodeEnum::MergeWhenClause(when) = when {
                    finder.assigned(&when.target_list, target);
                }
            }
            finder.parts(NodeRef::MergeStmt(merge), &[Part::Target, Part::From, Part::With]);
        });
    }

    /// ON, and each WHEN NOT MATCHED BY SOURCE, to which all rows belong that ON keeps out.
    fn merge_conditions(&mut self, merge: &'t protobuf::MergeStmt) -> Option<Vec<usize>> {
        let token = self.script.at(merge.relation.as_ref()?.location)?;
        let using = self.script.find(token, &["using"])?;
        let when = self.script.find(using + 1, &["when"])?;
        // The source may be a join with an ON of its own.
        let mut on = self.script.find(using + 1, &["on"])?;
        while let Some(next) = self.script.find(on + 1, &["on"]).filter(|next| *next < when) {
            on = next;
        }
        (on < when).then_some(())?;
        let condition = self.script.range(on + 1..when);
        let on = Condition { at: condition.start, existing: Some(condition), word: "on" };
        let mut spots = vec![self.spot(on, Holder::of(merge))];
        let mut at = Some(when);
        for clause in &merge.merge_when_clauses {
            let (Some(NodeEnum::MergeWhenClause(clause)), Some(when)) = (clause.node.as_ref(), at) else { return None };
            let then = self.script.find(when + 1, &["then"])?;
            at = self.script.find(then + 1, &["when"]);
            if clause.match_kind == protobuf::MergeMatchKind::MergeWhenNotMatchedBySource as i32 {
                let and = self.script.find(when + 1, &["and"]).filter(|and| *and < then);
                let existing = and.map(|and| self.script.range(and + 1..then));
                let condition = Condition { existing, at: self.script.end_before(then), word: "and" };
                spots.push(self.spot(condition, Holder::of(&**clause)));
            }
        }
        Some(spots)
    }

    fn copy(&mut self, copy: &'t protobuf::CopyStmt) {
        if let Some(table) = copy.relation.as_ref() {
            let filter = if copy.is_from {
                Filter::Needless
            } else {
                match self.copied(table, !copy.attlist.is_empty()) {
                    Some(derived) => Filter::Derived(derived),
                    None => Filter::Impossible("the list of columns cannot be made out"),
                }
            };
            let index = self.found.places.relations.len();
            self.relation(table, filter);
            for column in &copy.attlist {
                self.listed_column(column, table, index);
            }
        }
        if let Some(query) = copy.query.as_deref().and_then(|query| query.node.as_ref()) {
            self.visit(query.to_ref());
        }
        if let Some(condition) = copy.where_clause.as_deref().and_then(|condition| condition.node.as_ref()) {
            self.visit(condition.to_ref());
        }
    }

    fn copied(&self, table: &RangeVar, listed: bool) -> Option<Derived> {
        let name = self.name_tokens(table)?;
        let (columns, end) = match listed {
            false => (None, name.end),
            true => {
                let end = self.script.behind_bracket(name.end)?;
                (Some(self.script.range(name.end + 1..end - 1)), end)
            }
        };
        let item = self.script.range(name.start..end);
        Some(Derived { item, relation: self.script.range(name), columns, sample: None, form: Form::Copy })
    }

    fn dropped(&mut self, drop: &'t protobuf::DropStmt) {
        if !super::objects::is_relation(drop.remove_type) {
            return;
        }
        for object in &drop.objects {
            if let Some(NodeEnum::List(parts)) = object.node.as_ref() {
                let (schema, relation) = qualified(&parts.items);
                let filter = Filter::Impossible("it would be dropped whole");
                self.add(Relation {
                    name: name(schema, relation),
                    span: None,
                    alias: None,
                    alias_at: None,
                    called: false,
                    natural: false,
                    made: false,
                    defined: false,
                    temporary: relations::is_temporary(schema),
                    filter,
                });
            }
        }
    }

    /// What INSERT, UPDATE, DELETE and MERGE change.
    fn target(&mut self, target: Option<&'t RangeVar>, filter: Filter) {
        let Some(target) = target else { return };
        let current = |spots: &[usize]| {
            spots.iter().any(|spot| self.found.places.conditions.get(*spot).is_some_and(|c| c.word == "current"))
        };
        let filter = match filter {
            Filter::Conditions(spots) if current(&spots) => Filter::Impossible("WHERE CURRENT OF takes no condition"),
            filter => filter,
        };
        self.source(target, filter);
    }

    /// A relation in reach of its statement's columns.
    fn source(&mut self, table: &'t RangeVar, filter: Filter) {
        let index = self.found.places.relations.len();
        self.relation(table, filter);
        let called = table.alias.as_ref().map_or(&*table.relname, |alias| &*alias.aliasname);
        if let Some(scope) = self.levels.last_mut() {
            scope.level.relations.push(index);
            scope.called.push((called, index));
        }
    }

    fn made(&mut self, table: &'t RangeVar) {
        self.relation(table, Filter::Needless);
        if let Some(made) = self.found.places.relations.last_mut() {
            made.made = true;
        }
    }

    fn relation(&mut self, table: &'t RangeVar, filter: Filter) {
        let tokens = self.name_tokens(table);
        if tokens.is_none() {
            self.stuck("a relation's name is written in a way that cannot be changed");
        }
        let alias_at = tokens.clone().filter(|_| table.alias.is_none()).map(|tokens| self.alias_at(tokens.end));
        let temporary = relations::is_temporary(&table.schemaname) || table.relpersistence == "t";
        self.add(Relation {
            name: name(&table.schemaname, &table.relname),
            span: tokens.map(|tokens| self.script.range(tokens)),
            alias: table.alias.as_ref().map(|alias| alias.aliasname.as_str().into()),
            alias_at,
            called: false,
            natural: false,
            made: false,
            defined: false,
            temporary,
            filter,
        });
    }

    fn add(&mut self, relation: Relation) {
        self.found.places.relations.push(relation);
    }

    /// Children of a command that are not looked at elsewhere.
    fn parts(&mut self, node: NodeRef<'t>, except: &[Part]) {
        let (target, from) = match node {
            NodeRef::UpdateStmt(n) => (n.relation.as_ref(), n.from_clause.as_slice()),
            NodeRef::DeleteStmt(n) => (n.relation.as_ref(), n.using_clause.as_slice()),
            NodeRef::MergeStmt(n) => {
                (n.relation.as_ref(), n.source_relation.as_deref().map(std::slice::from_ref).unwrap_or_default())
            }
            _ => (None, [].as_slice()),
        };
        each_child(node, &mut |child| match child {
            NodeRef::WithClause(_) if except.contains(&Part::With) => {}
            NodeRef::RangeVar(r) if target.is_some_and(|target| std::ptr::eq(r, target)) => {}
            child if is_one_of(child, from) => {}
            NodeRef::ReturningClause(returning) => self.titled(&returning.exprs),
            child => self.visit(child),
        });
    }

    /// The WITH queries come in scope one after the other, or all at once; then the statement's own names.
    fn with_scope(&mut self, with: Option<&'t protobuf::WithClause>, statement: impl FnOnce(&mut Self)) {
        let outside = self.with.len();
        let queries = || {
            with.iter().flat_map(|w| &w.ctes).filter_map(|n| match n.node.as_ref() {
                Some(NodeEnum::CommonTableExpr(query)) => Some(&**query),
                _ => None,
            })
        };
        let recursive = with.is_some_and(|w| w.recursive);
        if recursive {
            self.with.extend(queries().map(|query| query.ctename.as_str()));
        }
        for query in queries() {
            self.children(NodeRef::CommonTableExpr(query));
            if !recursive {
                self.with.push(&query.ctename);
            }
        }
        self.levels.push(Scope::default());
        statement(self);
        self.levels.pop();
        self.with.truncate(outside);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Target,
    From,
    With,
}

/// Is it, by address, one of these?
fn is_one_of(node: NodeRef<'_>, list: &[Node]) -> bool {
    fn address(node: NodeRef<'_>) -> Option<usize> {
        Some(match node {
            NodeRef::RangeVar(n) => std::ptr::from_ref(n).addr(),
            NodeRef::JoinExpr(n) => std::ptr::from_ref(n).addr(),
            NodeRef::RangeSubselect(n) => std::ptr::from_ref(n).addr(),
            NodeRef::RangeFunction(n) => std::ptr::from_ref(n).addr(),
            NodeRef::RangeTableFunc(n) => std::ptr::from_ref(n).addr(),
            NodeRef::RangeTableSample(n) => std::ptr::from_ref(n).addr(),
            NodeRef::JsonTable(n) => std::ptr::from_ref(n).addr(),
            NodeRef::ResTarget(n) => std::ptr::from_ref(n).addr(),
            _ => return None,
        })
    }
    let wanted = address(node);
    wanted.is_some() && list.iter().filter_map(|item| item.node.as_ref()).any(|item| address(item.to_ref()) == wanted)
}

fn relation_name(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::RangeVar(table) => Some(&table.relname),
        _ => None,
    }
}
