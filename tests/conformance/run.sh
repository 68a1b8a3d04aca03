#!/usr/bin/env bash
# Compares the answers of Logway and of Apache Kafka to the same requests; see suite.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

if ! "$tests/harness/need" kafka >/dev/null; then
  echo "cannot run conformance: Apache Kafka's jars cannot be had"
  echo "0 passed, 0 failed"
  exit
fi
python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m conformance.suite "$@"
