//! One walk over the whole tree, collecting what a text touches.

use std::collections::BTreeSet;

use pg_query::{
    Node, NodeRef,
    protobuf::{self, RangeVar},
};

use super::{
    acts::Acts,
    children::each_child,
    relations::{self, RelationClass},
    settings,
    strangers::Strangers,
    truth::Known,
};
use crate::sql::{
    facts::{Act, Clause, Effect, Facts, Kind, Marks, Name, PrimaryReason, TxVerb},
    functions::{Declared, FunctionClass, Functions},
};

/// What becomes of the code that is being walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It runs.
    Runs,
    /// EXPLAIN without ANALYZE: it is only planned, and planning neither writes nor locks rows.
    Planned,
    /// It is stored (a view, a function's body, a default) and may run later.
    Stored,
    /// The same by PREPARE: it runs by EXECUTE, in this session.
    Prepared,
}

/// A WITH query in scope.
struct WithQuery {
    name: String,
    read: Read,
}

/// What a query leaves to be said of whoever reads it.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) filter: Clause,
    /// A system catalog is in it.
    pub(super) catalog: bool,
}

/// Collects facts; one per text.
pub(super) struct Walk<'f> {
    pub(super) functions: &'f Functions,
    reads: BTreeSet<Name>,
    writes: BTreeSet<Name>,
    called: BTreeSet<Name>,
    /// What may be a function behind a value.
    notations: BTreeSet<Name>,
    effects: Vec<Effect>,
    pub(super) inside: Vec<Effect>,
    tx: Vec<TxVerb>,
    primary: Option<PrimaryReason>,
    strangers: Strangers,
    needs_literals: bool,
    /// The WITH queries in scope.
    with: Vec<WithQuery>,
    pub(super) acts: Acts,
    fate: Fate,
    /// An effect was left out because its code is only stored.
    held_back: bool,
    /// Data was changed by any part of the statement.
    pub(super) wrote: bool,
    pub(super) in_block: bool,
}

/// Relations and functions that something names.
#[derive(Default)]
pub(super) struct Names {
    reads: BTreeSet<Name>,
    writes: BTreeSet<Name>,
    called: BTreeSet<Name>,
}

impl Names {
    /// Those of something else as well.
    pub(super) fn add(&mut self, others: Self) {
        self.reads.extend(others.reads);
        self.writes.extend(others.writes);
        self.called.extend(others.called);
    }
}

impl<'f> Walk<'f> {
    pub(super) fn new(functions: &'f Functions) -> Self {
        Self {
            functions,
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
            called: BTreeSet::new(),
            notations: BTreeSet::new(),
            effects: Vec::new(),
            inside: Vec::new(),
            tx: Vec::new(),
            primary: None,
            strangers: Strangers::default(),
            needs_literals: false,
            with: Vec::new(),
            acts: Acts::new(),
            fate: Fate::Runs,
            held_back: false,
            wrote: false,
            in_block: false,
        }
    }

    /// A walk through a piece of PL/pgSQL, where SELECT INTO fills variables.
    pub(super) fn in_block(functions: &'f Functions) -> Self {
        Self { in_block: true, ..Self::new(functions) }
    }

    pub(super) fn finish(mut self, facts: Facts) -> Facts {
        let opaque = self.effects.contains(&Effect::OpaqueCode);
        if self.strangers.runs && !opaque {
            self.effects.push(Effect::OpaqueCode);
        }
        let stranger = self.strangers.reason();
        let primary = self.primary.map_or(stranger, |known| Some(stranger.map_or(known, |reason| known.min(reason))));
        Facts {
            proven_read_only: primary.is_none(),
            primary,
            mentions: self.strangers.finish(self.primary, opaque),
            reads: self.reads.into_iter().collect(),
            writes: self.writes.into_iter().collect(),
            functions: self.called.into_iter().collect(),
            notations: self.notations.into_iter().collect(),
            tx: self.tx.into(),
            effects: self.effects.into(),
            inside: self.inside.into(),
            acts: self.acts.finish(),
            needs_literals: self.needs_literals,
            ..facts
        }
    }

    /// The text must run on the primary; the gravest reason is kept.
    pub(super) fn must(&mut self, reason: PrimaryReason) {
        let harmless_when_planned = matches!(reason, PrimaryReason::Writes | PrimaryReason::LocksRows);
        if self.fate == Fate::Planned && harmless_when_planned {
            return;
        }
        self.primary = Some(self.primary.map_or(reason, |known| known.min(reason)));
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        match self.fate {
            Fate::Runs if self.effects.last() != Some(&effect) => self.effects.push(effect),
            Fate::Runs => {}
            Fate::Planned => {}
            Fate::Stored => self.held_back = true,
            Fate::Prepared => {
                self.held_back = true;
                self.inside.push(effect);
            }
        }
    }

