#!/usr/bin/env bash
# Requests of AWS's clients, mutated, against the Kinesis front door. SEED=N repeats a run, REQUESTS=1000000 makes it longer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$tests/hostile exec "$python" -m harness.cases "$here" "$@"
