#!/usr/bin/env bash
# Runs the programs in examples/drivers against pgsluice in front of a throw-away primary and two replicas.
#
#   scripts/drivers.sh [--target pgsluice|pgbouncer|direct] [--url URL] [DRIVER...]
#
#   --target pgsluice   builds it (cargo build), unless PGSLUICE_BIN names an executable; the default
#   --target pgbouncer  session mode, to compare with
#   --target direct     the primary itself: what the programs expect of PostgreSQL
#   --url URL           something that runs already; no cluster is started
#
# Packages are installed with pip, npm, go and mvn into .cache/drivers, in the versions pinned beside the
# programs. Prints a table, every failed check, and "N passed, N failed"; exit code 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
cache=$root/.cache/drivers
source=$root/examples/drivers
logs=$cache/logs
limit=${DRIVERS_LIMIT:-180} # seconds per driver: a hang is a failure
target=pgsluice
url=
drivers=()
while [ $# -gt 0 ]; do
    case $1 in
        --target) target=$2; shift 2 ;;
        --url) target=url url=$2; shift 2 ;;
        -*) echo "usage: drivers.sh [--target pgsluice|pgbouncer|direct] [--url URL] [DRIVER...]" >&2; exit 2 ;;
        *) drivers+=("$1"); shift ;;
    esac
done
[ ${#drivers[@]} -gt 0 ] || drivers=(psql pgbench psycopg asyncpg node-postgres pgx pgjdbc)
mkdir -p "$logs"
work=$(mktemp -d)
proxy=

stop_all() {
    trap - EXIT INT TERM
    if [ -n "$proxy" ]; then kill "$proxy" 2>/dev/null; wait "$proxy" 2>/dev/null; fi
    "$root/scripts/cluster.sh" stop "$work/cluster"
    rm -rf "$work"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

# --- install: prints why not, when a toolchain is missing -------------------------------------------------

needs() { for tool in "$@"; do command -v "$tool" >/dev/null || { echo "$tool not installed"; return 1; }; done; }

go_is_recent() { case $(GOTOOLCHAIN=local go env GOVERSION) in go1.2[5-9]* | go1.[3-9][0-9]* | go[2-9]*) ;; *) echo "go 1.25 not installed"; return 1 ;; esac; }
venv_works() { python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python3-venv not installed"; return 1; }; }

# once STAMP FILE... -- COMMAND: runs it unless it succeeded before with the same FILEs.
once() {
    local stamp=$cache/$1.stamp files=() sum
    shift
    while [ "$1" != -- ]; do files+=("$1"); shift; done
    shift
    sum=$(cat "${files[@]}" | sha256sum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return
    "$@" >"$logs/install.log" 2>&1 && echo "$sum" >"$stamp" || { echo "install failed: $(tail -1 "$logs/install.log")"; return 2; }
}

install_python() { python3 -m venv "$cache/venv" && "$cache/venv/bin/pip" install -q -r "$source/requirements.txt"; }
install_node() { mkdir -p "$cache/node" && cp "$source"/node/package*.json "$cache/node/" && npm ci --prefix "$cache/node" --no-audit --no-fund; }
install_pgx() { cd "$source/pgx" && GOTOOLCHAIN=local go build -o "$cache/pgx" . && cd "$root"; }
install_jdbc() { mvn -q -B dependency:copy "-Dartifact=org.postgresql:postgresql:$(cat "$source/jdbc/version")" "-DoutputDirectory=$cache"; }

prepare() {
    case $1 in
        psql) needs psql ;;
        pgbench) needs psql pgbench ;;
        psycopg | asyncpg) needs python3 && venv_works && once python "$source/requirements.txt" -- install_python ;;
        node-postgres) needs node npm && once node "$source/node/package-lock.json" -- install_node ;;
        pgx) needs go && go_is_recent && once pgx "$source/pgx/go.sum" "$source"/pgx/*.go -- install_pgx ;;
        pgjdbc) needs java mvn && once jdbc "$source/jdbc/version" -- install_jdbc ;;
        *) echo "unknown driver"; return 2 ;;
    esac
}

run() {
    case $1 in
        psql) timeout "$limit" "$source/psql.sh" ;;
        pgbench) timeout "$limit" "$source/pgbench.sh" ;;
        psycopg) timeout "$limit" "$cache/venv/bin/python" -u "$source/psycopg3.py" ;;
        asyncpg) timeout "$limit" "$cache/venv/bin/python" -u "$source/asyncpg_checks.py" ;;
        node-postgres) NODE_PATH=$cache/node/node_modules timeout "$limit" node "$source/node/checks.js" ;;
        pgx) timeout "$limit" "$cache/pgx" ;;
        pgjdbc) timeout "$limit" java -cp "$cache/postgresql-$(cat "$source/jdbc/version").jar" "$source/jdbc/Checks.java" ;;
    esac
}

version() {
    case $1 in
        psql | pgbench) "$1" --version | awk '{print $3}' ;;
        psycopg) sed -n 's/^psycopg.*==//p' "$source/requirements.txt" ;;
        asyncpg) sed -n 's/^asyncpg==//p' "$source/requirements.txt" ;;
        node-postgres) sed -n 's/.*"pg": "\(.*\)".*/\1/p' "$source/node/package.json" ;;
        pgx) sed -n 's/^require .*pgx\/v5 v//p' "$source/pgx/go.mod" ;;
        pgjdbc) cat "$source/jdbc/version" ;;
    esac
}

