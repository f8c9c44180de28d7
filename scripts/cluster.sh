#!/usr/bin/env bash
# A throw-away PostgreSQL cluster on loopback: one primary and two streaming replicas.
#
#   scripts/cluster.sh start DIR     creates DIR, starts the servers, writes DIR/ports.env
#   scripts/cluster.sh wait DIR      returns once every replica has replayed what the primary had written
#   scripts/cluster.sh stop DIR      stops exactly these servers and removes DIR
#
# Options, by environment:
#   CLUSTER_REPLICAS=2               how many replicas
#   CLUSTER_AUTH=scram-sha-256       how role app logs in (trust | md5 | scram-sha-256)
#   CLUSTER_CONNECTIONS=200          max_connections of each server
#   CLUSTER_BUFFERS=32MB             shared_buffers of each server
#   CLUSTER_COMMIT=on                synchronous_commit; with remote_apply a commit waits until every replica shows it
#   CLUSTER_TLS=off                  ssl of each server, with a certificate of its own making (on | off)
#   PG_BIN                           directory of initdb and pg_ctl, when they are not to be guessed
#
# Roles, all with the password "secret": app (owns database app; CLUSTER_AUTH), app_md5 and app_scram
# (always those methods). Role postgres is the superuser and needs no password: it is all throw-away.
# fsync is off: data does not outlive the cluster anyway.
set -euo pipefail

replicas=${CLUSTER_REPLICAS:-2}
auth=${CLUSTER_AUTH:-scram-sha-256}
# Also for the replicas' own connections: encryption is for whoever asks for it.
export PGSSLMODE=disable

die() { echo "cluster.sh: $*" >&2; exit 1; }

binaries() {
    if [ -n "${PG_BIN:-}" ]; then echo "$PG_BIN"; return; fi
    local newest
    newest=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
    if [ -n "$newest" ]; then echo "$newest"; return; fi
    dirname "$(command -v initdb || die "PostgreSQL server binaries not found, set PG_BIN")"
}

# PostgreSQL refuses to run as root, so root hands every command to user postgres.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --init-groups env HOME=/tmp "$@"; else "$@"; fi
}

# N free ports; all are held at once, so that they differ.
free_ports() {
    python3 - "$1" <<'PY'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
PY
}

launch() { # node, port
    as_postgres "$bin/pg_ctl" -D "$dir/$1" -l "$dir/$1.log" -w -t 60 -o "-p $2" start >/dev/null ||
        { tail -20 "$dir/$1.log" >&2; die "$1 did not start"; }
}

psql_primary() { as_postgres psql -X -q -A -t -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$primary_port" -U postgres "$@"; }

start() {
    if [ -n "$(ls -A "$dir" 2>/dev/null)" ]; then die "$dir is not empty"; fi
    # Whatever fails half-way must not leave servers behind.
    trap 'stop' ERR INT TERM
    mkdir -p "$dir"
    chmod 755 "$dir"
    if [ "$(id -u)" = 0 ]; then chown postgres "$dir"; fi
    local ports
    read -r -a ports <<<"$(free_ports $((replicas + 1)))"
    primary_port=${ports[0]}

    as_postgres "$bin/initdb" -D "$dir/primary" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null
    as_postgres tee -a "$dir/primary/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$dir'
max_connections = ${CLUSTER_CONNECTIONS:-200}
shared_buffers = ${CLUSTER_BUFFERS:-32MB}
wal_level = replica
max_wal_senders = 10
max_prepared_transactions = 10
hot_standby = on
wal_receiver_status_interval = 1s
fsync = off
full_page_writes = off
max_wal_size = 4GB
logging_collector = off
ssl = ${CLUSTER_TLS:-off}
CONF
    if [ "${CLUSTER_TLS:-off}" = on ]; then
        # In the data directory, so that the replicas copy it with the rest.
        as_postgres openssl req -batch -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 30 -subj /CN=localhost \
            -keyout "$dir/primary/server.key" -out "$dir/primary/server.crt" 2>/dev/null
    fi
    as_postgres tee "$dir/primary/pg_hba.conf" >/dev/null <<HBA
local all         all                      trust
host  all         app_md5    127.0.0.1/32  md5
host  all         app_scram  127.0.0.1/32  scram-sha-256
host  all         app        127.0.0.1/32  $auth
host  all         postgres   127.0.0.1/32  trust
host  replication postgres   127.0.0.1/32  trust
HBA
    launch primary "$primary_port"
    psql_primary -d postgres <<SQL
create role app login password 'secret';
create role app_scram login password 'secret' in role app;
set password_encryption = 'md5';
create role app_md5 login password 'secret' in role app;
$([ "$auth" = md5 ] && echo "alter role app password 'secret';")
create database app owner app;
SQL
    local names=(primary) i
    for ((i = 1; i <= replicas; i++)); do
        as_postgres "$bin/pg_basebackup" -h 127.0.0.1 -p "$primary_port" -U postgres -D "$dir/replica$i" \
            --checkpoint=fast --wal-method=stream --no-sync -R -C -S "replica$i"
        launch "replica$i" "${ports[i]}"
        names+=("replica$i")
    done
    {
        echo "CLUSTER_NODES=${ports[*]/#/127.0.0.1:}" | tr ' ' ','
        for ((i = 0; i <= replicas; i++)); do echo "${names[i]^^}_PORT=${ports[i]}"; done
    } >"$dir/ports.env"
    wait_replay
    if [ "${CLUSTER_COMMIT:-on}" != on ]; then
        psql_primary -d postgres -c "alter system set synchronous_standby_names = '$replicas (*)'" \
            -c "alter system set synchronous_commit = '$CLUSTER_COMMIT'" -c "select pg_reload_conf()" >/dev/null
    fi
    trap - ERR INT TERM
    cat "$dir/ports.env"
}

# A poll with a deadline: a replica that never arrives is an error, not a hang.
wait_replay() {
    # shellcheck disable=SC1091
    . "$dir/ports.env"
    primary_port=$PRIMARY_PORT
    local upto caught_up deadline=$((SECONDS + 120))
    upto=$(psql_primary -d postgres -c "select pg_current_wal_lsn()")
    while :; do
        caught_up=$(psql_primary -d postgres -c "select count(*) from pg_stat_replication where replay_lsn >= '$upto'")
        [ "$caught_up" -ge "$replicas" ] && return
        [ $SECONDS -lt $deadline ] || die "replicas did not catch up within 120 s"
        sleep 0.1
    done
}

stop() {
    trap - ERR INT TERM
    local node
    for node in "$dir"/replica* "$dir/primary"; do
        if [ -f "$node/postmaster.pid" ]; then
            as_postgres "$bin/pg_ctl" -D "$node" -m immediate -w -t 30 stop >/dev/null || echo "cluster.sh: $node did not stop" >&2
        fi
    done
    # Only ever remove what start made.
    if [ -d "$dir/primary" ]; then rm -rf "$dir"; fi
}

[ $# = 2 ] || die "usage: cluster.sh start|wait|stop DIR"
command=$1
bin=$(binaries)
case $2 in /*) dir=$2 ;; *) dir=$PWD/$2 ;; esac
case $command in
    start) start ;;
    wait) wait_replay ;;
    stop) stop ;;
    *) die "unknown command $command" ;;
esac
