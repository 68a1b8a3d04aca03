#!/usr/bin/env bash
# librdkafka through Python's confluent-kafka against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
