#!/usr/bin/env bash
# A Kafka producer of Java with KinesisPartitioner, beside PutRecord of boto3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/maven" "$here/pom.xml" compile
python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$here/../boto3 exec "$python" -m harness.cases "$here" "$@"
