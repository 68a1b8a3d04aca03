#!/usr/bin/env bash
# boto3, AWS's SDK for Python, unchanged, against the Kinesis front door of a broker that the suite starts itself.
# `run.sh test_records.py` runs one file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
CLIENT="boto3 $("$python" -c 'import boto3; print(boto3.__version__)')"
export CLIENT
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