    pub(super) fn transaction(&mut self, verb: TxVerb) {
        if self.fate == Fate::Runs {
            self.tx.push(verb);
        }
    }

    /// The facts hang on the values of literals.
    pub(super) fn by_literals(&mut self) {
        self.needs_literals = true;
    }

    /// Walks with another fate; true if effects were held back meanwhile.
    pub(super) fn with_fate(&mut self, fate: Fate, walk: impl FnOnce(&mut Self)) -> bool {
        let before = (self.fate, self.held_back);
        (self.fate, self.held_back) = (fate, false);
        walk(self);
        let held_back = self.held_back;
        (self.fate, self.held_back) = before;
        held_back
    }

    pub(super) fn visit_children(&mut self, node: NodeRef<'_>) {
        each_child(node, &mut |child| self.visit(child));
    }

    /// Any node that is not a statement of its own. Whatever needs no judgement is walked through: `each_child` knows
    /// every field of every kind.
    pub(super) fn visit(&mut self, node: NodeRef<'_>) {
        match node {
            NodeRef::SelectStmt(_) if self.acts.expects_queries() => {
                self.statement(node, b"");
            }
            NodeRef::SelectStmt(n) => self.query(n),
            NodeRef::IntoClause(n) => self.creates(n.rel.as_ref(), drops_on_commit(n.on_commit)),
            // Its relations are aliases of the FROM list.
            NodeRef::LockingClause(_) => self.must(PrimaryReason::LocksRows),
            NodeRef::RangeVar(n) => self.reads(n),
            // A sequence read as a table: replicas are up to 32 values ahead (SEQ_LOG_VALS in commands/sequence.c).
            NodeRef::ColumnRef(n) if n.fields.last().is_some_and(|f| SEQUENCE_COLUMNS.contains(&word(f))) => {
                self.strangers.sequence = true;
                self.strangers.column(&n.fields);
            }
            NodeRef::ColumnRef(n) => self.strangers.column(&n.fields),
            NodeRef::AIndirection(n) => {
                n.indirection.iter().for_each(|part| self.notation(part));
                self.visit_children(node);
            }
            NodeRef::FuncCall(n) => {
                self.calls(n);
                self.visit_children(node);
            }
            NodeRef::AExpr(n) => {
                self.operator(&n.name);
                self.visit_children(node);
            }
            NodeRef::SubLink(n) => {
                self.operator(&n.oper_name);
                self.sub_link(n);
            }
            NodeRef::JoinExpr(n) => {
                if let Some(condition) = n.quals.as_deref() {
                    self.condition(condition, Known::default());
                }
                self.visit_children(node);
            }
            // Of a statement that has more than this to say: a role, a database, a function.
            NodeRef::VariableSetStmt(n) => {
                settings::set(self, n);
            }
            NodeRef::SortBy(n) => {
                self.operator(&n.use_op);
                self.visit_children(node);
            }
            NodeRef::RangeTableSample(n) => {
                let (schema, name) = qualified(&n.method);
                if !matches!(schema, "" | "pg_catalog") || !matches!(name, "bernoulli" | "system") {
                    self.unknown_function(schema, name);
                }
                self.visit_children(node);
            }
            NodeRef::TypeName(n) => {
                if relations::is_temporary(qualified(&n.names).0) {
                    self.temporary();
                }
                self.strangers.type_name(&n.names);
                self.visit_children(node);
            }
            node if super::statement::is_statement(node) => {
                self.statement(node, b"");
            }
            node => self.visit_children(node),
        }
    }

    /// A statement with a WITH clause: its names hide relations, each from the next query on (RECURSIVE: from the first).
    pub(super) fn in_scope(
        &mut self,
        with: Option<&protobuf::WithClause>,
        node: NodeRef<'_>,
        target: Option<&RangeVar>,
    ) {
        let outside = self.with.len();
        let queries = with.iter().flat_map(|w| &w.ctes).filter_map(|n| match n.node.as_ref()?.to_ref() {
            NodeRef::CommonTableExpr(query) => Some(query),
            _ => None,
        });
        let recursive = with.is_some_and(|w| w.recursive);
        if recursive {
            let nothing = Read { filter: Clause::NotApplicable, catalog: false };
            self.with.extend(queries.clone().map(|q| WithQuery { name: q.ctename.clone(), read: nothing }));
        }
        for (i, query) in queries.enumerate() {
            let read = self.with_query(query);
            match self.with.get_mut(outside + i) {
                Some(known) if recursive => known.read = read,
                _ => self.with.push(WithQuery { name: query.ctename.clone(), read }),
            }
        }
        // Only the arms of a set operation are queries directly inside of a query.
        let combines = matches!(node, NodeRef::SelectStmt(_));
        let mut arms = (0, 0);
        each_child(node, &mut |child| match child {
            NodeRef::WithClause(_) => {}
            NodeRef::RangeVar(r) if target.is_some_and(|t| std::ptr::eq(r, t)) => {}
            NodeRef::SelectStmt(_) if combines => arms = (arms.0 + 1, arms.1 + u32::from(self.arm(child))),
            child => self.visit(child),
        });
        if arms == (2, 1) {
            self.acts.mark(Marks::UNION_CATALOG);
        }
        if arms.1 > 0 {
            self.acts.catalog();
        }
        self.with.truncate(outside);
    }

