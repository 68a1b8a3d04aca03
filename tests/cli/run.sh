#!/usr/bin/env bash
# The logway command line (target/release/logway, or $LOGWAY) against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

# Members of groups that nobody here wrote.
"$tests/harness/need" kcat >/dev/null
PYTHONPATH=$tests exec python3 -m harness.cases "$here"
