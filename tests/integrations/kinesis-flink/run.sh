#!/usr/bin/env bash
# A job of Apache Flink 1.19 with its Kinesis connector, against the Kinesis front door of a broker that the suite starts itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
"$tests/harness/need" kafka >/dev/null
"$tests/harness/maven" "$here/pom.xml" compile dependency:copy-dependencies
PYTHONPATH=$tests exec "$python" -m harness.cases "$here"
