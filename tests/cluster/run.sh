#!/usr/bin/env bash
# Kills, stops and pauses nodes of clusters under load. SEED=N repeats a run's random choices; ROUNDS=N makes it longer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
