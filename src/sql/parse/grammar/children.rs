//! All children of every node kind. Written by `scripts/nodes/children.py`; do not edit.

use pg_query::{Node, NodeRef};

/// Calls `visit` for each direct child of `node`, in the order of the grammar's fields.
pub(super) fn each_child<'a>(node: NodeRef<'a>, visit: &mut dyn FnMut(NodeRef<'a>)) {
    match node {
        NodeRef::Alias(n) => {
            list(&n.colnames, visit);
        }
        NodeRef::RangeVar(n) => {
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
        }
        NodeRef::TableFunc(n) => {
            list(&n.ns_uris, visit);
            list(&n.ns_names, visit);
            one(n.docexpr.as_deref(), visit);
            one(n.rowexpr.as_deref(), visit);
            list(&n.colnames, visit);
            list(&n.coltypes, visit);
            list(&n.coltypmods, visit);
            list(&n.colcollations, visit);
            list(&n.colexprs, visit);
            list(&n.coldefexprs, visit);
            list(&n.colvalexprs, visit);
            list(&n.passingvalexprs, visit);
            one(n.plan.as_deref(), visit);
        }
        NodeRef::IntoClause(n) => {
            n.rel.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.col_names, visit);
            list(&n.options, visit);
            n.view_query.as_deref().into_iter().for_each(|c| visit(NodeRef::Query(c)));
        }
        NodeRef::Var(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::Param(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::Aggref(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.aggargtypes, visit);
            list(&n.aggdirectargs, visit);
            list(&n.args, visit);
            list(&n.aggorder, visit);
            list(&n.aggdistinct, visit);
            one(n.aggfilter.as_deref(), visit);
        }
        NodeRef::GroupingFunc(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
            list(&n.refs, visit);
        }
        NodeRef::WindowFunc(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
            one(n.aggfilter.as_deref(), visit);
            list(&n.run_condition, visit);
        }
        NodeRef::WindowFuncRunCondition(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::MergeSupportFunc(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::SubscriptingRef(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.refupperindexpr, visit);
            list(&n.reflowerindexpr, visit);
            one(n.refexpr.as_deref(), visit);
            one(n.refassgnexpr.as_deref(), visit);
        }
        NodeRef::FuncExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::NamedArgExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::OpExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::DistinctExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::NullIfExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::ScalarArrayOpExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::BoolExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::SubLink(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.testexpr.as_deref(), visit);
            list(&n.oper_name, visit);
            one(n.subselect.as_deref(), visit);
        }
        NodeRef::SubPlan(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.testexpr.as_deref(), visit);
            list(&n.param_ids, visit);
            list(&n.set_param, visit);
            list(&n.par_param, visit);
            list(&n.args, visit);
        }
        NodeRef::AlternativeSubPlan(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.subplans, visit);
        }
        NodeRef::FieldSelect(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::FieldStore(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
            list(&n.newvals, visit);
            list(&n.fieldnums, visit);
        }
        NodeRef::RelabelType(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::CoerceViaIo(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::ArrayCoerceExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
            one(n.elemexpr.as_deref(), visit);
        }
        NodeRef::ConvertRowtypeExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::CollateExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::CaseExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
            list(&n.args, visit);
            one(n.defresult.as_deref(), visit);
        }
        NodeRef::CaseWhen(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.expr.as_deref(), visit);
            one(n.result.as_deref(), visit);
        }
        NodeRef::CaseTestExpr(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::ArrayExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.elements, visit);
        }
        NodeRef::RowExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
            list(&n.colnames, visit);
        }
        NodeRef::RowCompareExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.opnos, visit);
            list(&n.opfamilies, visit);
            list(&n.inputcollids, visit);
            list(&n.largs, visit);
            list(&n.rargs, visit);
        }
        NodeRef::CoalesceExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::MinMaxExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
        }
        NodeRef::SqlvalueFunction(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::XmlExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.named_args, visit);
            list(&n.arg_names, visit);
            list(&n.args, visit);
        }
        NodeRef::JsonReturning(n) => {
            n.format.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonFormat(c)));
        }
        NodeRef::JsonValueExpr(n) => {
            one(n.raw_expr.as_deref(), visit);
            one(n.formatted_expr.as_deref(), visit);
            n.format.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonFormat(c)));
        }
        NodeRef::JsonConstructorExpr(n) => {
            one(n.xpr.as_deref(), visit);
            list(&n.args, visit);
            one(n.func.as_deref(), visit);
            one(n.coercion.as_deref(), visit);
            n.returning.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonReturning(c)));
        }
        NodeRef::JsonIsPredicate(n) => {
            one(n.expr.as_deref(), visit);
            n.format.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonFormat(c)));
        }
        NodeRef::JsonBehavior(n) => {
            one(n.expr.as_deref(), visit);
        }
        NodeRef::JsonExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.formatted_expr.as_deref(), visit);
            n.format.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonFormat(c)));
            one(n.path_spec.as_deref(), visit);
            n.returning.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonReturning(c)));
            list(&n.passing_names, visit);
            list(&n.passing_values, visit);
            n.on_empty.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
            n.on_error.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
        }
        NodeRef::JsonTablePathScan(n) => {
            one(n.plan.as_deref(), visit);
            n.path.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonTablePath(c)));
            one(n.child.as_deref(), visit);
        }
        NodeRef::JsonTableSiblingJoin(n) => {
            one(n.plan.as_deref(), visit);
            one(n.lplan.as_deref(), visit);
            one(n.rplan.as_deref(), visit);
        }
        NodeRef::NullTest(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::BooleanTest(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::MergeAction(n) => {
            one(n.qual.as_deref(), visit);
            list(&n.target_list, visit);
            list(&n.update_colnos, visit);
        }
        NodeRef::CoerceToDomain(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.arg.as_deref(), visit);
        }
        NodeRef::CoerceToDomainValue(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::SetToDefault(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::CurrentOfExpr(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::NextValueExpr(n) => {
            one(n.xpr.as_deref(), visit);
        }
        NodeRef::InferenceElem(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.expr.as_deref(), visit);
        }
        NodeRef::ReturningExpr(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.retexpr.as_deref(), visit);
        }
        NodeRef::TargetEntry(n) => {
            one(n.xpr.as_deref(), visit);
            one(n.expr.as_deref(), visit);
        }
        NodeRef::JoinExpr(n) => {
            one(n.larg.as_deref(), visit);
            one(n.rarg.as_deref(), visit);
            list(&n.using_clause, visit);
            n.join_using_alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
            one(n.quals.as_deref(), visit);
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
        }
        NodeRef::FromExpr(n) => {
            list(&n.fromlist, visit);
            one(n.quals.as_deref(), visit);
        }
        NodeRef::OnConflictExpr(n) => {
            list(&n.arbiter_elems, visit);
            one(n.arbiter_where.as_deref(), visit);
            list(&n.on_conflict_set, visit);
            one(n.on_conflict_where.as_deref(), visit);
            list(&n.excl_rel_tlist, visit);
        }
        NodeRef::Query(n) => {
            one(n.utility_stmt.as_deref(), visit);
            list(&n.cte_list, visit);
            list(&n.rtable, visit);
            list(&n.rteperminfos, visit);
            n.jointree.as_deref().into_iter().for_each(|c| visit(NodeRef::FromExpr(c)));
            list(&n.merge_action_list, visit);
            one(n.merge_join_condition.as_deref(), visit);
            list(&n.target_list, visit);
            n.on_conflict.as_deref().into_iter().for_each(|c| visit(NodeRef::OnConflictExpr(c)));
            list(&n.returning_list, visit);
            list(&n.group_clause, visit);
            list(&n.grouping_sets, visit);
            one(n.having_qual.as_deref(), visit);
            list(&n.window_clause, visit);
            list(&n.distinct_clause, visit);
            list(&n.sort_clause, visit);
            one(n.limit_offset.as_deref(), visit);
            one(n.limit_count.as_deref(), visit);
            list(&n.row_marks, visit);
            one(n.set_operations.as_deref(), visit);
            list(&n.constraint_deps, visit);
            list(&n.with_check_options, visit);
        }
        NodeRef::TypeName(n) => {
            list(&n.names, visit);
            list(&n.typmods, visit);
            list(&n.array_bounds, visit);
        }
        NodeRef::ColumnRef(n) => {
            list(&n.fields, visit);
        }
        NodeRef::AExpr(n) => {
            list(&n.name, visit);
            one(n.lexpr.as_deref(), visit);
            one(n.rexpr.as_deref(), visit);
        }
        NodeRef::TypeCast(n) => {
            one(n.arg.as_deref(), visit);
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
        }
        NodeRef::CollateClause(n) => {
            one(n.arg.as_deref(), visit);
            list(&n.collname, visit);
        }
        NodeRef::FuncCall(n) => {
            list(&n.funcname, visit);
            list(&n.args, visit);
            list(&n.agg_order, visit);
            one(n.agg_filter.as_deref(), visit);
            n.over.as_deref().into_iter().for_each(|c| visit(NodeRef::WindowDef(c)));
        }
        NodeRef::AIndices(n) => {
            one(n.lidx.as_deref(), visit);
            one(n.uidx.as_deref(), visit);
        }
        NodeRef::AIndirection(n) => {
            one(n.arg.as_deref(), visit);
            list(&n.indirection, visit);
        }
        NodeRef::AArrayExpr(n) => {
            list(&n.elements, visit);
        }
        NodeRef::ResTarget(n) => {
            list(&n.indirection, visit);
            one(n.val.as_deref(), visit);
        }
        NodeRef::MultiAssignRef(n) => {
            one(n.source.as_deref(), visit);
        }
        NodeRef::SortBy(n) => {
            one(n.node.as_deref(), visit);
            list(&n.use_op, visit);
        }
        NodeRef::WindowDef(n) => {
            list(&n.partition_clause, visit);
            list(&n.order_clause, visit);
            one(n.start_offset.as_deref(), visit);
            one(n.end_offset.as_deref(), visit);
        }
        NodeRef::RangeSubselect(n) => {
            one(n.subquery.as_deref(), visit);
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
        }
        NodeRef::RangeFunction(n) => {
            list(&n.functions, visit);
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
            list(&n.coldeflist, visit);
        }
        NodeRef::RangeTableFunc(n) => {
            one(n.docexpr.as_deref(), visit);
            one(n.rowexpr.as_deref(), visit);
            list(&n.namespaces, visit);
            list(&n.columns, visit);
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
        }
        NodeRef::RangeTableFuncCol(n) => {
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            one(n.colexpr.as_deref(), visit);
            one(n.coldefexpr.as_deref(), visit);
        }
        NodeRef::RangeTableSample(n) => {
            one(n.relation.as_deref(), visit);
            list(&n.method, visit);
            list(&n.args, visit);
            one(n.repeatable.as_deref(), visit);
        }
        NodeRef::ColumnDef(n) => {
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            one(n.raw_default.as_deref(), visit);
            one(n.cooked_default.as_deref(), visit);
            n.identity_sequence.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            n.coll_clause.as_deref().into_iter().for_each(|c| visit(NodeRef::CollateClause(c)));
            list(&n.constraints, visit);
            list(&n.fdwoptions, visit);
        }
        NodeRef::TableLikeClause(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
        }
        NodeRef::IndexElem(n) => {
            one(n.expr.as_deref(), visit);
            list(&n.collation, visit);
            list(&n.opclass, visit);
            list(&n.opclassopts, visit);
        }
        NodeRef::DefElem(n) => {
            one(n.arg.as_deref(), visit);
        }
        NodeRef::LockingClause(n) => {
            list(&n.locked_rels, visit);
        }
        NodeRef::XmlSerialize(n) => {
            one(n.expr.as_deref(), visit);
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
        }
        NodeRef::PartitionElem(n) => {
            one(n.expr.as_deref(), visit);
            list(&n.collation, visit);
            list(&n.opclass, visit);
        }
        NodeRef::PartitionSpec(n) => {
            list(&n.part_params, visit);
        }
        NodeRef::PartitionBoundSpec(n) => {
            list(&n.listdatums, visit);
            list(&n.lowerdatums, visit);
            list(&n.upperdatums, visit);
        }
        NodeRef::PartitionRangeDatum(n) => {
            one(n.value.as_deref(), visit);
        }
        NodeRef::PartitionCmd(n) => {
            n.name.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            n.bound.as_ref().into_iter().for_each(|c| visit(NodeRef::PartitionBoundSpec(c)));
        }
        NodeRef::RangeTblEntry(n) => {
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
            n.eref.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
            n.tablesample.as_deref().into_iter().for_each(|c| visit(NodeRef::TableSampleClause(c)));
            n.subquery.as_deref().into_iter().for_each(|c| visit(NodeRef::Query(c)));
            list(&n.joinaliasvars, visit);
            list(&n.joinleftcols, visit);
            list(&n.joinrightcols, visit);
            n.join_using_alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
            list(&n.functions, visit);
            n.tablefunc.as_deref().into_iter().for_each(|c| visit(NodeRef::TableFunc(c)));
            list(&n.values_lists, visit);
            list(&n.coltypes, visit);
            list(&n.coltypmods, visit);
            list(&n.colcollations, visit);
            list(&n.groupexprs, visit);
            list(&n.security_quals, visit);
        }
        NodeRef::RangeTblFunction(n) => {
            one(n.funcexpr.as_deref(), visit);
            list(&n.funccolnames, visit);
            list(&n.funccoltypes, visit);
            list(&n.funccoltypmods, visit);
            list(&n.funccolcollations, visit);
        }
        NodeRef::TableSampleClause(n) => {
            list(&n.args, visit);
            one(n.repeatable.as_deref(), visit);
        }
        NodeRef::WithCheckOption(n) => {
            one(n.qual.as_deref(), visit);
        }
        NodeRef::GroupingSet(n) => {
            list(&n.content, visit);
        }
        NodeRef::WindowClause(n) => {
            list(&n.partition_clause, visit);
            list(&n.order_clause, visit);
            one(n.start_offset.as_deref(), visit);
            one(n.end_offset.as_deref(), visit);
        }
        NodeRef::WithClause(n) => {
            list(&n.ctes, visit);
        }
        NodeRef::InferClause(n) => {
            list(&n.index_elems, visit);
            one(n.where_clause.as_deref(), visit);
        }
        NodeRef::OnConflictClause(n) => {
            n.infer.as_deref().into_iter().for_each(|c| visit(NodeRef::InferClause(c)));
            list(&n.target_list, visit);
            one(n.where_clause.as_deref(), visit);
        }
        NodeRef::CtesearchClause(n) => {
            list(&n.search_col_list, visit);
        }
        NodeRef::CtecycleClause(n) => {
            list(&n.cycle_col_list, visit);
            one(n.cycle_mark_value.as_deref(), visit);
            one(n.cycle_mark_default.as_deref(), visit);
        }
        NodeRef::CommonTableExpr(n) => {
            list(&n.aliascolnames, visit);
            one(n.ctequery.as_deref(), visit);
            n.search_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::CtesearchClause(c)));
            n.cycle_clause.as_deref().into_iter().for_each(|c| visit(NodeRef::CtecycleClause(c)));
            list(&n.ctecolnames, visit);
            list(&n.ctecoltypes, visit);
            list(&n.ctecoltypmods, visit);
            list(&n.ctecolcollations, visit);
        }
        NodeRef::MergeWhenClause(n) => {
            one(n.condition.as_deref(), visit);
            list(&n.target_list, visit);
            list(&n.values, visit);
        }
        NodeRef::ReturningClause(n) => {
            list(&n.options, visit);
            list(&n.exprs, visit);
        }
        NodeRef::JsonOutput(n) => {
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            n.returning.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonReturning(c)));
        }
        NodeRef::JsonArgument(n) => {
            n.val.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
        }
        NodeRef::JsonFuncExpr(n) => {
            n.context_item.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
            one(n.pathspec.as_deref(), visit);
            list(&n.passing, visit);
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
            n.on_empty.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
            n.on_error.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
        }
        NodeRef::JsonTablePathSpec(n) => {
            one(n.string.as_deref(), visit);
        }
        NodeRef::JsonTable(n) => {
            n.context_item.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
            n.pathspec.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonTablePathSpec(c)));
            list(&n.passing, visit);
            list(&n.columns, visit);
            n.on_error.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
            n.alias.as_ref().into_iter().for_each(|c| visit(NodeRef::Alias(c)));
        }
        NodeRef::JsonTableColumn(n) => {
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            n.pathspec.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonTablePathSpec(c)));
            n.format.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonFormat(c)));
            list(&n.columns, visit);
            n.on_empty.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
            n.on_error.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonBehavior(c)));
        }
        NodeRef::JsonKeyValue(n) => {
            one(n.key.as_deref(), visit);
            n.value.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
        }
        NodeRef::JsonParseExpr(n) => {
            n.expr.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
        }
        NodeRef::JsonScalarExpr(n) => {
            one(n.expr.as_deref(), visit);
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
        }
        NodeRef::JsonSerializeExpr(n) => {
            n.expr.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
        }
        NodeRef::JsonObjectConstructor(n) => {
            list(&n.exprs, visit);
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
        }
        NodeRef::JsonArrayConstructor(n) => {
            list(&n.exprs, visit);
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
        }
        NodeRef::JsonArrayQueryConstructor(n) => {
            one(n.query.as_deref(), visit);
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
            n.format.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonFormat(c)));
        }
        NodeRef::JsonAggConstructor(n) => {
            n.output.as_ref().into_iter().for_each(|c| visit(NodeRef::JsonOutput(c)));
            one(n.agg_filter.as_deref(), visit);
            list(&n.agg_order, visit);
            n.over.as_deref().into_iter().for_each(|c| visit(NodeRef::WindowDef(c)));
        }
        NodeRef::JsonObjectAgg(n) => {
            n.constructor.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonAggConstructor(c)));
            n.arg.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonKeyValue(c)));
        }
        NodeRef::JsonArrayAgg(n) => {
            n.constructor.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonAggConstructor(c)));
            n.arg.as_deref().into_iter().for_each(|c| visit(NodeRef::JsonValueExpr(c)));
        }
        NodeRef::RawStmt(n) => {
            one(n.stmt.as_deref(), visit);
        }
        NodeRef::InsertStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.cols, visit);
            one(n.select_stmt.as_deref(), visit);
            n.on_conflict_clause.as_deref().into_iter().for_each(|c| visit(NodeRef::OnConflictClause(c)));
            n.returning_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::ReturningClause(c)));
            n.with_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::WithClause(c)));
        }
        NodeRef::DeleteStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.using_clause, visit);
            one(n.where_clause.as_deref(), visit);
            n.returning_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::ReturningClause(c)));
            n.with_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::WithClause(c)));
        }
        NodeRef::UpdateStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.target_list, visit);
            one(n.where_clause.as_deref(), visit);
            list(&n.from_clause, visit);
            n.returning_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::ReturningClause(c)));
            n.with_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::WithClause(c)));
        }
        NodeRef::MergeStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.source_relation.as_deref(), visit);
            one(n.join_condition.as_deref(), visit);
            list(&n.merge_when_clauses, visit);
            n.returning_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::ReturningClause(c)));
            n.with_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::WithClause(c)));
        }
        NodeRef::SelectStmt(n) => {
            list(&n.distinct_clause, visit);
            n.into_clause.as_deref().into_iter().for_each(|c| visit(NodeRef::IntoClause(c)));
            list(&n.target_list, visit);
            list(&n.from_clause, visit);
            one(n.where_clause.as_deref(), visit);
            list(&n.group_clause, visit);
            one(n.having_clause.as_deref(), visit);
            list(&n.window_clause, visit);
            list(&n.values_lists, visit);
            list(&n.sort_clause, visit);
            one(n.limit_offset.as_deref(), visit);
            one(n.limit_count.as_deref(), visit);
            list(&n.locking_clause, visit);
            n.with_clause.as_ref().into_iter().for_each(|c| visit(NodeRef::WithClause(c)));
            n.larg.as_deref().into_iter().for_each(|c| visit(NodeRef::SelectStmt(c)));
            n.rarg.as_deref().into_iter().for_each(|c| visit(NodeRef::SelectStmt(c)));
        }
        NodeRef::SetOperationStmt(n) => {
            one(n.larg.as_deref(), visit);
            one(n.rarg.as_deref(), visit);
            list(&n.col_types, visit);
            list(&n.col_typmods, visit);
            list(&n.col_collations, visit);
            list(&n.group_clauses, visit);
        }
        NodeRef::ReturnStmt(n) => {
            one(n.returnval.as_deref(), visit);
        }
        NodeRef::PlassignStmt(n) => {
            list(&n.indirection, visit);
            n.val.as_deref().into_iter().for_each(|c| visit(NodeRef::SelectStmt(c)));
        }
        NodeRef::CreateSchemaStmt(n) => {
            n.authrole.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            list(&n.schema_elts, visit);
        }
        NodeRef::AlterTableStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.cmds, visit);
        }
        NodeRef::AlterTableCmd(n) => {
            n.newowner.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            one(n.def.as_deref(), visit);
        }
        NodeRef::AlterCollationStmt(n) => {
            list(&n.collname, visit);
        }
        NodeRef::AlterDomainStmt(n) => {
            list(&n.type_name, visit);
            one(n.def.as_deref(), visit);
        }
        NodeRef::GrantStmt(n) => {
            list(&n.objects, visit);
            list(&n.privileges, visit);
            list(&n.grantees, visit);
            n.grantor.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
        }
        NodeRef::ObjectWithArgs(n) => {
            list(&n.objname, visit);
            list(&n.objargs, visit);
            list(&n.objfuncargs, visit);
        }
        NodeRef::AccessPriv(n) => {
            list(&n.cols, visit);
        }
        NodeRef::GrantRoleStmt(n) => {
            list(&n.granted_roles, visit);
            list(&n.grantee_roles, visit);
            list(&n.opt, visit);
            n.grantor.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
        }
        NodeRef::AlterDefaultPrivilegesStmt(n) => {
            list(&n.options, visit);
            n.action.as_ref().into_iter().for_each(|c| visit(NodeRef::GrantStmt(c)));
        }
        NodeRef::CopyStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.query.as_deref(), visit);
            list(&n.attlist, visit);
            list(&n.options, visit);
            one(n.where_clause.as_deref(), visit);
        }
        NodeRef::VariableSetStmt(n) => {
            list(&n.args, visit);
        }
        NodeRef::CreateStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.table_elts, visit);
            list(&n.inh_relations, visit);
            n.partbound.as_ref().into_iter().for_each(|c| visit(NodeRef::PartitionBoundSpec(c)));
            n.partspec.as_ref().into_iter().for_each(|c| visit(NodeRef::PartitionSpec(c)));
            n.of_typename.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            list(&n.constraints, visit);
            list(&n.nnconstraints, visit);
            list(&n.options, visit);
        }
        NodeRef::Constraint(n) => {
            one(n.raw_expr.as_deref(), visit);
            list(&n.keys, visit);
            list(&n.including, visit);
            list(&n.exclusions, visit);
            list(&n.options, visit);
            one(n.where_clause.as_deref(), visit);
            n.pktable.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.fk_attrs, visit);
            list(&n.pk_attrs, visit);
            list(&n.fk_del_set_cols, visit);
            list(&n.old_conpfeqop, visit);
        }
        NodeRef::CreateTableSpaceStmt(n) => {
            n.owner.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            list(&n.options, visit);
        }
        NodeRef::AlterTableSpaceOptionsStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterTableMoveAllStmt(n) => {
            list(&n.roles, visit);
        }
        NodeRef::CreateExtensionStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterExtensionStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterExtensionContentsStmt(n) => {
            one(n.object.as_deref(), visit);
        }
        NodeRef::CreateFdwStmt(n) => {
            list(&n.func_options, visit);
            list(&n.options, visit);
        }
        NodeRef::AlterFdwStmt(n) => {
            list(&n.func_options, visit);
            list(&n.options, visit);
        }
        NodeRef::CreateForeignServerStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterForeignServerStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::CreateForeignTableStmt(n) => {
            n.base_stmt.as_ref().into_iter().for_each(|c| visit(NodeRef::CreateStmt(c)));
            list(&n.options, visit);
        }
        NodeRef::CreateUserMappingStmt(n) => {
            n.user.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            list(&n.options, visit);
        }
        NodeRef::AlterUserMappingStmt(n) => {
            n.user.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            list(&n.options, visit);
        }
        NodeRef::DropUserMappingStmt(n) => {
            n.user.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
        }
        NodeRef::ImportForeignSchemaStmt(n) => {
            list(&n.table_list, visit);
            list(&n.options, visit);
        }
        NodeRef::CreatePolicyStmt(n) => {
            n.table.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.roles, visit);
            one(n.qual.as_deref(), visit);
            one(n.with_check.as_deref(), visit);
        }
        NodeRef::AlterPolicyStmt(n) => {
            n.table.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.roles, visit);
            one(n.qual.as_deref(), visit);
            one(n.with_check.as_deref(), visit);
        }
        NodeRef::CreateAmStmt(n) => {
            list(&n.handler_name, visit);
        }
        NodeRef::CreateTrigStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.funcname, visit);
            list(&n.args, visit);
            list(&n.columns, visit);
            one(n.when_clause.as_deref(), visit);
            list(&n.transition_rels, visit);
            n.constrrel.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
        }
        NodeRef::CreateEventTrigStmt(n) => {
            list(&n.whenclause, visit);
            list(&n.funcname, visit);
        }
        NodeRef::CreatePlangStmt(n) => {
            list(&n.plhandler, visit);
            list(&n.plinline, visit);
            list(&n.plvalidator, visit);
        }
        NodeRef::CreateRoleStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterRoleStmt(n) => {
            n.role.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            list(&n.options, visit);
        }
        NodeRef::AlterRoleSetStmt(n) => {
            n.role.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
            n.setstmt.as_ref().into_iter().for_each(|c| visit(NodeRef::VariableSetStmt(c)));
        }
        NodeRef::DropRoleStmt(n) => {
            list(&n.roles, visit);
        }
        NodeRef::CreateSeqStmt(n) => {
            n.sequence.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.options, visit);
        }
        NodeRef::AlterSeqStmt(n) => {
            n.sequence.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.options, visit);
        }
        NodeRef::DefineStmt(n) => {
            list(&n.defnames, visit);
            list(&n.args, visit);
            list(&n.definition, visit);
        }
        NodeRef::CreateDomainStmt(n) => {
            list(&n.domainname, visit);
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            n.coll_clause.as_deref().into_iter().for_each(|c| visit(NodeRef::CollateClause(c)));
            list(&n.constraints, visit);
        }
        NodeRef::CreateOpClassStmt(n) => {
            list(&n.opclassname, visit);
            list(&n.opfamilyname, visit);
            n.datatype.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            list(&n.items, visit);
        }
        NodeRef::CreateOpClassItem(n) => {
            n.name.as_ref().into_iter().for_each(|c| visit(NodeRef::ObjectWithArgs(c)));
            list(&n.order_family, visit);
            list(&n.class_args, visit);
            n.storedtype.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
        }
        NodeRef::CreateOpFamilyStmt(n) => {
            list(&n.opfamilyname, visit);
        }
        NodeRef::AlterOpFamilyStmt(n) => {
            list(&n.opfamilyname, visit);
            list(&n.items, visit);
        }
        NodeRef::DropStmt(n) => {
            list(&n.objects, visit);
        }
        NodeRef::TruncateStmt(n) => {
            list(&n.relations, visit);
        }
        NodeRef::CommentStmt(n) => {
            one(n.object.as_deref(), visit);
        }
        NodeRef::SecLabelStmt(n) => {
            one(n.object.as_deref(), visit);
        }
        NodeRef::DeclareCursorStmt(n) => {
            one(n.query.as_deref(), visit);
        }
        NodeRef::IndexStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.index_params, visit);
            list(&n.index_including_params, visit);
            list(&n.options, visit);
            one(n.where_clause.as_deref(), visit);
            list(&n.exclude_op_names, visit);
        }
        NodeRef::CreateStatsStmt(n) => {
            list(&n.defnames, visit);
            list(&n.stat_types, visit);
            list(&n.exprs, visit);
            list(&n.relations, visit);
        }
        NodeRef::StatsElem(n) => {
            one(n.expr.as_deref(), visit);
        }
        NodeRef::AlterStatsStmt(n) => {
            list(&n.defnames, visit);
            one(n.stxstattarget.as_deref(), visit);
        }
        NodeRef::CreateFunctionStmt(n) => {
            list(&n.funcname, visit);
            list(&n.parameters, visit);
            n.return_type.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            list(&n.options, visit);
            one(n.sql_body.as_deref(), visit);
        }
        NodeRef::FunctionParameter(n) => {
            n.arg_type.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            one(n.defexpr.as_deref(), visit);
        }
        NodeRef::AlterFunctionStmt(n) => {
            n.func.as_ref().into_iter().for_each(|c| visit(NodeRef::ObjectWithArgs(c)));
            list(&n.actions, visit);
        }
        NodeRef::DoStmt(n) => {
            list(&n.args, visit);
        }
        NodeRef::CallStmt(n) => {
            n.funccall.as_deref().into_iter().for_each(|c| visit(NodeRef::FuncCall(c)));
            n.funcexpr.as_deref().into_iter().for_each(|c| visit(NodeRef::FuncExpr(c)));
            list(&n.outargs, visit);
        }
        NodeRef::RenameStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.object.as_deref(), visit);
        }
        NodeRef::AlterObjectDependsStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.object.as_deref(), visit);
            n.extname.as_ref().into_iter().for_each(|c| visit(NodeRef::String(c)));
        }
        NodeRef::AlterObjectSchemaStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.object.as_deref(), visit);
        }
        NodeRef::AlterOwnerStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.object.as_deref(), visit);
            n.newowner.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
        }
        NodeRef::AlterOperatorStmt(n) => {
            n.opername.as_ref().into_iter().for_each(|c| visit(NodeRef::ObjectWithArgs(c)));
            list(&n.options, visit);
        }
        NodeRef::AlterTypeStmt(n) => {
            list(&n.type_name, visit);
            list(&n.options, visit);
        }
        NodeRef::RuleStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.where_clause.as_deref(), visit);
            list(&n.actions, visit);
        }
        NodeRef::TransactionStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::CompositeTypeStmt(n) => {
            n.typevar.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.coldeflist, visit);
        }
        NodeRef::CreateEnumStmt(n) => {
            list(&n.type_name, visit);
            list(&n.vals, visit);
        }
        NodeRef::CreateRangeStmt(n) => {
            list(&n.type_name, visit);
            list(&n.params, visit);
        }
        NodeRef::AlterEnumStmt(n) => {
            list(&n.type_name, visit);
        }
        NodeRef::ViewStmt(n) => {
            n.view.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.aliases, visit);
            one(n.query.as_deref(), visit);
            list(&n.options, visit);
        }
        NodeRef::CreatedbStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterDatabaseStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterDatabaseSetStmt(n) => {
            n.setstmt.as_ref().into_iter().for_each(|c| visit(NodeRef::VariableSetStmt(c)));
        }
        NodeRef::DropdbStmt(n) => {
            list(&n.options, visit);
        }
        NodeRef::AlterSystemStmt(n) => {
            n.setstmt.as_ref().into_iter().for_each(|c| visit(NodeRef::VariableSetStmt(c)));
        }
        NodeRef::ClusterStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.params, visit);
        }
        NodeRef::VacuumStmt(n) => {
            list(&n.options, visit);
            list(&n.rels, visit);
        }
        NodeRef::VacuumRelation(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.va_cols, visit);
        }
        NodeRef::ExplainStmt(n) => {
            one(n.query.as_deref(), visit);
            list(&n.options, visit);
        }
        NodeRef::CreateTableAsStmt(n) => {
            one(n.query.as_deref(), visit);
            n.into.as_deref().into_iter().for_each(|c| visit(NodeRef::IntoClause(c)));
        }
        NodeRef::RefreshMatViewStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
        }
        NodeRef::LockStmt(n) => {
            list(&n.relations, visit);
        }
        NodeRef::ConstraintsSetStmt(n) => {
            list(&n.constraints, visit);
        }
        NodeRef::ReindexStmt(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            list(&n.params, visit);
        }
        NodeRef::CreateConversionStmt(n) => {
            list(&n.conversion_name, visit);
            list(&n.func_name, visit);
        }
        NodeRef::CreateCastStmt(n) => {
            n.sourcetype.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            n.targettype.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            n.func.as_ref().into_iter().for_each(|c| visit(NodeRef::ObjectWithArgs(c)));
        }
        NodeRef::CreateTransformStmt(n) => {
            n.type_name.as_ref().into_iter().for_each(|c| visit(NodeRef::TypeName(c)));
            n.fromsql.as_ref().into_iter().for_each(|c| visit(NodeRef::ObjectWithArgs(c)));
            n.tosql.as_ref().into_iter().for_each(|c| visit(NodeRef::ObjectWithArgs(c)));
        }
        NodeRef::PrepareStmt(n) => {
            list(&n.argtypes, visit);
            one(n.query.as_deref(), visit);
        }
        NodeRef::ExecuteStmt(n) => {
            list(&n.params, visit);
        }
        NodeRef::DropOwnedStmt(n) => {
            list(&n.roles, visit);
        }
        NodeRef::ReassignOwnedStmt(n) => {
            list(&n.roles, visit);
            n.newrole.as_ref().into_iter().for_each(|c| visit(NodeRef::RoleSpec(c)));
        }
        NodeRef::AlterTsdictionaryStmt(n) => {
            list(&n.dictname, visit);
            list(&n.options, visit);
        }
        NodeRef::AlterTsconfigurationStmt(n) => {
            list(&n.cfgname, visit);
            list(&n.tokentype, visit);
            list(&n.dicts, visit);
        }
        NodeRef::PublicationTable(n) => {
            n.relation.as_ref().into_iter().for_each(|c| visit(NodeRef::RangeVar(c)));
            one(n.where_clause.as_deref(), visit);
            list(&n.columns, visit);
        }
        NodeRef::PublicationObjSpec(n) => {
            n.pubtable.as_deref().into_iter().for_each(|c| visit(NodeRef::PublicationTable(c)));
        }
        NodeRef::CreatePublicationStmt(n) => {
            list(&n.options, visit);
            list(&n.pubobjects, visit);
        }
        NodeRef::AlterPublicationStmt(n) => {
            list(&n.options, visit);
            list(&n.pubobjects, visit);
        }
        NodeRef::CreateSubscriptionStmt(n) => {
            list(&n.publication, visit);
            list(&n.options, visit);
        }
        NodeRef::AlterSubscriptionStmt(n) => {
            list(&n.publication, visit);
            list(&n.options, visit);
        }
        NodeRef::List(n) => {
            list(&n.items, visit);
        }
        NodeRef::IntList(n) => {
            list(&n.items, visit);
        }
        NodeRef::OidList(n) => {
            list(&n.items, visit);
        }
        NodeRef::JsonFormat(_)
        | NodeRef::JsonTablePath(_)
        | NodeRef::RangeTblRef(_)
        | NodeRef::ParamRef(_)
        | NodeRef::RoleSpec(_)
        | NodeRef::AStar(_)
        | NodeRef::RtepermissionInfo(_)
        | NodeRef::SortGroupClause(_)
        | NodeRef::RowMarkClause(_)
        | NodeRef::ReturningOption(_)
        | NodeRef::TriggerTransition(_)
        | NodeRef::AtalterConstraint(_)
        | NodeRef::ReplicaIdentityStmt(_)
        | NodeRef::VariableShowStmt(_)
        | NodeRef::DropTableSpaceStmt(_)
        | NodeRef::AlterEventTrigStmt(_)
        | NodeRef::ClosePortalStmt(_)
        | NodeRef::FetchStmt(_)
        | NodeRef::InlineCodeBlock(_)
        | NodeRef::CallContext(_)
        | NodeRef::NotifyStmt(_)
        | NodeRef::ListenStmt(_)
        | NodeRef::UnlistenStmt(_)
        | NodeRef::LoadStmt(_)
        | NodeRef::AlterDatabaseRefreshCollStmt(_)
        | NodeRef::CheckPointStmt(_)
        | NodeRef::DiscardStmt(_)
        | NodeRef::DeallocateStmt(_)
        | NodeRef::DropSubscriptionStmt(_)
        | NodeRef::Integer(_)
        | NodeRef::Float(_)
        | NodeRef::Boolean(_)
        | NodeRef::String(_)
        | NodeRef::BitString(_)
        | NodeRef::AConst(_) => {}
    }
}

fn list<'a>(nodes: &'a [Node], visit: &mut dyn FnMut(NodeRef<'a>)) {
    for node in nodes {
        one(Some(node), visit);
    }
}

fn one<'a>(node: Option<&'a Node>, visit: &mut dyn FnMut(NodeRef<'a>)) {
    if let Some(node) = node.and_then(|n| n.node.as_ref()) {
        visit(node.to_ref());
    }
}