    pub(super) fn modify(&mut self, target: Option<&RangeVar>, with: Option<&protobuf::WithClause>, node: NodeRef<'_>) {
        self.must(PrimaryReason::Writes);
        match target {
            // EXPLAIN without ANALYZE changes nothing: its target is only looked at.
            Some(target) if self.fate == Fate::Planned => self.reads(target),
            Some(target) => self.writes(target),
            None => {}
        }
        self.wrote |= self.fate != Fate::Planned;
        self.in_scope(with, node, target);
    }

    pub(super) fn reads(&mut self, relation: &RangeVar) {
        let named = self.with.iter().rev().find(|query| query.name == relation.relname);
        if let Some(WithQuery { read, .. }) = named.filter(|_| relation.schemaname.is_empty()) {
            if read.catalog {
                self.acts.catalog();
            }
            return self.acts.source(read.filter);
        }
        self.acts.source(Clause::Missing);
        if relations::is_catalog(&relation.schemaname, &relation.relname) {
            self.acts.catalog();
        }
        match relations::classify(&relation.schemaname, &relation.relname) {
            RelationClass::Plain => {}
            RelationClass::NodeLocal => self.must(PrimaryReason::NodeLocal),
            RelationClass::Session => self.must(PrimaryReason::SessionState),
            RelationClass::Unknown => self.must(PrimaryReason::UnknownRelation),
            RelationClass::Temporary => self.temporary(),
        }
        self.reads.insert(name(&relation.schemaname, &relation.relname));
    }

    pub(super) fn writes(&mut self, relation: &RangeVar) {
        if relations::is_temporary(&relation.schemaname) {
            self.temporary();
        }
        self.writes.insert(name(&relation.schemaname, &relation.relname));
    }

    pub(super) fn writes_named(&mut self, schema: &str, relation: &str) {
        if relations::is_temporary(schema) {
            self.temporary();
        }
        self.writes.insert(name(schema, relation));
    }

    /// A relation that comes into being: CREATE, SELECT INTO. `drops`: ON COMMIT DROP.
    pub(super) fn creates(&mut self, relation: Option<&RangeVar>, drops: bool) {
        self.must(PrimaryReason::Writes);
        if self.fate == Fate::Planned {
            return;
        }
        self.wrote = true;
        if let Some(relation) = relation {
            if relation.relpersistence == "t" {
                self.effect(if drops { Effect::TempForTransaction } else { Effect::TempObject });
            }
            self.writes(relation);
        }
    }

    pub(super) fn temporary(&mut self) {
        self.must(PrimaryReason::SessionState);
        self.effect(Effect::TempObject);
    }

    fn operator(&mut self, operator: &[Node]) {
        let (schema, operator) = qualified(operator);
        self.strangers.operator(schema, operator);
        if !matches!(schema, "" | "pg_catalog") {
            self.unknown_function(schema, operator);
        }
    }

    pub(super) fn unknown_function(&mut self, schema: &str, function: &str) {
        self.called.insert(name(schema, function));
        self.strangers.called = true;
        match self.fate {
            Fate::Runs => self.strangers.runs = true,
            Fate::Planned | Fate::Stored | Fate::Prepared => self.effect(Effect::OpaqueCode),
        }
        if function.starts_with("dblink_connect") {
            // Its connection, with the rights of whoever made it, would be there for the next client: only the server connection's end ends it.
            self.effect(Effect::Load);
        }
    }

    /// A function that the operator has declared; false: it is none.
    fn declared(&mut self, schema: &str, function: &str) -> bool {
        let schema_said = (!schema.is_empty()).then_some(schema);
        let Some(declared) = self.functions.declared(schema_said, function) else { return false };
        self.called.insert(name(schema, function));
        if let Declared::Writes(relations) = declared {
            self.must(PrimaryReason::VolatileFunction);
            self.writes.extend(relations.iter().cloned());
        }
        true
    }

