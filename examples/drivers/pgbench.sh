#!/usr/bin/env bash
# pgbench against pgsluice in all three protocols; the exit code is 1 if any check failed.
#   PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app examples/drivers/pgbench.sh
set -uo pipefail
url=${PGSLUICE_URL:?set PGSLUICE_URL}
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { # name, then a command that must succeed
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then echo "ok   $name"; else
        echo "FAIL $name: $(tail -3 "$work/log" | paste -sd' ')"
        failed=1
    fi
}

sql() { psql -X -q -A -t "$url" -c "$1"; }

# pgbench exits 0 when some clients only lost their connection, so "aborted" in its log counts as well.
bench() { pgbench "$@" "$url" >"$work/bench" 2>&1 && ! grep -Eq 'aborted|error:' "$work/bench" || { cat "$work/bench"; return 1; }; }

# pgbench keeps its accounts balanced: the three sums are equal, and so is the history's.
balanced() {
    local sums
    sums=$(sql "begin; select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers)
        and (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)
        and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
        and (select count(*) from pgbench_history) = $1; commit")
    [ "$sums" = t ] || { echo "sums differ, or not $1 history rows: $sums"; return 1; }
}

cat >"$work/own.sql" <<'SQL'
\set key random(1, 100000)
begin;
update pgbench_accounts set abalance = 0 where aid = :key;
select abalance from pgbench_accounts where aid = :key \gset
end;
select 1 / (:abalance + 1) as one \gset
SQL

check "initialise, rows from the client" bench -i -q -I dtGvp -s 1
# One thread per client: pgbench waits for the answer to a prepare, and a thread that waits for a server
# connection cannot end the transactions of its other clients, which hold them (any pool under -c).
for protocol in simple extended prepared; do
    check "select only, $protocol" bench -n -S -M "$protocol" -c 10 -j 10 -t 200
    check "TPC-B, $protocol" bench -n -M "$protocol" -c 10 -j 10 -t 50
    check "balances after $protocol" balanced 500
    check "simple update, $protocol" bench -n -N -M "$protocol" -c 10 -j 10 -t 50
    # -N leaves tellers and branches alone; undo it, so that the sums stay comparable.
    check "reset after $protocol" sql "update pgbench_accounts set abalance = 0; update pgbench_tellers set tbalance = 0;
        update pgbench_branches set bbalance = 0; truncate pgbench_history"
    check "own script with \\gset, $protocol" bench -n -f "$work/own.sql" -M "$protocol" -c 10 -j 10 -t 50
done
cat >"$work/pipeline.sql" <<'SQL'
\startpipeline
select abalance from pgbench_accounts where aid = 1;
select abalance from pgbench_accounts where aid = 2;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (1, 1, 1, 0, current_timestamp);
select count(*) from pgbench_history;
\endpipeline
SQL
for protocol in extended prepared; do
    check "pipeline, $protocol" bench -n -f "$work/pipeline.sql" -M "$protocol" -c 10 -j 10 -t 50
done
check "reconnecting" bench -n -S -C -c 5 -t 20
check "30 clients" bench -n -S -M prepared -c 30 -j 2 -t 100
sql "drop table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers" >/dev/null
exit $failed
