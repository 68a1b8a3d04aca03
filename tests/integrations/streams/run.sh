#!/usr/bin/env bash
# A word count and a windowed join with Kafka Streams 4.3 against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
"$tests/harness/maven" "$here/pom.xml" compile dependency:copy-dependencies
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
