#!/usr/bin/env bash
# `logway-bench` itself (target/release/logway-bench, or $LOGWAY_BENCH, or the one beside $LOGWAY): each experiment for a moment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
"$tests/harness/need" peers >/dev/null
if [ -z "${LOGWAY:-}${LOGWAY_BENCH:-}" ]; then make --no-print-directory -C "$tests/.." build-bench; fi
# What is fetched for these tests stays with them.
export LOGWAY_BENCH_CACHE=$tests/.work/bench-peers
PYTHONPATH=$tests exec python3 -m harness.cases "$here"
