#!/usr/bin/env bash
# kcat (librdkafka as the distribution ships it) against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/need" kcat >/dev/null
PYTHONPATH=$tests exec python3 -m harness.cases "$here"
