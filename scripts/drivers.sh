#!/usr/bin/env bash
# Runs the programs in examples/drivers against pgsluice in front of a throw-away primary and two replicas.
#
#   scripts/drivers.sh [--target pgsluice|pgbouncer|direct] [--url URL] [--tls] [DRIVER...]
#
#   --target pgsluice   builds it (cargo build), unless PGSLUICE_BIN names an executable; the default
#   --target pgbouncer  session mode, to compare with
#   --target direct     the primary itself: what the programs expect of PostgreSQL
#   --url URL           something that runs already; no cluster is started
#   --tls               pgsluice lets nobody in without TLS (PGSSLMODE=require); programs that have none are skipped
#
# Packages are installed with pip, npm, go, mvn and cargo into .cache/drivers, in the versions pinned beside the
# programs, once for each state of those files. A program with failed checks is run again on the primary itself, and
# what fails there, too, is marked: then it is the check that is wrong. Prints a table, every failed check, and
# "N passed, N failed"; exit code 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
cache=$root/.cache/drivers
source=$root/examples/drivers
logs=$cache/logs
limit=${DRIVERS_LIMIT:-300} # seconds per driver: a hang is a failure
target=pgsluice
url=
tls=
drivers=()
while [ $# -gt 0 ]; do
    case $1 in
        --target) target=$2; shift 2 ;;
        --url) target=url url=$2; shift 2 ;;
        --tls) tls=yes; shift ;;
        -*) echo "usage: drivers.sh [--target pgsluice|pgbouncer|direct] [--url URL] [--tls] [DRIVER...]" >&2; exit 2 ;;
        *) drivers+=("$1"); shift ;;
    esac
done
[ ${#drivers[@]} -gt 0 ] || drivers=(psql pgbench psycopg psycopg2 asyncpg sqlalchemy django node-postgres postgres.js drizzle
    pgx lib-pq gorm pgjdbc hibernate tokio-postgres sqlx diesel)
mkdir -p "$logs"
work=$(mktemp -d)
proxy=
program=

stop_all() {
    trap - EXIT INT TERM
    stop_program
    if [ -n "$proxy" ]; then kill "$proxy" 2>/dev/null; wait "$proxy" 2>/dev/null; fi
    "$root/scripts/cluster.sh" stop "$work/cluster"
    rm -rf "$work"
}
# It and whatever it has started.
stop_program() { if [ -n "$program" ]; then kill -- -"$program" 2>/dev/null; fi; }
trap stop_all EXIT
trap 'exit 130' INT TERM

# --- install: prints why not, when a toolchain is missing -------------------------------------------------

needs() { for tool in "$@"; do command -v "$tool" >/dev/null || { echo "$tool not installed"; return 1; }; done; }

# at_least HAVE WANT
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }
go_is_recent() { at_least "$(GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//')" 1.25 || { echo "go 1.25 not installed"; return 1; }; }
rust_is_recent() { at_least "$(cargo --version | cut -d' ' -f2)" 1.94 || { echo "Rust 1.94 not installed"; return 1; }; }
libpq_is_there() { [ -e "$(pg_config --includedir 2>/dev/null)/libpq-fe.h" ] || { echo "libpq-dev not installed"; return 1; }; }
venv_works() { python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python3-venv not installed"; return 1; }; }

# These two are built without TLS: it would take longer to compile than all the rest of them.
can_tls() { case $tls,$1 in yes,tokio-postgres | yes,sqlx) echo "no TLS in its program"; return 1 ;; esac; }

