#!/usr/bin/env bash
# Builds the suite, and says where its program is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/need" zstd-headers >/dev/null
"$tests/harness/need" openssl-headers >/dev/null
target=$tests/.work/rdkafka-rust
# librdkafka takes a quarter of the time to compile this way, and none of the cases is about its speed.
export CFLAGS="-O0 -g0"
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" >&2
echo "$target/debug/logway-rdkafka-suite"
