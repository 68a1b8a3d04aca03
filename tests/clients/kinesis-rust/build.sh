#!/usr/bin/env bash
# Builds the suite, and says where its program is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

target=$tests/.work/kinesis-rust
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" >&2
echo "$target/debug/logway-kinesis-rust-suite"
