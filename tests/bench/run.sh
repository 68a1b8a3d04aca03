#!/usr/bin/env bash
# `logway-bench` itself ($LOGWAY_BENCH, or a debug build beside target/release/logway or $LOGWAY): each experiment for a moment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
"$tests/harness/need" peers >/dev/null
if [ -z "${LOGWAY_BENCH:-}" ]; then
  # Nothing is measured here, so the minutes of a second release build are saved.
  cd "$tests/.."
  cargo build --locked --bin logway-bench
  beside=$tests/.work/bench
  mkdir -p "$beside"
  # A hard link, since the program looks for the broker beside its own file.
  ln -f "$(realpath "${CARGO_TARGET_DIR:-target}")/debug/logway-bench" "$beside/logway-bench"
  ln -sf "$(realpath "${LOGWAY:-target/release/logway}")" "$beside/logway"
  export LOGWAY_BENCH=$beside/logway-bench
fi
# What is fetched for these tests stays with them.
export LOGWAY_BENCH_CACHE=$tests/.work/bench-peers
PYTHONPATH=$tests exec python3 -m harness.cases "$here"
