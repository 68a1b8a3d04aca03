#!/usr/bin/env bash
# AWS's Kinesis Producer Library, unchanged: what it aggregates is taken apart by the client library, by way of a broker with TLS and
# signatures. Its native program is in its jar, for Linux on x86-64.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/maven" "$here/pom.xml" compile
"$tests/harness/maven" "$here/../kinesis-kcl/pom.xml" compile
python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$here/../kinesis-kcl exec "$python" -m harness.cases "$here" "$@"
