#!/usr/bin/env bash
# AWS's Kinesis Client Library, versions 3, 2 and 1, unchanged: workers that share the shards of a stream through tables on the same
# endpoint. RECORDS=1000000 PAIRS=all is the long form.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/maven" "$here/pom.xml" compile
for version in 3.4 3.0 2 1; do
  "$tests/harness/maven" "$here/pom.xml" compile "-P$version"
done
python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$here/../boto3 exec "$python" -m harness.cases "$here" "$@"