# --- the target -------------------------------------------------------------------------------------------

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Until it accepts, or is gone, or ten seconds have passed.
await_port() {
    local deadline=$((SECONDS + 10))
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        if ! kill -0 "$proxy" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
            echo "$target did not start:" >&2
            tail -20 "$logs/$target.log" >&2
            exit 1
        fi
        sleep 0.05
    done
}

start_pgsluice() {
    local binary=${PGSLUICE_BIN:-}
    if [ -z "$binary" ]; then
        cargo build --quiet || exit 1
        binary=$root/target/debug/pgsluice
    fi
    cat >"$work/pgsluice.yaml" <<YAML
listen: 127.0.0.1:$port
databases:
  app:
    nodes: [$(echo "$CLUSTER_NODES" | sed 's/,/, /g')]
    pool: { size: ${DRIVERS_POOL:-5} }
users: [ { name: app, password: secret } ]
admin: { listen: 127.0.0.1:$(free_port) }
YAML
    "$binary" run -c "$work/pgsluice.yaml" >"$logs/pgsluice.log" 2>&1 &
    proxy=$!
}

start_pgbouncer() {
    needs pgbouncer || exit 1
    echo '"app" "secret"' >"$work/users.txt"
    cat >"$work/pgbouncer.ini" <<INI
[databases]
app = host=127.0.0.1 port=$PRIMARY_PORT dbname=app
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $work/users.txt
pool_mode = session
default_pool_size = 60
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
INI
    chmod 755 "$work"
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --init-groups pgbouncer -q "$work/pgbouncer.ini" >"$logs/pgbouncer.log" 2>&1 &
    else
        pgbouncer -q "$work/pgbouncer.ini" >"$logs/pgbouncer.log" 2>&1 &
    fi
    proxy=$!
}

if [ "$target" != url ]; then
    chmod 755 "$work" # PostgreSQL's own user walks through it
    "$root/scripts/cluster.sh" start "$work/cluster" >/dev/null || exit 1
    # shellcheck disable=SC1091
    . "$work/cluster/ports.env"
    port=$(free_port)
    case $target in
        pgsluice) start_pgsluice; await_port ;;
        pgbouncer) start_pgbouncer; await_port ;;
        direct) port=$PRIMARY_PORT ;;
        *) echo "unknown target $target" >&2; exit 2 ;;
    esac
    url=postgresql://app:secret@127.0.0.1:$port/app
fi
export PGSLUICE_URL=$url

# --- run --------------------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0
printf '%-14s %-10s %7s %7s %6s\n' "driver" "version" "passed" "failed" "s"
for driver in "${drivers[@]}"; do
    why=$(prepare "$driver")
    case $? in
        0) ;;
        1)
            printf '%-14s skipped: %s\n' "$driver" "$why"
            skipped=$((skipped + 1))
            continue
            ;;
        *)
            printf '%-14s failed: %s\n' "$driver" "$why"
            failed=$((failed + 1))
            continue
            ;;
    esac
    began=$SECONDS
    run "$driver" >"$logs/$driver.log" 2>"$logs/$driver.err"
    code=$?
    good=$(grep -c '^ok ' "$logs/$driver.log")
    bad=$(grep -c '^FAIL ' "$logs/$driver.log")
    if [ $code = 124 ]; then
        echo "FAIL no end within $limit s, after: $(tail -1 "$logs/$driver.log")" >>"$logs/$driver.log"
        bad=$((bad + 1))
    elif [ $code != 0 ] && [ "$bad" = 0 ] || [ "$good" = 0 ]; then
        echo "FAIL exit code $code: $(tail -3 "$logs/$driver.err" | paste -sd' ')" >>"$logs/$driver.log"
        bad=$((bad + 1))
    fi
    printf '%-14s %-10s %7d %7d %6d\n' "$driver" "$(version "$driver")" "$good" "$bad" $((SECONDS - began))
    grep '^FAIL ' "$logs/$driver.log" | cut -c1-300 | sed 's/^/    /'
    passed=$((passed + good))
    failed=$((failed + bad))
done
if [ -n "$proxy" ] && ! kill -0 "$proxy" 2>/dev/null; then
    echo "FAIL $target ended by itself: $(tail -3 "$logs/$target.log" | paste -sd' ')"
    failed=$((failed + 1))
fi
if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
