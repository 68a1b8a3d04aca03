#!/usr/bin/env bash
# What those who run a broker rely on: the commands of docs/OPERATING.md, metrics for several parsers, its log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
PROMTOOL=$("$tests/harness/need" promtool)
export PROMTOOL
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
