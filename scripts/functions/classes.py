#!/usr/bin/env python3
"""Writes rules/functions.yaml from dumps of pg_proc (see dump.sql):  classes.py dump-14 … dump-18 > rules/functions.yaml

What pg_proc cannot tell is decided here by hand. A volatile function that no line below names is an error, so a new
release of PostgreSQL cannot slip one in as harmless.
"""

import fnmatch
import sys
import textwrap

# The first class that names a function wins. Patterns are globs.
DECIDED = {
    "locks": "pg_advisory_* pg_try_advisory_*",
    "session_value": "currval lastval setseed",
    "session": """set_config pg_export_snapshot pg_listening_channels pg_cursor pg_prepared_statement pg_my_temp_schema
        pg_is_other_temp_schema pg_stat_clear_snapshot pg_stat_force_next_flush cursor_to_xml cursor_to_xmlschema
        pg_event_trigger_*""",
    "opaque": "query_to_xml* database_to_xml* schema_to_xml* table_to_xml* ts_stat ts_rewrite plpgsql_*_handler",
    "writes": """nextval setval pg_nextoid lo_* loread lowrite pg_notify pg_current_xact_id txid_current
        pg_replication_origin_advance pg_replication_origin_create pg_replication_origin_drop
        pg_replication_origin_session_* pg_replication_origin_xact_*
        pg_create_* pg_drop_* pg_copy_* pg_replication_slot_advance pg_logical_* pg_sync_replication_slots
        pg_switch_wal pg_promote pg_wal_replay_pause pg_wal_replay_resume pg_log_standby_snapshot
        pg_start_backup pg_stop_backup pg_backup_start pg_backup_stop
        pg_reload_conf pg_rotate_logfile* pg_cancel_backend pg_terminate_backend pg_log_backend_memory_contexts
        pg_stat_reset* pg_clear_*_stats pg_restore_*_stats pg_import_system_collations pg_extension_config_dump
        pg_stop_making_pinned_objects brin_desummarize_range brin_summarize_* gin_clean_pending_list
        binary_upgrade_* RI_FKey_* unique_key_recheck plpgsql_validator""",
    "node_local": """pg_stat_get_* pg_stat_have_stats pg_stat_file inet_server_* inet_client_* pg_backend_pid
        pg_is_in_recovery pg_is_in_backup pg_backup_start_time pg_postmaster_start_time pg_conf_load_time
        pg_current_wal_* pg_last_wal_* pg_last_xact_replay_timestamp pg_last_committed_xact pg_get_wal_*
        pg_is_wal_replay_paused pg_walfile_name* pg_current_logfile pg_control_* pg_ls_* pg_read_* pg_config
        pg_available_extension* pg_extension_update_paths pg_available_wal_summaries pg_wal_summary_contents
        pg_collation_actual_version pg_database_collation_actual_version pg_tablespace_location
        pg_tablespace_databases pg_current_snapshot txid_current_snapshot *_current_xact_id_if_assigned
        txid_current_if_assigned pg_xact_status txid_status pg_xact_commit_timestamp* pg_get_multixact_members
        pg_lock_status pg_blocking_pids pg_safe_snapshot_blocking_pids pg_isolation_test_* pg_prepared_xact
        pg_get_replication_slots pg_show_replication_origin_status pg_replication_origin_progress
        pg_sequence_last_value pg_get_sequence_data pg_notification_queue_usage pg_show_all_settings
        pg_show_all_file_settings pg_hba_file_rules pg_ident_file_mappings pg_get_backend_memory_contexts
        pg_get_shmem_allocations* pg_get_aios pg_get_loaded_modules pg_get_wait_events pg_jit_available
        pg_numa_available currtid2""",
    # Volatile, yet the answer is as good from a replica and nothing is left behind.
    "read": """random random_normal clock_timestamp timeofday gen_random_uuid uuidv4 uuidv7 pg_sleep* current_query
        array_sample array_shuffle timezone pg_database_size pg_indexes_size pg_relation_size pg_table_size
        pg_tablespace_size pg_total_relation_size pg_partition_ancestors pg_partition_tree
        amvalidate bernoulli system *handler heap_tableam_handler dsnowball_* suppress_redundant_updates_trigger
        tsvector_update_trigger*""",
}

HEADER = """\
# What PostgreSQL's built-in functions (14 to 18, schema pg_catalog) may do when a statement calls them.
# Written by scripts/functions/classes.py from pg_proc; the decisions are in that script. One name, all overloads: the worst wins.
#
#   read           harmless and right on any up-to-date replica
#   writes         has effects, or a standby refuses it
#   session        uses or changes state of the server session
#   session_value  answers from what this very session did before
#   node_local     asks about the very server it runs on
#   locks          takes, tries or gives up an advisory lock (a standby grants them too, silently)
#   opaque         runs SQL that is in its arguments
#
# A function that is not listed is taken to do anything."""


def decide(name: str, labels: str) -> str:
    for cls, patterns in DECIDED.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split()):
            return cls
    if "v" in labels:
        sys.exit(f"{name} is volatile: decide its class")
    return "read"


def main() -> None:
    labels: dict[str, str] = {}
    for path in sys.argv[1:]:
        for line in open(path, encoding="utf-8"):
            name, volatile = line.split()[:2]
            labels[name] = labels.get(name, "") + volatile
    classes: dict[str, list[str]] = {cls: [] for cls in ["read", *DECIDED]}
    for name in sorted(labels):
        classes[decide(name, labels[name])].append(name)
    print(HEADER)
    for cls, names in classes.items():
        quoted = ", ".join(f'"{n}"' if n in ("true", "false", "null", "on", "off", "yes", "no", "y", "n") else n for n in names)
        print(f"{cls}: [")
        print(textwrap.fill(quoted, 118, initial_indent="  ", subsequent_indent="  ", break_long_words=False,
                            break_on_hyphens=False))
        print("]")


main()
