#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (default 60) from its seeds, then, with --long, the random client of the black-box tests
# for five minutes from a seed of its own. Stops at the first failure. Names on the command line choose targets.
# Needs a nightly toolchain; installs it and cargo-fuzz if missing.
set -eu
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
long=
if [ "${1:-}" = --long ]; then long=1; shift; fi
rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked

[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list)
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
