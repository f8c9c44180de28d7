#!/usr/bin/env bash
# psql against pgsluice: the checks print one line each; the exit code is 1 if any failed.
#   PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app examples/drivers/psql.sh
set -uo pipefail
url=${PGSLUICE_URL:?set PGSLUICE_URL}
table=drv_psql
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One psql run = one connection; the script comes on standard input.
sql() { psql -X -q -A -t "$url" "$@" 2>&1; }

check() { # name, expected, actual
    if [ "$2" = "$3" ]; then echo "ok   $1"; else
        echo "FAIL $1: expected '${2//$'\n'/ | }', got '${3//$'\n'/ | }'"
        failed=1
    fi
}

check "login" "app" "$(sql -c 'select current_user')"

check "ddl and insert" "2" "$(sql <<SQL
set client_min_messages = warning;
drop table if exists $table;
create table $table (id serial primary key, name text not null unique);
insert into $table (name) values ('one'), ('two');
select count(*) from $table;
SQL
)"

check "several statements in one message" $'1\n2' "$(sql -c 'select 1; select 2')"

check "one message is one transaction" "$(printf 'ERROR:  division by zero\n2')" "$(
    sql -c "insert into $table (name) values ('lost'); select 1 / 0"
    sql -c "select count(*) from $table"
)"

check "extended protocol: \\gdesc" $'a|integer\nb|text' "$(sql <<'SQL'
select 1 as a, 'x'::text as b \gdesc
SQL
)"

check "transaction, savepoint, rollback to" "a" "$(sql <<SQL
begin;
insert into $table (name) values ('a');
savepoint s;
insert into $table (name) values ('b');
rollback to s;
commit;
select name from $table where name in ('a', 'b');
SQL
)"

check "rollback" "0" "$(sql <<SQL
begin;
insert into $table (name) values ('gone');
rollback;
select count(*) from $table where name = 'gone';
SQL
)"

check "failed transaction" $'ERROR:  division by zero\nERROR:  current transaction is aborted, commands ignored until end of transaction block\n7' "$(sql <<'SQL'
begin;
select 1 / 0;
select 1;
rollback;
select 7;
SQL
)"

check "ON_ERROR_ROLLBACK" "$(printf 'ERROR:  division by zero\n5')" "$(sql -v ON_ERROR_ROLLBACK=on <<'SQL'
begin;
select 1 / 0;
select 5;
commit;
SQL
)"

check "error text" "ERROR:  relation \"no_such_table\" does not exist
LINE 1: select * from no_such_table
                      ^" "$(sql -c 'select * from no_such_table')"

check "PREPARE and EXECUTE" $'2\n3' "$(sql <<'SQL'
prepare plus_one (int) as select $1 + 1;
execute plus_one(1);
execute plus_one(2);
deallocate plus_one;
SQL
)"

check "SET lasts for the session" $'7s\n7s' "$(sql <<'SQL'
set statement_timeout = '7s';
show statement_timeout;
begin;
show statement_timeout;
commit;
SQL
)"

check "temporary table" "41" "$(sql <<'SQL'
create temporary table mine (v int);
insert into mine values (41);
select v from mine;
drop table mine;
SQL
)"

seq 100001 101000 | sed 's/.*/&\tcopied &/' >"$work/in.tsv"
check "\\copy in and out" "1000 1000" "$(
    sql -c "\\copy $table (id, name) from '$work/in.tsv'"
    sql -c "\\copy (select * from $table where name like 'copied%') to '$work/out.tsv'"
    echo "$(sql -c "select count(*) from $table where name like 'copied%'") $(wc -l <"$work/out.tsv")"
)"

check "COPY fails in the middle, the session goes on" "3" "$(sql 2>/dev/null <<SQL | tail -1
copy $table (id, name) from stdin;
not a number	x
\\.
select 3;
SQL
)"

check "cursor: FETCH_COUNT" "5000" "$(sql -v FETCH_COUNT=100 -c 'select generate_series(1, 5000)' | sort -u | wc -l)"

# psql answers SIGINT with a CancelRequest. Wait until the statement is seen running, then interrupt it.
# In a transaction, so that it runs on the primary, whose pg_stat_activity is read.
psql -X -q -A -t "$url" -c begin -c "select pg_sleep(30) /* cancel_me */" >"$work/cancel" 2>&1 &
sleeper=$!
for _ in $(seq 100); do
    running=$(sql -c "select count(*) from pg_stat_activity where query like '%cancel_me%' and state = 'active' and pid <> pg_backend_pid()")
    [ "$running" = 1 ] && break
