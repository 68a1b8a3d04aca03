#!/usr/bin/env bash
# librdkafka through Python's confluent-kafka against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
COMPACTED_TOPIC=$("$tests/harness/compacted")
export COMPACTED_TOPIC
CLIENT="confluent-kafka $("$python" -c 'import confluent_kafka; print(confluent_kafka.__version__)')"
PYTHONPATH=$tests:$tests/clients/python-cases CLIENT=$CLIENT exec "$python" -m harness.cases "$here"
