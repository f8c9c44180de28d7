#!/bin/sh
# Builds the executable to ship, target/ship/pgsluice: first one that counts how often each of its branches is taken, then, when
# that has served the workloads of benches/compare for a minute, one that is laid out accordingly (profile-guided optimization, see
# "Profile-guided Optimization" in the rustc book). What a plain release build gains by it stands in benches/RESULTS.md.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh compare
scripts/setup.sh release

host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$profdata" ] || profdata=$(command -v "llvm-profdata-$llvm") || {
    echo "release: neither llvm-profdata-$llvm nor rustup's component llvm-tools is there; one of them is needed" >&2
    exit 1
}

ship=$PWD/target/ship
counts=$ship/counts.profdata
# With a target named, flags are for what will run here alone, and not for build scripts and macros.
build() { RUSTFLAGS=$1 cargo build --release --bin pgsluice --target "$host" --target-dir "$ship/$2"; }

mkdir -p "$ship"
# Counts of other sources fit the functions that have not changed, and only those.
if [ ! -e "$counts" ] || [ -n "$(find src Cargo.toml Cargo.lock -newer "$counts" -type f | head -n 1)" ]; then
    rm -rf "$ship/raw"
    build "-Cprofile-generate=$ship/raw" counting
    PGSLUICE_BIN=$ship/counting/$host/release/pgsluice benches/compare/run.py --targets pgsluice -r 1 -T 3
    "$profdata" merge -o "$counts" "$ship/raw"
fi
build "-Cprofile-use=$counts" counted
cp "$ship/counted/$host/release/pgsluice" "$ship/pgsluice.new"
mv "$ship/pgsluice.new" "$ship/pgsluice"
echo "release: $ship/pgsluice"