# once KIND PATH: installs, unless it succeeded before with the same file or the same files in that folder.
once() {
    local stamp=$cache/$1.stamp sum
    sum=$(find "$source/$2" -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return
    rm -f "$stamp"
    "install_$1" >"$logs/install-$1.log" 2>&1 && echo "$sum" >"$stamp" || { echo "install failed: $(tail -3 "$logs/install-$1.log" | paste -sd' ')"; return 2; }
}

install_python() { python3 -m venv --clear "$cache/venv" && "$cache/venv/bin/pip" install -q --require-hashes -r "$source/python/requirements.txt"; }
install_node() { mkdir -p "$cache/node" && cp "$source"/node/package*.json "$cache/node/" && npm ci --prefix "$cache/node" --no-audit --no-fund; }
install_go() { mkdir -p "$cache/go" && (cd "$source/go" && GOTOOLCHAIN=local go build -o "$cache/go/" ./pgx ./libpq ./gorm); }
install_jars() { rm -rf "$cache/jars" && mvn -q -B -f "$source/jvm/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$cache/jars"; }
install_jvm() { rm -rf "$cache/classes" && javac -cp "$cache/jars/*" -d "$cache/classes" "$source"/jvm/*.java; }
install_rust() { cargo build --locked --manifest-path "$source/rust/Cargo.toml" --target-dir "$cache/rust"; }

prepare() {
    case $1 in
        psql) needs psql ;;
        pgbench) needs psql pgbench ;;
        psycopg | psycopg2 | asyncpg | sqlalchemy | django) needs python3 && venv_works && once python python/requirements.txt ;;
        node-postgres | postgres.js | drizzle) needs node npm && once node node/package-lock.json ;;
        pgx | lib-pq | gorm) needs go && go_is_recent && once go go ;;
        pgjdbc | hibernate) needs java javac mvn && once jars jvm/pom.xml && once jvm jvm ;;
        tokio-postgres | sqlx | diesel) can_tls "$1" && needs cargo && rust_is_recent && libpq_is_there && once rust rust ;;
        *) echo "unknown driver"; return 2 ;;
    esac
}

# In the group of its caller, not in one of its own.
limited() { timeout --foreground "$limit" "$@"; }
python() { PYTHONDONTWRITEBYTECODE=1 limited "$cache/venv/bin/python" -u "$source/python/$1"; }
# node-postgres looks at the certificate whatever the mode.
node_program() { NODE_EXTRA_CA_CERTS=${tls:+$work/server.crt} NODE_PATH=$cache/node/node_modules limited node --no-deprecation "$source/node/$1"; }
java_program() { limited java -cp "$cache/classes:$cache/jars/*" "$1"; }

run() {
    case $1 in
        psql | pgbench) limited "$source/$1.sh" ;;
        psycopg) python psycopg3.py ;;
        psycopg2 | asyncpg | sqlalchemy | django) python "$1_checks.py" ;;
        node-postgres) node_program node_postgres.js ;;
        postgres.js) node_program postgres_js.js ;;
        drizzle) node_program drizzle.js ;;
        pgx | gorm) limited "$cache/go/$1" ;;
        lib-pq) limited "$cache/go/libpq" ;;
        pgjdbc) java_program PgjdbcChecks ;;
        hibernate) java_program HibernateChecks ;;
        tokio-postgres) limited "$cache/rust/debug/tokio_postgres" ;;
        sqlx | diesel) limited "$cache/rust/debug/$1" ;;
    esac
}

python_version() { sed -n "s/^$1==\([^ ]*\).*/\1/p" "$source/python/requirements.txt"; }
node_version() { sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p" "$source/node/package.json"; }
go_version() { sed -n "s,^[[:space:]]$1 v,,p" "$source/go/go.mod"; }
java_version() { sed -n "/<artifactId>$1</{n;s/.*<version>\(.*\)<.*/\1/p}" "$source/jvm/pom.xml"; }
rust_version() { sed -n "s/^$1 = .*\"=\([0-9.]*\)\".*/\1/p" "$source/rust/Cargo.toml"; }

version() {
    case $1 in
        psql | pgbench) "$1" --version | awk '{print $3}' ;;
        psycopg) python_version psycopg ;;
        psycopg2) python_version psycopg2-binary ;;
        asyncpg | sqlalchemy | django) python_version "$1" ;;
        node-postgres) node_version pg ;;
        postgres.js) node_version postgres ;;
        drizzle) node_version drizzle-orm ;;
        pgx) go_version github.com/jackc/pgx/v5 ;;
        lib-pq) go_version github.com/lib/pq ;;
        gorm) go_version gorm.io/gorm ;;
        pgjdbc) java_version postgresql ;;
        hibernate) java_version hibernate-core ;;
        tokio-postgres | sqlx | diesel) rust_version "$1" ;;
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
    if [ -n "$tls" ]; then
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
            -keyout "$work/server.key" -out "$work/server.crt" 2>"$logs/openssl.log" || { cat "$logs/openssl.log" >&2; exit 1; }
        echo "tls: { client: { mode: require, cert: \"$work/server.crt\", key: \"$work/server.key\" } }" >>"$work/pgsluice.yaml"
        export PGSSLMODE=require
    fi
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
    # The programs write on one connection and read on the next, as they may on one server: so a commit waits until
    # every replica shows it. Where a session has to see its own writes without that, the checks turn it off.
    CLUSTER_COMMIT=remote_apply "$root/scripts/cluster.sh" start "$work/cluster" >/dev/null || exit 1
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

# --- run --------------------------------------------------------------------------------------------------

# attempt DRIVER LOG URL: the program's lines go to LOG; an end that is none of its own becomes a failed line.
attempt() {
    local log=$2 code
    set -m # a process group of its own; and waited for, so that Ctrl-C is heard at once
    PGSLUICE_URL=$3 run "$1" >"$log" 2>"$log.err" </dev/null &
    program=$!
    set +m
    wait "$program"
    code=$?
    stop_program
    program=
    if [ $code = 124 ]; then
        echo "FAIL no end within $limit s, after: $(tail -1 "$log")" >>"$log"
    elif [ $code != 0 ] && ! grep -q '^FAIL ' "$log" || ! grep -q '^ok ' "$log"; then
        echo "FAIL exit code $code: $(tail -3 "$log.err" | paste -sd' ')" >>"$log"
    fi
}

passed=0 failed=0 skipped=0
printf '%-14s %-12s %7s %7s %9s %6s\n' "driver" "version" "passed" "failed" "install s" "run s"
for driver in "${drivers[@]}"; do
    began=$SECONDS
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
    installed=$((SECONDS - began))
    began=$SECONDS
    log=$logs/$driver.log
    attempt "$driver" "$log" "$url"
    took=$((SECONDS - began))
    good=$(grep -c '^ok ' "$log")
    bad=$(grep -c '^FAIL ' "$log")
    printf '%-14s %-12s %7d %7d %9d %6d\n' "$driver" "$(version "$driver")" "$good" "$bad" "$installed" "$took"
    if [ "$bad" != 0 ]; then
        if [ "$target" = pgsluice ]; then PGSSLMODE=disable attempt "$driver" "$log.direct" "postgresql://app:secret@127.0.0.1:$PRIMARY_PORT/app"; fi
        grep '^FAIL ' "$log" | while IFS= read -r line; do
            where=
            # The name of a check may hold colons, but no line of the direct run begins with a whole line of this one.
            if [ "$target" = pgsluice ] && grep -qF "${line%%: *}: " "$log.direct"; then where="    direct, too:"; fi
            echo "$where    ${line:0:300}"
        done
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
done
if [ -n "$proxy" ] && ! kill -0 "$proxy" 2>/dev/null; then
    echo "FAIL $target ended by itself: $(tail -3 "$logs/$target.log" | paste -sd' ')"
    failed=$((failed + 1))
fi
if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
