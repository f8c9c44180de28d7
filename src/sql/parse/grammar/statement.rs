//! What each kind of statement is, and what it does besides what its expressions do.

use pg_query::{
    Node, NodeRef,
    protobuf::{self, DiscardMode, TransactionStmtKind},
};

use super::{
    block,
    children::each_child,
    objects::{functions_of, is_relation, object_of, relation_of, wholesale},
    settings,
    walk::{Fate, Walk, drops_on_commit, qualified, word},
};
use crate::sql::{
    facts::{Effect, Kind, Marks, Name, PrimaryReason, TxVerb, Verb},
    lexer::{StringRules, TokenKind, Tokens},
};

/// Is it a command, rather than part of one? SELECT is not listed: it is both.
pub(super) fn is_statement(node: NodeRef<'_>) -> bool {
    definition(node).is_some()
        || matches!(
            node,
            NodeRef::InsertStmt(_)
                | NodeRef::UpdateStmt(_)
                | NodeRef::DeleteStmt(_)
                | NodeRef::MergeStmt(_)
                | NodeRef::NotifyStmt(_)
                | NodeRef::ExecuteStmt(_)
                | NodeRef::CallStmt(_)
                | NodeRef::DoStmt(_)
                | NodeRef::CreateTableAsStmt(_)
        )
}

