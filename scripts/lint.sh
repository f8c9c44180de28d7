#!/bin/sh
# Everything that can be said about the code without running it.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'lint: %s\n' "$1"; }

say "formatting"
cargo fmt --check
say "clippy"
cargo clippy --all-targets -- -D warnings
say "clippy, without the parser"
cargo clippy --no-default-features --lib -- -D warnings
say "clippy, with the parser in Rust alone"
cargo clippy --no-default-features --features sqlparser --lib -- -D warnings
say "no C where none is promised"
for tool in cc cmake bindgen; do
    if cargo tree -q --no-default-features --features sqlparser -e normal,build -i "$tool" 2>/dev/null | grep -q .; then
        echo "the build with sqlparser alone needs $tool" >&2
        exit 1
    fi
done
say "floors"
cargo test -q --test tidy
if cargo deny --version >/dev/null 2>&1; then
    say "dependencies"
    cargo deny check bans licenses sources
    # Known faults are listed in a database that has to be fetched; without a network nothing can be said.
    if cargo deny fetch db >/dev/null 2>&1; then cargo deny check advisories; else say "advisories not checked: no database"; fi
else
    say "dependencies not checked: cargo install cargo-deny --locked"
fi
say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc -q --no-deps --lib
