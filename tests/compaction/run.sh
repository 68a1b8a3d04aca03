#!/usr/bin/env bash
# Compacted topics of a broker of the kind $AGAINST, read back by several clients. SEED=N repeats a run's random choices.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
KCAT=$("$tests/harness/need" kcat) PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