    fn calls(&mut self, call: &protobuf::FuncCall) {
        let (schema, function) = qualified(&call.funcname);
        let class = match schema {
            "" | "pg_catalog" => self.functions.class(function),
            _ => None,
        };
        let Some(class) = class else {
            if !self.declared(schema, function) {
                self.unknown_function(schema, function);
            }
            return;
        };
        self.called.insert(name("", function));
        match class {
            FunctionClass::Read if function == "current_setting" => settings::reads_parameter(self, call),
            FunctionClass::Read => {}
            FunctionClass::Writes => {
                self.must(PrimaryReason::VolatileFunction);
                if matches!(self.fate, Fate::Runs | Fate::Prepared) {
                    self.acts.mark(Marks::WRITES);
                }
            }
            FunctionClass::NodeLocal => self.must(PrimaryReason::NodeLocal),
            FunctionClass::Opaque => {
                self.must(PrimaryReason::UnknownFunction);
                self.effect(Effect::OpaqueCode);
            }
            FunctionClass::SessionValue => {
                self.must(PrimaryReason::SessionState);
                self.effect(Effect::SessionValue);
            }
            FunctionClass::Session => {
                self.must(PrimaryReason::SessionState);
                match function {
                    "set_config" => settings::sets_parameter(self, call),
                    "pg_export_snapshot" => self.effect(Effect::ExportSnapshot),
                    _ => {}
                }
            }
            FunctionClass::Locks => {
                self.must(PrimaryReason::VolatileFunction);
                match function {
                    "pg_advisory_unlock_all" => self.effect(Effect::AdvisoryUnlockAll),
                    unlock if unlock.starts_with("pg_advisory_unlock") => self.effect(Effect::AdvisoryUnlock),
                    // Held by the transaction, which stays on its server anyway.
                    xact if xact.contains("_xact_") => {}
                    _ => self.effect(Effect::AdvisoryLock),
                }
            }
        }
    }

    /// `(…).f` is f(…) if the value has no field of that name (ParseFuncOrColumn).
    fn notation(&mut self, part: &Node) {
        let Some(pg_query::NodeEnum::String(_)) = part.node else { return };
        let function = word(part);
        if self.functions.class(function).is_some() {
            self.calls(&protobuf::FuncCall { funcname: vec![part.clone()], ..Default::default() });
        } else {
            self.notations.insert(name("", function));
        }
        self.strangers.behind_value(function);
    }

    /// A function that something is made of: it will be called one day.
    pub(super) fn names_function(&mut self, parts: &[Node]) {
        let (schema, function) = qualified(parts);
        let is_built_in = matches!(schema, "" | "pg_catalog") && self.functions.class(function).is_some();
        self.called.insert(name(if is_built_in { "" } else { schema }, function));
    }

    /// The kind of a statement that may or may not change data.
    pub(super) fn read_or_write(&self) -> Kind {
        if self.wrote { Kind::Write } else { Kind::Read }
    }

    /// What is walked by itself, a body for instance, has its acts, effects and names taken out of it.
    pub(super) fn into_seen(self) -> (Vec<Effect>, Box<[Act]>, Names) {
        let names = Names {
            reads: self.reads,
            writes: self.writes,
            called: self.called.into_iter().chain(self.notations).collect(),
        };
        (self.effects, self.acts.finish(), names)
    }

    /// Names in a body that is kept as a literal: they are the statement's own as far as anybody asks what it is about.
    pub(super) fn mention(&mut self, names: Names) {
        self.reads.extend(names.reads);
        self.writes.extend(names.writes);
        self.called.extend(names.called);
    }

    pub(super) fn is_stored(&self) -> bool {
        matches!(self.fate, Fate::Stored | Fate::Prepared)
    }
}

/// ON COMMIT DROP.
pub(super) fn drops_on_commit(action: i32) -> bool {
    action == protobuf::OnCommitAction::OncommitDrop as i32
}

const SEQUENCE_COLUMNS: [&str; 3] = ["last_value", "log_cnt", "is_called"];

/// Schema (empty: none) and name of a list of one to three identifiers.
pub(super) fn qualified(parts: &[Node]) -> (&str, &str) {
    match parts {
        [.., schema, name] => (word(schema), word(name)),
        [name] => ("", word(name)),
        [] => ("", ""),
    }
}

pub(super) fn word(node: &Node) -> &str {
    match node.node.as_ref() {
        Some(pg_query::NodeEnum::String(s)) => &s.sval,
        _ => "",
    }
}

pub(super) fn name(schema: &str, name: &str) -> Name {
    Name { schema: (!schema.is_empty()).then(|| schema.into()), name: name.into() }
}
