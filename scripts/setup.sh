#!/bin/sh
# Installs what a bare Debian lacks, and says what it cannot install. `setup.sh` for building and testing,
# `setup.sh matrix`, `compare`, `release` and `drivers` with what those need besides. Quick when nothing is missing.
set -eu
cd "$(dirname "$0")/.."

kind=${1:-base}
packages="build-essential pkg-config clang libclang-dev postgresql openssl"
# unless COMMAND PACKAGE: wanted only if the command did not come from elsewhere.
unless() { command -v "$1" >/dev/null || packages="$packages $2"; }
case $kind in
    base) ;;
    matrix)
        unless node nodejs
        unless npm npm
        ;;
    compare) packages="$packages python3 pgbouncer" ;;
    release)
        # Counts are read by the LLVM that wrote them; rustup's component llvm-tools will do as well.
        sysroot=$(rustc --print sysroot 2>/dev/null || true)
        ls "$sysroot"/lib/rustlib/*/bin/llvm-profdata >/dev/null 2>&1 ||
            packages="$packages llvm-$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')"
        ;;
    drivers)
        packages="$packages python3-venv libpq-dev"
        unless node nodejs
        unless npm npm
        unless javac default-jdk-headless
        unless mvn maven
        # Debian's go is older than pgx asks for; without one that is new enough the Go drivers are skipped, and that is said.
        ;;
    *) echo "setup.sh: base, matrix, compare, release or drivers" >&2; exit 2 ;;
esac

# apt PACKAGE...: as root, by sudo, or by whoever reads what to type.
apt() {
    if [ "$(id -u)" = 0 ]; then as=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as=sudo
    else
        echo "setup: please run as root:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $*" >&2
        exit 1
    fi
    echo "setup: installing $*"
    $as apt-get update -q
    $as env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# Has Debian such a package? `apt-cache show` also succeeds for a name that others only refer to.
known() { apt-cache show "$1" 2>/dev/null | grep -q '^Package:'; }
# A fresh machine has no lists to look into; whoever is not root is told below what is missing.
lists() { [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || apt-get update -q; }

minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
[ -d "$HOME/.cargo/bin" ] && PATH="$HOME/.cargo/bin:$PATH"
if ! command -v cargo >/dev/null && { known rustup || { lists && known rustup; }; }; then
    apt rustup ca-certificates
    rustup toolchain install stable --profile minimal --component rustfmt,clippy
fi
if ! command -v cargo >/dev/null; then
    echo "setup: there is no cargo, and Debian's own is too old for this crate (Rust $minimum or newer). Install rustup (from version 13 on" >&2
    echo "a package of Debian, else as its site says), then run this again after" >&2
    echo "    rustup toolchain install stable --component rustfmt,clippy" >&2
    exit 1
fi
version=$(cargo --version | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$minimum" "$version" | sort -V | head -n 1)" != "$minimum" ]; then
    echo "setup: cargo $version is too old, this crate needs Rust $minimum or newer: rustup update stable" >&2
    exit 1
fi

# One stamp per kind and list of packages, so that a second run asks nobody.
stamp=.cache/setup-$kind-$(printf '%s' "$packages" | cksum | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0

if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; make sure these or their like are installed: $packages" >&2
    exit 0
fi
missing=
for package in $packages; do
    case $package in
        # PostgreSQL may be there without the metapackage.
        postgresql) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && continue ;;
    esac
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
# shellcheck disable=SC2086
[ -z "$missing" ] || apt $missing
mkdir -p .cache
: >"$stamp"
