#!/usr/bin/env bash
# AWS's SDK for JavaScript v3, unchanged, against the Kinesis front door of a broker that the suite starts itself. It speaks
# HTTP/2 by prior knowledge.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$tests/harness/need" node-modules "$here" >/dev/null
python=$("$tests/harness/need" python)
CLIENT="@aws-sdk/client-kinesis $(cd "$here" && node -p 'require("@aws-sdk/client-kinesis/package.json").version')"
export CLIENT
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
