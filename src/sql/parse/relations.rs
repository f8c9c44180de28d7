//! Relations of pg_catalog that are not data, and parameters that belong to a node: their content differs from
//! server to server, so a replica's answer would be another one.

/// What a relation name means before any catalog is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelationClass {
    /// A table or view of the user, or a catalog that replicas have alike.
    Plain,
    /// Shows the very server it is read on.
    NodeLocal,
    /// Shows the very session it is read in.
    Session,
    /// In a session's temporary schema.
    Temporary,
    /// Named like a system relation, but none that is known.
    Unknown,
}

/// Class of `schema.name`, both folded as PostgreSQL folds them.
pub(super) fn classify(schema: &str, name: &str) -> RelationClass {
    if is_temporary(schema) {
        return RelationClass::Temporary;
    }
    if !is_system(schema, name) {
        return RelationClass::Plain;
    }
    if SESSION.contains(&name) {
        RelationClass::Session
    } else if ALIKE.contains(&name) {
        RelationClass::Plain
    } else if NODE_LOCAL.contains(&name) || NODE_LOCAL_PREFIXES.iter().any(|p| name.starts_with(p)) {
        RelationClass::NodeLocal
    } else {
        RelationClass::Unknown
    }
}

/// A system catalog, or a view of information_schema.
pub(super) fn is_catalog(schema: &str, name: &str) -> bool {
    schema == "information_schema" || is_system(schema, name)
}

/// pg_catalog is searched first, so an unqualified pg_… is a system relation.
fn is_system(schema: &str, name: &str) -> bool {
    schema == "pg_catalog" || (schema.is_empty() && name.starts_with("pg_"))
}

/// `pg_temp`, or `pg_temp_3` and the like.
pub(super) fn is_temporary(schema: &str) -> bool {
    schema == "pg_temp" || schema.starts_with("pg_temp_") || schema.starts_with("pg_toast_temp_")
}

/// Does the value of this parameter (lower case) belong to the server rather than to the session?
pub(super) fn is_node_parameter(name: &str) -> bool {
    NODE_PARAMETERS.contains(&name) || NODE_PARAMETER_PREFIXES.iter().any(|p| name.starts_with(p))
}

const SESSION: &[&str] = &["pg_cursors", "pg_prepared_statements"];

const NODE_LOCAL_PREFIXES: &[&str] = &["pg_stat_", "pg_statio_", "pg_replication_", "pg_shmem_", "pg_buffercache"];

const NODE_LOCAL: &[&str] = &[
    "pg_aios",
    "pg_available_extension_versions",
    "pg_available_extensions",
    "pg_backend_memory_contexts",
    "pg_config",
    "pg_file_settings",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_locks",
    "pg_prepared_xacts",
    "pg_sequences",
    "pg_settings",
];

/// Catalogs and views of PostgreSQL 14 to 18 whose content comes with the WAL.
const ALIKE: &[&str] = &[
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_attrdef",
    "pg_attribute",
    "pg_auth_members",
    "pg_authid",
    "pg_cast",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_conversion",
    "pg_database",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_group",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_init_privs",
    "pg_language",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_matviews",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_parameter_acl",
    "pg_partitioned_table",
    "pg_policies",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_publication_tables",
    "pg_range",
    "pg_replication_origin",
    "pg_rewrite",
    "pg_roles",
    "pg_rules",
    "pg_seclabel",
    "pg_seclabels",
    "pg_sequence",
    "pg_shadow",
    "pg_shdepend",
    "pg_shdescription",
    "pg_shseclabel",
    "pg_statistic",
    "pg_statistic_ext",
    "pg_statistic_ext_data",
    "pg_stats",
    "pg_stats_ext",
    "pg_stats_ext_exprs",
    "pg_subscription",
    "pg_subscription_rel",
    "pg_tables",
    "pg_tablespace",
    "pg_timezone_abbrevs",
    "pg_timezone_names",
    "pg_transform",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_config_map",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
    "pg_user",
    "pg_user_mapping",
    "pg_user_mappings",
    "pg_views",
    "pg_wait_events",
];

const NODE_PARAMETERS: &[&str] = &[
    "all",
    "cluster_name",
    "config_file",
    "data_directory",
    "data_directory_mode",
    "default_transaction_read_only",
    "external_pid_file",
    "fsync",
    "full_page_writes",
    "hba_file",
    "ident_file",
    "in_hot_standby",
    "listen_addresses",
    "port",
    "shared_buffers",
    "shared_preload_libraries",
    "synchronous_standby_names",
];

const NODE_PARAMETER_PREFIXES: &[&str] = &[
    "archive_",
    "autovacuum",
    "bgwriter_",
    "checkpoint_",
    "hot_standby",
    "huge_page",
    "log_",
    "logging_",
    "max_",
    "primary_",
    "recovery_",
    "restore_",
    "ssl",
    "transaction_",
    "unix_socket_",
    "wal_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations() {
        for (schema, name, class) in [
            ("", "t", RelationClass::Plain),
            ("public", "pg_locks", RelationClass::Plain),
            ("", "pg_class", RelationClass::Plain),
            ("pg_catalog", "pg_type", RelationClass::Plain),
            ("", "pg_stats", RelationClass::Plain),
            ("information_schema", "tables", RelationClass::Plain),
            ("", "pg_stat_activity", RelationClass::NodeLocal),
            ("", "pg_stat_statements", RelationClass::NodeLocal),
            ("pg_catalog", "pg_locks", RelationClass::NodeLocal),
            ("", "pg_settings", RelationClass::NodeLocal),
            ("", "pg_cursors", RelationClass::Session),
            ("pg_temp", "t", RelationClass::Temporary),
            ("pg_temp_12", "t", RelationClass::Temporary),
            ("", "pg_new_in_30", RelationClass::Unknown),
            ("pg_catalog", "whatever", RelationClass::Unknown),
        ] {
            assert_eq!(classify(schema, name), class, "{schema}.{name}");
        }
    }

    #[test]
    fn parameters() {
        for name in ["transaction_read_only", "in_hot_standby", "port", "max_connections", "all"] {
            assert!(is_node_parameter(name), "{name}");
        }
        for name in ["search_path", "timezone", "work_mem", "server_version", "app.tenant", "pgsluice.route"] {
            assert!(!is_node_parameter(name), "{name}");
        }
    }
}
