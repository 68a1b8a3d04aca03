#!/usr/bin/env bash
# MirrorMaker 2 of Apache Kafka 4.3 between an Apache Kafka and a broker of the kind $AGAINST, both ways.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
