#!/usr/bin/env bash
# Listeners with TLS and SASL, users and ACLs, which Kafka's own tools administer. What real clients make of them is tried
# in clients/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

"$tests/harness/need" kcat >/dev/null
"$tests/harness/need" kafka >/dev/null
python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