impl Walk<'_> {
    /// A whole statement; `text` begins with it (it tells TABLE from SELECT).
    pub(super) fn statement(&mut self, node: NodeRef<'_>, text: &[u8]) -> (Verb, Kind) {
        let wrote = std::mem::take(&mut self.wrote);
        let aside = self.acts.begin();
        let (verb, kind) = self.run(node, text);
        self.acts.end(aside, verb, object_of(node));
        self.wrote |= wrote;
        (verb, kind)
    }

    fn run(&mut self, node: NodeRef<'_>, text: &[u8]) -> (Verb, Kind) {
        match node {
            NodeRef::SelectStmt(n) => {
                self.query_act(n);
                let kind = if n.into_clause.is_some() { Kind::Ddl } else { self.read_or_write() };
                (query_verb(n, text), kind)
            }
            NodeRef::InsertStmt(n) => {
                self.modify(n.relation.as_ref(), n.with_clause.as_ref(), node);
                (Verb::Insert, Kind::Write)
            }
            NodeRef::UpdateStmt(n) => {
                self.modify(n.relation.as_ref(), n.with_clause.as_ref(), node);
                self.modify_act(n.where_clause.as_deref(), &n.from_clause, n.relation.as_ref());
                if n.relation.as_ref().is_some_and(|table| table.relname == "pg_settings") {
                    // Its rule calls set_config with whatever the WHERE finds.
                    self.effect(Effect::OpaqueCode);
                    self.acts.parameter(settings::COMPUTED);
                }
                (Verb::Update, Kind::Write)
            }
            NodeRef::DeleteStmt(n) => {
                self.modify(n.relation.as_ref(), n.with_clause.as_ref(), node);
                self.modify_act(n.where_clause.as_deref(), &n.using_clause, n.relation.as_ref());
                (Verb::Delete, Kind::Write)
            }
            NodeRef::MergeStmt(n) => {
                self.modify(n.relation.as_ref(), n.with_clause.as_ref(), node);
                self.merge_act(n);
                (Verb::Merge, Kind::Write)
            }
            NodeRef::TruncateStmt(_) => {
                self.defines(node);
                (Verb::Truncate, Kind::Write)
            }
            NodeRef::CopyStmt(n) => self.copy(n, text),
            NodeRef::CallStmt(n) => {
                if let Some(call) = n.funccall.as_deref() {
                    let (schema, procedure) = qualified(&call.funcname);
                    self.unknown_function(schema, procedure);
                    self.visit_children(NodeRef::FuncCall(call));
                }
                self.opaque();
                (Verb::Call, Kind::Write)
            }
            NodeRef::DoStmt(n) => {
                self.opaque();
                self.block(block::of_do(n, self.functions));
                (Verb::Do, Kind::Write)
            }
            NodeRef::ExplainStmt(n) => self.explain(n),
            NodeRef::VariableSetStmt(n) => settings::set(self, n),
            NodeRef::VariableShowStmt(n) => {
                settings::show(self, &n.name);
                (Verb::Show, Kind::Session)
            }
            NodeRef::TransactionStmt(n) => self.transaction_control(n),
            NodeRef::ConstraintsSetStmt(_) => {
                self.must(PrimaryReason::TransactionControl);
                (Verb::SetConstraints, Kind::Transaction)
            }
            NodeRef::PrepareStmt(n) => {
                self.acts.expect_queries();
                if self.with_fate(Fate::Prepared, |walk| walk.visit_children(node)) {
                    self.effect(Effect::OpaqueCode);
                }
                self.session(Verb::Prepare, Effect::Prepare(n.name.as_str().into()))
            }
            NodeRef::ExecuteStmt(n) => {
                self.visit_children(node);
                self.session(Verb::Execute, Effect::Execute(n.name.as_str().into()))
            }
            NodeRef::DeallocateStmt(n) if n.isall => self.session(Verb::Deallocate, Effect::DeallocateAll),
            NodeRef::DeallocateStmt(n) => self.session(Verb::Deallocate, Effect::Deallocate(n.name.as_str().into())),
            NodeRef::DeclareCursorStmt(n) => {
                self.acts.expect_queries();
                self.visit_children(node);
                let (name, hold) = (n.portalname.as_str().into(), n.options & CURSOR_OPT_HOLD != 0);
                self.session(Verb::Declare, Effect::Declare { name, hold })
            }
            NodeRef::FetchStmt(n) => self
                .session(if n.ismove { Verb::Move } else { Verb::Fetch }, Effect::Fetch(n.portalname.as_str().into())),
            NodeRef::ClosePortalStmt(n) if n.portalname.is_empty() => {
                self.session(Verb::Close, Effect::CloseAllCursors)
            }
            NodeRef::ClosePortalStmt(n) => self.session(Verb::Close, Effect::CloseCursor(n.portalname.as_str().into())),
            NodeRef::ListenStmt(_) => self.session(Verb::Listen, Effect::Listen),
            NodeRef::UnlistenStmt(n) if n.conditionname.is_empty() => self.session(Verb::Unlisten, Effect::UnlistenAll),
            NodeRef::UnlistenStmt(_) => self.session(Verb::Unlisten, Effect::Unlisten),
            NodeRef::NotifyStmt(_) => self.utility(Verb::Notify, node),
            NodeRef::LoadStmt(_) => self.session(Verb::Load, Effect::Load),
            NodeRef::DiscardStmt(n) => {
                let effect = match DiscardMode::try_from(n.target) {
                    Ok(DiscardMode::DiscardPlans | DiscardMode::DiscardSequences) => Effect::DiscardOther,
                    Ok(DiscardMode::DiscardTemp) => Effect::DiscardTemp,
                    Ok(DiscardMode::DiscardAll | DiscardMode::Undefined) | Err(_) => Effect::DiscardAll,
                };
                self.session(Verb::Discard, effect)
            }
            NodeRef::LockStmt(_) => self.utility(Verb::Lock, node),
            NodeRef::CheckPointStmt(_) => self.utility(Verb::Checkpoint, node),
            // The SET inside it is for a file, not for the session.
            NodeRef::AlterSystemStmt(n) => {
                let name = n.setstmt.as_ref().map(|set| set.name.to_ascii_lowercase()).unwrap_or_default();
                self.acts.parameter(if name.is_empty() { "all" } else { &name });
                self.must(PrimaryReason::Utility);
                (Verb::Alter, Kind::Utility)
            }
            NodeRef::VacuumStmt(n) => {
                self.defines(node);
                (if n.is_vacuumcmd { Verb::Vacuum } else { Verb::Analyze }, Kind::Utility)
            }
            NodeRef::ReindexStmt(_) => self.maintenance(Verb::Reindex, node),
            NodeRef::ClusterStmt(_) => self.maintenance(Verb::Cluster, node),
            NodeRef::RefreshMatViewStmt(_) => self.maintenance(Verb::Refresh, node),
            NodeRef::CreateTableAsStmt(_) => {
                self.acts.expect_queries();
                self.visit_children(node);
                (Verb::Create, Kind::Ddl)
            }
            node => match definition(node) {
                Some(verb) => {
                    self.defines(node);
                    (verb, Kind::Ddl)
                }
                // No statement PostgreSQL 18 knows at this place.
                None => {
                    self.visit_children(node);
                    self.must(PrimaryReason::Writes);
                    self.opaque();
                    (Verb::Other, Kind::Unknown)
                }
            },
        }
    }

    /// What can be seen of code in a literal.
    fn block(&mut self, seen: block::Seen) {
        self.by_literals();
        self.inside.extend(seen.effects);
        self.acts.add(seen.acts);
        self.mention(seen.names);
    }

    fn session(&mut self, verb: Verb, effect: Effect) -> (Verb, Kind) {
        self.must(PrimaryReason::SessionState);
        self.effect(effect);
        (verb, Kind::Session)
    }

    fn utility(&mut self, verb: Verb, node: NodeRef<'_>) -> (Verb, Kind) {
        self.visit_children(node);
        self.must(PrimaryReason::Utility);
        (verb, Kind::Utility)
    }

    fn maintenance(&mut self, verb: Verb, node: NodeRef<'_>) -> (Verb, Kind) {
        self.defines(node);
        (verb, Kind::Utility)
    }

    fn opaque(&mut self) {
        self.must(PrimaryReason::UnknownFunction);
        self.effect(Effect::OpaqueCode);
    }

    fn explain(&mut self, explain: &protobuf::ExplainStmt) -> (Verb, Kind) {
        let mut analyze = false;
        for option in explain.options.iter().filter_map(settings::option) {
            if option.defname == "analyze" {
                analyze = settings::switch(self, option) != Some(false);
            }
        }
        let Some(node) = explain.query.as_ref().and_then(|q| q.node.as_ref()) else {
            return (Verb::Explain, Kind::Read);
        };
        let node = node.to_ref();
        let query = matches!(
            node,
            NodeRef::SelectStmt(_)
                | NodeRef::InsertStmt(_)
                | NodeRef::UpdateStmt(_)
                | NodeRef::DeleteStmt(_)
                | NodeRef::MergeStmt(_)
        );
        if query && !analyze {
            self.with_fate(Fate::Planned, |walk| {
                walk.statement(node, b"");
            });
            return (Verb::Explain, Kind::Read);
        }
        let (_, kind) = self.statement(node, b"");
        if !query {
            self.must(PrimaryReason::Utility);
        }
        (Verb::Explain, kind)
    }

    fn transaction_control(&mut self, control: &protobuf::TransactionStmt) -> (Verb, Kind) {
        self.must(PrimaryReason::TransactionControl);
        let chain = control.chain;
        let options = || settings::transaction_options(&control.options);
        let (verb, does) = match TransactionStmtKind::try_from(control.kind) {
            Ok(TransactionStmtKind::TransStmtBegin) => {
                (Verb::Begin, Some(TxVerb::Begin { options: options(), start: false }))
            }
            Ok(TransactionStmtKind::TransStmtStart) => {
                (Verb::Begin, Some(TxVerb::Begin { options: options(), start: true }))
            }
            Ok(TransactionStmtKind::TransStmtCommit) => (Verb::Commit, Some(TxVerb::Commit { chain })),
            Ok(TransactionStmtKind::TransStmtRollback) => (Verb::Rollback, Some(TxVerb::Rollback { chain })),
            Ok(TransactionStmtKind::TransStmtSavepoint) => (Verb::Savepoint, Some(TxVerb::Savepoint)),
            Ok(TransactionStmtKind::TransStmtRelease) => (Verb::ReleaseSavepoint, Some(TxVerb::Release)),
            Ok(TransactionStmtKind::TransStmtRollbackTo) => (Verb::RollbackToSavepoint, Some(TxVerb::RollbackTo)),
            Ok(TransactionStmtKind::TransStmtPrepare) => (Verb::PrepareTransaction, Some(TxVerb::PrepareTransaction)),
            Ok(TransactionStmtKind::TransStmtCommitPrepared) => (Verb::CommitPrepared, Some(TxVerb::CommitPrepared)),
            Ok(TransactionStmtKind::TransStmtRollbackPrepared) => {
                (Verb::RollbackPrepared, Some(TxVerb::RollbackPrepared))
            }
            Ok(TransactionStmtKind::Undefined) | Err(_) => (Verb::Other, None),
        };
        match does {
            Some(does) => self.transaction(does),
            None => self.opaque(),
        }
        (verb, Kind::Transaction)
    }

    /// DDL and maintenance: the relations it names itself are its targets, those inside its expressions are read later.
    fn defines(&mut self, node: NodeRef<'_>) {
        self.must(PrimaryReason::Writes);
        self.acts.expect_queries();
        let fate = match node {
            // These compute a new column or an index at once.
            NodeRef::AlterTableStmt(_) | NodeRef::IndexStmt(_) | NodeRef::CreateSchemaStmt(_) => Fate::Runs,
            _ => Fate::Stored,
        };
        let stored = self.is_stored();
        let mut targets = Vec::new();
        self.with_fate(if stored { Fate::Stored } else { fate }, |walk| {
            each_child(node, &mut |child| match child {
                NodeRef::RangeVar(target) => targets.push(target),
                NodeRef::VacuumRelation(n) => targets.extend(n.relation.as_ref()),
                child => walk.visit(child),
            });
        });
        let drops = matches!(node, NodeRef::CreateStmt(n) if drops_on_commit(n.oncommit));
        for target in targets {
            self.creates(Some(target), drops);
        }
        for schema in wholesale(node) {
            self.writes_named(schema, Name::ANY);
        }
        match node {
            NodeRef::DropStmt(n) => n.objects.iter().for_each(|object| self.object(n.remove_type, object)),
            NodeRef::CommentStmt(n) => n.object.iter().for_each(|object| self.object(n.objtype, object)),
            NodeRef::SecLabelStmt(n) => n.object.iter().for_each(|object| self.object(n.objtype, object)),
            // The name it will have counts as well.
            NodeRef::RenameStmt(n) if is_relation(n.rename_type) => {
                n.relation.iter().for_each(|relation| self.writes_named(&relation.schemaname, &n.newname));
            }
            NodeRef::AlterObjectSchemaStmt(n) => {
                n.relation.iter().for_each(|relation| self.writes_named(&n.newschema, &relation.relname));
            }
            NodeRef::CreateFunctionStmt(n) => {
                self.named(&n.funcname);
                self.function(n);
            }
            NodeRef::AlterFunctionStmt(n) if settings::is_on(&n.actions, "security") => {
                self.acts.mark(Marks::SECURITY_DEFINER);
            }
            NodeRef::CreateEnumStmt(n) => self.named(&n.type_name),
            NodeRef::CreateDomainStmt(n) => self.named(&n.domainname),
            NodeRef::CreateRangeStmt(n) => self.named(&n.type_name),
            NodeRef::DefineStmt(n) => {
                self.named(&n.defnames);
                functions_of(n).for_each(|parts| self.names_function(parts));
            }
            NodeRef::CreateCastStmt(n) => n.func.iter().for_each(|function| self.names_function(&function.objname)),
            _ => {}
        }
    }

    /// A relation, or something that belongs to one.
    fn object(&mut self, kind: i32, object: &Node) {
        if let Some((schema, relation)) = relation_of(kind, object) {
            self.writes_named(schema, relation);
        }
    }

    fn function(&mut self, function: &protobuf::CreateFunctionStmt) {
        if settings::is_on(&function.options, "security") {
            self.acts.mark(Marks::SECURITY_DEFINER);
        }
        if block::has_body(function) {
            self.by_literals();
        }
        if let Some(seen) = block::of_function(function, self.functions) {
            self.acts.add(seen.acts);
            self.mention(seen.names);
        }
    }

    /// Something other than a relation is made: it dies with the session if its schema is temporary.
    fn named(&mut self, parts: &[Node]) {
        if let [schema, _] = parts
            && super::relations::is_temporary(word(schema))
        {
            self.temporary();
        }
    }
}

