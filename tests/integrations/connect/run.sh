#!/usr/bin/env bash
# Kafka Connect 4.3 standalone, with its file source and file sink, against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
