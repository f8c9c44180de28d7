#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (default 60) from its seeds, then, with --long, the random client of the black-box tests
# for five minutes from a seed of its own. Stops at the first failure. Names on the command line choose targets.
# Needs a nightly toolchain; installs it and cargo-fuzz if missing.
set -eu
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
long=
if [ "${1:-}" = --long ]; then long=1; shift; fi
# lacking WHAT COMMAND...: installs it, or says what to do.
lacking() {
    what=$1
    shift
    echo "fuzz: there is no $what: $*"
    "$@" || { echo "fuzz: please install it where that works, and run this again" >&2; exit 1; }
}
command -v rustup >/dev/null || { echo "fuzz: a nightly toolchain is needed, and rustup to choose it: neither is here" >&2; exit 1; }
rustup run nightly rustc --version >/dev/null 2>&1 || lacking "nightly toolchain" rustup toolchain install nightly --profile minimal
cargo fuzz --version >/dev/null 2>&1 || lacking cargo-fuzz cargo install cargo-fuzz --locked

if [ $# -eq 0 ]; then
    targets=$(cargo +nightly fuzz list)
    # shellcheck disable=SC2086
    set -- $targets
fi
for target in "$@"; do
    echo "fuzz: $target for $seconds s"
    # What a run finds goes to the first folder, which is not kept; the seeds are only read.
    found=$(mktemp -d)
    status=0
    # No sanitizer: there is no unsafe code to watch. Panics, overflows, hangs and memory are looked at all the same.
    cargo +nightly fuzz run --sanitizer none "$target" "$found" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 || status=$?
    rm -rf "$found"
    [ "$status" -eq 0 ] || exit "$status"
done

if [ -n "$long" ]; then
    echo "fuzz: random clients for 300 s"
    PGSLUICE_RANDOM_SECONDS=300 PGSLUICE_RANDOM_SEED=${PGSLUICE_RANDOM_SEED:-$(date +%s)} \
        cargo test --test pg -- random::a_client_cannot_tell
fi
