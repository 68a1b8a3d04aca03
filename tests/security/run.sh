#!/usr/bin/env bash
# Listeners with TLS and SASL, users and ACLs: real clients get in or do not, with their own words, and Kafka's own
# tools administer what there is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

"$tests/harness/need" kcat >/dev/null
"$tests/harness/need" kafka >/dev/null
python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
