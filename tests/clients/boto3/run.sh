#!/usr/bin/env bash
# boto3, AWS's SDK for Python, unchanged, against the Kinesis front door of a broker that the suite starts itself.
# `run.sh test_records.py` runs one file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
