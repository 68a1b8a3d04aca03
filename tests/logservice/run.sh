#!/usr/bin/env bash
# The log service, by clients that are generated from its proto files. `run.sh test_appends.py` runs one file.
#
# RECORDS=1000000 appends and reads as many in the cases that reconnect; the default is 12,000.
# A case that mounts a disk needs the right to (root); without it, it says that it is skipped and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
generated=$tests/.work/logservice/python
protos=$tests/../crates/logservice/proto
mkdir -p "$generated"
"$python" -m grpc_tools.protoc -I "$protos" --python_out="$generated" --grpc_python_out="$generated" \
  logway/log/v1/log.proto logspec/log.proto
# Mounts of its own go with it, however it ends.
own_mounts=(unshare --mount)
"${own_mounts[@]}" true 2>/dev/null || own_mounts=()
PYTHONPATH=$tests:$generated exec "${own_mounts[@]}" "$python" -m harness.cases "$here" "$@"
