#!/usr/bin/env bash
# AWS's SDK for Java v2, unchanged, against the Kinesis front door of a broker that the suite starts itself. It speaks CBOR over
# HTTP/2 by prior knowledge.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/maven" "$here/pom.xml" compile
python=$("$tests/harness/need" python)
jar=$(basename "$tests"/.work/kinesis-java/libs/kinesis-*.jar .jar)
export CLIENT="aws-sdk-java-v2 ${jar#kinesis-}"
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
