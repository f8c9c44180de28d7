#!/bin/sh
# Installs what a bare Debian lacks, and says what it cannot install. `setup.sh` for building and testing,
# `setup.sh compare` and `setup.sh drivers` with what those need besides. Quick when nothing is missing.
set -eu
cd "$(dirname "$0")/.."

kind=${1:-base}
packages="build-essential pkg-config clang libclang-dev postgresql"
case $kind in
    base) ;;
    compare) packages="$packages pgbouncer" ;;
    drivers) packages="$packages python3-venv" ;;
    *) echo "setup.sh: base, compare or drivers" >&2; exit 2 ;;
esac

minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
[ -d "$HOME/.cargo/bin" ] && PATH="$HOME/.cargo/bin:$PATH"
if ! command -v cargo >/dev/null; then
    echo "setup: there is no cargo. Debian's is too old for this crate (Rust $minimum or newer); install rustup, then run" >&2
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
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
# PostgreSQL may be there without the metapackage.
if ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    missing=$(printf '%s' "$missing" | sed 's/ postgresql\( \|$\)/ /')
fi
if [ -n "$(printf '%s' "$missing" | tr -d ' ')" ]; then
    install="apt-get install -y --no-install-recommends$missing"
    if [ "$(id -u)" = 0 ]; then as=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as=sudo
    else
        echo "setup: please run as root:" >&2
        echo "    apt-get update && $install" >&2
        exit 1
    fi
    echo "setup: installing$missing"
    $as apt-get update -q
    DEBIAN_FRONTEND=noninteractive $as $install
fi
mkdir -p .cache
: >"$stamp"
