//! What kind of object a statement is about, in PostgreSQL's words.

use pg_query::{
    Node, NodeEnum, NodeRef,
    protobuf::{DefineStmt, DropBehavior, GrantTargetType, ObjectType},
};

use super::{
    settings,
    walk::{qualified, word},
};

/// `None`: none, or none that a rule could want to name.
pub(super) fn object_of(node: NodeRef<'_>) -> Option<&'static str> {
    Some(match node {
        NodeRef::CreateStmt(_) | NodeRef::TruncateStmt(_) => "table",
        NodeRef::CreateSchemaStmt(_) => "schema",
        NodeRef::CreateTableSpaceStmt(_)
        | NodeRef::DropTableSpaceStmt(_)
        | NodeRef::AlterTableSpaceOptionsStmt(_)
        | NodeRef::AlterTableMoveAllStmt(_) => "tablespace",
        NodeRef::CreateExtensionStmt(_) | NodeRef::AlterExtensionStmt(_) | NodeRef::AlterExtensionContentsStmt(_) => {
            "extension"
        }
        NodeRef::CreateFdwStmt(_) | NodeRef::AlterFdwStmt(_) => "foreign data wrapper",
        NodeRef::CreateForeignServerStmt(_) | NodeRef::AlterForeignServerStmt(_) => "server",
        NodeRef::CreateForeignTableStmt(_) => "foreign table",
        NodeRef::ImportForeignSchemaStmt(_) => "foreign schema",
        NodeRef::CreateUserMappingStmt(_) | NodeRef::AlterUserMappingStmt(_) | NodeRef::DropUserMappingStmt(_) => {
            "user mapping"
        }
        NodeRef::CreatePolicyStmt(_) | NodeRef::AlterPolicyStmt(_) => "policy",
        NodeRef::CreateAmStmt(_) => "access method",
        NodeRef::CreateTrigStmt(_) => "trigger",
        NodeRef::CreateEventTrigStmt(_) | NodeRef::AlterEventTrigStmt(_) => "event trigger",
        NodeRef::CreatePlangStmt(_) => "language",
        NodeRef::CreateRoleStmt(_)
        | NodeRef::AlterRoleStmt(_)
        | NodeRef::AlterRoleSetStmt(_)
        | NodeRef::DropRoleStmt(_)
        | NodeRef::GrantRoleStmt(_)
        | NodeRef::DropOwnedStmt(_)
        | NodeRef::ReassignOwnedStmt(_) => "role",
        NodeRef::CreateSeqStmt(_) | NodeRef::AlterSeqStmt(_) => "sequence",
        NodeRef::DefineStmt(n) => object_type(n.kind)?,
        NodeRef::CreateDomainStmt(_) | NodeRef::AlterDomainStmt(_) => "domain",
        NodeRef::CreateOpClassStmt(_) => "operator class",
        NodeRef::CreateOpFamilyStmt(_) | NodeRef::AlterOpFamilyStmt(_) => "operator family",
        NodeRef::IndexStmt(_) => "index",
        NodeRef::CreateStatsStmt(_) | NodeRef::AlterStatsStmt(_) => "statistics",
        NodeRef::CreateFunctionStmt(n) => {
            if n.is_procedure {
                "procedure"
            } else {
                "function"
            }
        }
        NodeRef::AlterFunctionStmt(n) => object_type(n.objtype)?,
        NodeRef::RuleStmt(_) => "rule",
        NodeRef::CompositeTypeStmt(_)
        | NodeRef::CreateEnumStmt(_)
        | NodeRef::CreateRangeStmt(_)
        | NodeRef::AlterEnumStmt(_)
        | NodeRef::AlterTypeStmt(_) => "type",
        NodeRef::ViewStmt(_) => "view",
        NodeRef::RefreshMatViewStmt(_) => "materialized view",
        NodeRef::CreateTableAsStmt(n) => object_type(n.objtype)?,
        NodeRef::CreatedbStmt(_)
        | NodeRef::AlterDatabaseStmt(_)
        | NodeRef::AlterDatabaseRefreshCollStmt(_)
        | NodeRef::AlterDatabaseSetStmt(_)
        | NodeRef::DropdbStmt(_) => "database",
        NodeRef::CreateConversionStmt(_) => "conversion",
        NodeRef::CreateCastStmt(_) => "cast",
        NodeRef::CreateTransformStmt(_) => "transform",
        NodeRef::CreatePublicationStmt(_) | NodeRef::AlterPublicationStmt(_) => "publication",
        NodeRef::CreateSubscriptionStmt(_) | NodeRef::AlterSubscriptionStmt(_) | NodeRef::DropSubscriptionStmt(_) => {
            "subscription"
        }
        NodeRef::AlterSystemStmt(_) => "system",
        NodeRef::AlterCollationStmt(_) => "collation",
        NodeRef::AlterOperatorStmt(_) => "operator",
        NodeRef::AlterTsdictionaryStmt(_) => "text search dictionary",
        NodeRef::AlterTsconfigurationStmt(_) => "text search configuration",
        NodeRef::AlterDefaultPrivilegesStmt(_) => "default privileges",
        NodeRef::AlterTableStmt(n) => object_type(n.objtype)?,
        NodeRef::AlterOwnerStmt(n) => object_type(n.object_type)?,
        NodeRef::AlterObjectSchemaStmt(n) => object_type(n.object_type)?,
        NodeRef::AlterObjectDependsStmt(n) => object_type(n.object_type)?,
        // ALTER TABLE … RENAME COLUMN is about the table.
        NodeRef::RenameStmt(n) => match ObjectType::try_from(n.rename_type) {
            Ok(ObjectType::ObjectColumn | ObjectType::ObjectAttribute | ObjectType::ObjectTabconstraint) => {
                object_type(n.relation_type).unwrap_or("table")
            }
            _ => object_type(n.rename_type)?,
        },
        NodeRef::DropStmt(n) => object_type(n.remove_type)?,
        NodeRef::GrantStmt(n) => object_type(n.objtype)?,
        NodeRef::CommentStmt(n) => object_type(n.objtype)?,
        NodeRef::SecLabelStmt(n) => object_type(n.objtype)?,
        _ => return None,
    })
}

fn object_type(kind: i32) -> Option<&'static str> {
    Some(match ObjectType::try_from(kind).ok()? {
        ObjectType::Undefined => return None,
        ObjectType::ObjectAccessMethod => "access method",
        ObjectType::ObjectAggregate => "aggregate",
        ObjectType::ObjectAmop | ObjectType::ObjectAmproc | ObjectType::ObjectOpfamily => "operator family",
        ObjectType::ObjectAttribute | ObjectType::ObjectType => "type",
        ObjectType::ObjectCast => "cast",
        ObjectType::ObjectColumn => "column",
        ObjectType::ObjectCollation => "collation",
        ObjectType::ObjectConversion => "conversion",
        ObjectType::ObjectDatabase => "database",
        ObjectType::ObjectDefault | ObjectType::ObjectTable => "table",
        ObjectType::ObjectDefacl => "default privileges",
        ObjectType::ObjectDomain | ObjectType::ObjectDomconstraint => "domain",
        ObjectType::ObjectEventTrigger => "event trigger",
        ObjectType::ObjectExtension => "extension",
        ObjectType::ObjectFdw => "foreign data wrapper",
        ObjectType::ObjectForeignServer => "server",
        ObjectType::ObjectForeignTable => "foreign table",
        ObjectType::ObjectFunction => "function",
        ObjectType::ObjectIndex => "index",
        ObjectType::ObjectLanguage => "language",
        ObjectType::ObjectLargeobject => "large object",
        ObjectType::ObjectMatview => "materialized view",
        ObjectType::ObjectOpclass => "operator class",
        ObjectType::ObjectOperator => "operator",
        ObjectType::ObjectParameterAcl => "parameter",
        ObjectType::ObjectPolicy => "policy",
        ObjectType::ObjectProcedure => "procedure",
        ObjectType::ObjectPublication | ObjectType::ObjectPublicationNamespace | ObjectType::ObjectPublicationRel => {
            "publication"
        }
        ObjectType::ObjectRole => "role",
        ObjectType::ObjectRoutine => "routine",
        ObjectType::ObjectRule => "rule",
        ObjectType::ObjectSchema => "schema",
        ObjectType::ObjectSequence => "sequence",
        ObjectType::ObjectSubscription => "subscription",
        ObjectType::ObjectStatisticExt => "statistics",
        ObjectType::ObjectTabconstraint => "constraint",
        ObjectType::ObjectTablespace => "tablespace",
        ObjectType::ObjectTransform => "transform",
        ObjectType::ObjectTrigger => "trigger",
        ObjectType::ObjectTsconfiguration => "text search configuration",
        ObjectType::ObjectTsdictionary => "text search dictionary",
        ObjectType::ObjectTsparser => "text search parser",
        ObjectType::ObjectTstemplate => "text search template",
        ObjectType::ObjectUserMapping => "user mapping",
        ObjectType::ObjectView => "view",
    })
}