done
started=$SECONDS
check "the sleeping statement is seen running" 1 "$running"
kill -INT "$sleeper"
wait "$sleeper"
check "cancel" "ERROR:  canceling statement due to user request" "$(grep ERROR "$work/cancel")"
check "cancel is quick" "yes" "$([ $((SECONDS - started)) -lt 5 ] && echo yes || echo no)"

sql <<SQL >/dev/null
create view ${table}_view as select name from $table;
create index ${table}_index on $table (lower(name));
comment on table $table is 'a table';
SQL
for command in '\d' "\\d+ $table" "\\d+ ${table}_view" '\l' '\dn+' '\du' '\dt *.*' '\di' '\df upper' '\dT' '\dp' '\dx' '\ds' '\sf upper(text)' "\\sv ${table}_view" '\conninfo' '\drds' '\dO' '\do ='; do
    sql -v ON_ERROR_STOP=1 -c "$command" >"$work/out" || { echo "FAIL $command: $(paste -sd' ' "$work/out")" >>"$work/described"; }
done
check "what \\d and its kin ask" "" "$(cat "$work/described" 2>/dev/null)"

options() { psql -X -q -A -t "$url?$1" -c "select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('statement_timeout'), current_setting('transaction_read_only'))" 2>&1; }
check "options: application_name, options=-c, timeouts, keepalives" "drv pg_catalog 7s off" \
    "$(options 'application_name=drv&options=-csearch_path%3Dpg_catalog%20-cstatement_timeout%3D7s&connect_timeout=5&keepalives=1&keepalives_idle=5&tcp_user_timeout=9000')"
check "options: fallback_application_name, target_session_attrs=read-only" 'psql "$user", public 0 on' \
    "$(options 'fallback_application_name=fallen&target_session_attrs=read-only&options=-cdefault_transaction_read_only%3Don')"
for attrs in any read-write primary prefer-standby; do
    check "target_session_attrs=$attrs" 'psql "$user", public 0 off' "$(options "target_session_attrs=$attrs")"
done
check "no standby, and not read-only" "session is not read-only server is not in hot standby mode" \
    "$(for attrs in read-only standby; do options "target_session_attrs=$attrs" | sed -n 's/.*failed: //p'; done | paste -sd' ')"

dump() { pg_dump "$@" "$url" -t "$table" -t "${table}_view" 2>&1; }
dump >"$work/one.sql"
sql -c "drop table $table cascade" >/dev/null
sql -v ON_ERROR_STOP=1 -f "$work/one.sql" >"$work/restored"
dump >"$work/two.sql"
check "pg_dump, restored, and dumped again" "" "$(grep -h ERROR "$work/restored"; diff <(grep -v restrict "$work/one.sql") <(grep -v restrict "$work/two.sql") | head -20)"
check "pg_dump with two jobs" "" "$(dump -Fd -j 2 -f "$work/dump" && pg_restore -d "$url" --clean --if-exists "$work/dump" 2>&1)"

# Replicas may lag here.
loop=$(PGOPTIONS='-c synchronous_commit=local'; export PGOPTIONS; for i in $(seq 100); do
    echo "insert into $table (name) values ('loop $i'); select max(substr(name, 6)::int) from $table where name like 'loop %';"
done | sql | paste -sd' ')
check "read your writes, 100 times" "$(seq 100 | paste -sd' ')" "$loop"

# Thirty sessions at once; every answer must be the asker's own, and so must every setting.
client() {
    echo "set work_mem = '$((100 + $1))MB';"
    for j in $(seq 20); do echo "select '$1 $j', current_setting('work_mem');"; done
}
pids=()
for i in $(seq 30); do
    client "$i" | sql >"$work/client.$i" &
    pids+=($!)
done
wait "${pids[@]}"
check "30 clients at once" "$(for i in $(seq 30); do for j in $(seq 20); do echo "$i $j|$((100 + i))MB"; done; done)" \
    "$(for i in $(seq 30); do cat "$work/client.$i"; done)"

sql -c "drop table $table cascade" >/dev/null
exit $failed
