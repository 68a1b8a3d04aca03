#!/usr/bin/env bash
# Copies records by transactions while brokers are killed, with the newest protocol (Java) and the classic one
# (librdkafka). SEED=N repeats a run's random choices; KILLS=N makes it longer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

LIBS=$("$tests/harness/need" kafka)
export LIBS
python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$here exec "$python" -m harness.cases "$here"