/// A relation, as far as a name in a statement is concerned.
pub(super) fn is_relation(object: i32) -> bool {
    matches!(
        ObjectType::try_from(object),
        Ok(ObjectType::ObjectTable
            | ObjectType::ObjectView
            | ObjectType::ObjectMatview
            | ObjectType::ObjectSequence
            | ObjectType::ObjectIndex
            | ObjectType::ObjectForeignTable)
    )
}

/// Its name is the last word behind that of a relation.
fn belongs_to_relation(object: i32) -> bool {
    matches!(
        ObjectType::try_from(object),
        Ok(ObjectType::ObjectColumn
            | ObjectType::ObjectTabconstraint
            | ObjectType::ObjectTrigger
            | ObjectType::ObjectPolicy
            | ObjectType::ObjectRule)
    )
}

/// Schema and name of the relation that an object of this kind is, or belongs to.
pub(super) fn relation_of(kind: i32, object: &Node) -> Option<(&str, &str)> {
    let Some(NodeEnum::List(parts)) = object.node.as_ref() else { return None };
    match parts.items.split_last()? {
        _ if is_relation(kind) => Some(qualified(&parts.items)),
        (_, relation) if belongs_to_relation(kind) => Some(qualified(relation)),
        _ => None,
    }
}

/// The schemas all of whose relations a statement is about without naming one; `""`: of every schema.
pub(super) fn wholesale(node: NodeRef<'_>) -> Vec<&str> {
    let cascades = |behavior: i32| behavior == DropBehavior::DropCascade as i32;
    match node {
        NodeRef::GrantStmt(n)
            if n.targtype == GrantTargetType::AclTargetAllInSchema as i32 && is_relation(n.objtype) =>
        {
            n.objects.iter().map(word).collect()
        }
        // Of the relations to come.
        NodeRef::AlterDefaultPrivilegesStmt(n) if n.action.as_ref().is_some_and(|grant| is_relation(grant.objtype)) => {
            let schemas = n.options.iter().filter_map(settings::option).filter(|option| option.defname == "schemas");
            let schemas: Vec<&str> = schemas
                .filter_map(|option| match option.arg.as_deref()?.node.as_ref()? {
                    NodeEnum::List(list) => Some(list.items.iter().map(word)),
                    _ => None,
                })
                .flatten()
                .collect();
            if schemas.is_empty() { vec![""] } else { schemas }
        }
        NodeRef::DropStmt(n) if cascades(n.behavior) => match ObjectType::try_from(n.remove_type) {
            Ok(ObjectType::ObjectSchema) => n.objects.iter().map(word).collect(),
            // What belongs to it may lie anywhere.
            Ok(ObjectType::ObjectExtension | ObjectType::ObjectForeignServer | ObjectType::ObjectFdw) => vec![""],
            _ => Vec::new(),
        },
        NodeRef::TruncateStmt(n) if cascades(n.behavior) => vec![""],
        NodeRef::RenameStmt(n) if n.rename_type == ObjectType::ObjectSchema as i32 => vec![&n.subname],
        NodeRef::ImportForeignSchemaStmt(n) => vec![&n.local_schema],
        NodeRef::DropOwnedStmt(_) | NodeRef::ReassignOwnedStmt(_) | NodeRef::AlterTableMoveAllStmt(_) => vec![""],
        _ => Vec::new(),
    }
}

/// Names of the functions that an aggregate, an operator or a type is made of.
pub(super) fn functions_of(definition: &DefineStmt) -> impl Iterator<Item = &[Node]> {
    let options = definition.definition.iter().filter_map(settings::option);
    options.filter(|option| FUNCTIONS.contains(&&*option.defname)).filter_map(|option| {
        match option.arg.as_deref()?.node.as_ref()? {
            NodeEnum::TypeName(name) => Some(name.names.as_slice()),
            _ => None,
        }
    })
}

const FUNCTIONS: [&str; 25] = [
    "sfunc",
    "sfunc1",
    "finalfunc",
    "combinefunc",
    "serialfunc",
    "deserialfunc",
    "msfunc",
    "minvfunc",
    "mfinalfunc",
    "procedure",
    "function",
    "restrict",
    "join",
    "input",
    "output",
    "receive",
    "send",
    "typmod_in",
    "typmod_out",
    "analyze",
    "subscript",
    "start",
    "gettoken",
    "end",
    "lextypes",
];
