#!/usr/bin/env bash
# AWS's SDK for Rust, unchanged, against the Kinesis front door of a broker that the suite starts itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

"$here/build.sh" >/dev/null
python=$("$tests/harness/need" python)
CLIENT="aws-sdk-rust $(grep -A 1 'name = "aws-sdk-kinesis"' "$here/Cargo.lock" | sed -n 's/^version = "\(.*\)"/\1/p')"
export CLIENT
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