/// src/include/nodes/parsenodes.h
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The grammar turns TABLE t into SELECT * FROM t, so the text has to tell.
fn query_verb(query: &protobuf::SelectStmt, text: &[u8]) -> Verb {
    if !query.values_lists.is_empty() {
        return Verb::Values;
    }
    let first = Tokens::new(text, StringRules::default()).find(|t| t.kind == TokenKind::Word);
    let first = first.and_then(|t| text.get(t.start..t.end)).unwrap_or_default();
    if first.eq_ignore_ascii_case(b"table") { Verb::Table } else { Verb::Select }
}

/// The verb of a statement that defines or maintains something.
fn definition(node: NodeRef<'_>) -> Option<Verb> {
    Some(match node {
        NodeRef::CreateStmt(_)
        | NodeRef::CreateSchemaStmt(_)
        | NodeRef::CreateTableSpaceStmt(_)
        | NodeRef::CreateExtensionStmt(_)
        | NodeRef::CreateFdwStmt(_)
        | NodeRef::CreateForeignServerStmt(_)
        | NodeRef::CreateForeignTableStmt(_)
        | NodeRef::CreateUserMappingStmt(_)
        | NodeRef::CreatePolicyStmt(_)
        | NodeRef::CreateAmStmt(_)
        | NodeRef::CreateTrigStmt(_)
        | NodeRef::CreateEventTrigStmt(_)
        | NodeRef::CreatePlangStmt(_)
        | NodeRef::CreateRoleStmt(_)
        | NodeRef::CreateSeqStmt(_)
        | NodeRef::DefineStmt(_)
        | NodeRef::CreateDomainStmt(_)
        | NodeRef::CreateOpClassStmt(_)
        | NodeRef::CreateOpFamilyStmt(_)
        | NodeRef::IndexStmt(_)
        | NodeRef::CreateStatsStmt(_)
        | NodeRef::CreateFunctionStmt(_)
        | NodeRef::RuleStmt(_)
        | NodeRef::CompositeTypeStmt(_)
        | NodeRef::CreateEnumStmt(_)
        | NodeRef::CreateRangeStmt(_)
        | NodeRef::ViewStmt(_)
        | NodeRef::CreatedbStmt(_)
        | NodeRef::CreateConversionStmt(_)
        | NodeRef::CreateCastStmt(_)
        | NodeRef::CreateTransformStmt(_)
        | NodeRef::CreatePublicationStmt(_)
        | NodeRef::CreateSubscriptionStmt(_) => Verb::Create,
        NodeRef::AlterTableStmt(_)
        | NodeRef::AlterCollationStmt(_)
        | NodeRef::AlterDomainStmt(_)
        | NodeRef::AlterDefaultPrivilegesStmt(_)
        | NodeRef::AlterTableSpaceOptionsStmt(_)
        | NodeRef::AlterTableMoveAllStmt(_)
        | NodeRef::AlterExtensionStmt(_)
        | NodeRef::AlterExtensionContentsStmt(_)
        | NodeRef::AlterFdwStmt(_)
        | NodeRef::AlterForeignServerStmt(_)
        | NodeRef::AlterUserMappingStmt(_)
        | NodeRef::AlterPolicyStmt(_)
        | NodeRef::AlterEventTrigStmt(_)
        | NodeRef::AlterRoleStmt(_)
        | NodeRef::AlterRoleSetStmt(_)
        | NodeRef::AlterSeqStmt(_)
        | NodeRef::AlterOpFamilyStmt(_)
        | NodeRef::AlterStatsStmt(_)
        | NodeRef::AlterFunctionStmt(_)
        | NodeRef::RenameStmt(_)
        | NodeRef::AlterObjectDependsStmt(_)
        | NodeRef::AlterObjectSchemaStmt(_)
        | NodeRef::AlterOwnerStmt(_)
        | NodeRef::AlterOperatorStmt(_)
        | NodeRef::AlterTypeStmt(_)
        | NodeRef::AlterEnumStmt(_)
        | NodeRef::AlterDatabaseStmt(_)
        | NodeRef::AlterDatabaseRefreshCollStmt(_)
        | NodeRef::AlterDatabaseSetStmt(_)
        | NodeRef::AlterTsdictionaryStmt(_)
        | NodeRef::AlterTsconfigurationStmt(_)
        | NodeRef::AlterPublicationStmt(_)
        | NodeRef::AlterSubscriptionStmt(_) => Verb::Alter,
        NodeRef::DropStmt(_)
        | NodeRef::DropTableSpaceStmt(_)
        | NodeRef::DropUserMappingStmt(_)
        | NodeRef::DropRoleStmt(_)
        | NodeRef::DropdbStmt(_)
        | NodeRef::DropOwnedStmt(_)
        | NodeRef::DropSubscriptionStmt(_) => Verb::Drop,
        NodeRef::GrantStmt(n) => grant(n.is_grant),
        NodeRef::GrantRoleStmt(n) => grant(n.is_grant),
        NodeRef::CommentStmt(_) => Verb::Comment,
        NodeRef::ImportForeignSchemaStmt(_) | NodeRef::SecLabelStmt(_) | NodeRef::ReassignOwnedStmt(_) => Verb::Other,
        _ => return None,
    })
}

fn grant(is_grant: bool) -> Verb {
    if is_grant { Verb::Grant } else { Verb::Revoke }
}
