#!/usr/bin/env bash
# Kills, stops and restarts brokers of the kind $AGAINST under load. SEED=N repeats a run's random choices.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
