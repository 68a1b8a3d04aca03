#!/usr/bin/env bash
# librdkafka through the rdkafka crate against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

"$here/../../harness/need" zstd-headers >/dev/null
target=$here/../../.work/rdkafka-rust
# librdkafka takes a quarter of the time to compile this way, and none of the cases is about its speed.
export CFLAGS="-O0 -g0"
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" >&2
COMPACTED_TOPIC=$("$here/../../harness/compacted")
export COMPACTED_TOPIC
exec "$target/debug/logway-rdkafka-suite"
