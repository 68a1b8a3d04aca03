#!/usr/bin/env bash
# kafka-python, the client in pure Python, against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
COMPACTED_TOPIC=$("$tests/harness/compacted")
export COMPACTED_TOPIC
CLIENT="kafka-python $("$python" -c 'import kafka; print(kafka.__version__)')"
PYTHONPATH=$tests:$tests/clients/python-cases CLIENT=$CLIENT exec "$python" -m harness.cases "$here"
