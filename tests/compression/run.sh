#!/usr/bin/env bash
# Batches that `compression.type` has a broker compress anew, beside Apache Kafka's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
KCAT=$("$tests/harness/need" kcat) PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
