#!/usr/bin/env bash
# AWS's Kinesis Client Library, versions 3 and 2, unchanged: workers that share the shards of a stream through tables on the same endpoint.
# RECORDS=1000000 ALL_PAIRS=1 is the long form.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/maven" "$here/pom.xml" compile
"$tests/harness/maven" "$here/pom.xml" compile -P2
python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$here/../boto3 exec "$python" -m harness.cases "$here" "$@"
