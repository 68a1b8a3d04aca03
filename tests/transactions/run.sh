#!/usr/bin/env bash
# Copies records by transactions while brokers of the kind $AGAINST are killed, with four clients: the newest protocol
# (Java, franz-go) and the classic one (librdkafka, Sarama). SEED=N repeats a run's random choices; KILLS=N makes it
# longer; with the name of a file it runs only that: AGAINST=logway run.sh test_hanging.py
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

LIBS=$("$tests/harness/need" kafka)
export LIBS
GO_COPIER=$tests/.work/go-copiers/copier
export GO_COPIER
(cd "$here/go-copiers" && go vet . && go build -o "$GO_COPIER" .)
python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$here exec "$python" -m harness.cases "$here" "${1:-test_*.py}"
