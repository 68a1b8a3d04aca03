#!/usr/bin/env bash
# The log service, by clients that are generated from its proto files. `run.sh test_appends.py` runs one file.
#
# RECORDS=1000000 appends and reads as many in the cases that reconnect; the default is 12,000.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
generated=$tests/.work/logservice/python
protos=$tests/../crates/logservice/proto
mkdir -p "$generated"
"$python" -m grpc_tools.protoc -I "$protos" --python_out="$generated" --grpc_python_out="$generated" \
  logway/log/v1/log.proto logspec/log.proto
PYTHONPATH=$tests:$generated exec "$python" -m harness.cases "$here" "$@"
