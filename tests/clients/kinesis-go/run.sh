#!/usr/bin/env bash
# AWS's SDK for Go v2, unchanged, against the Kinesis front door of a broker that the suite starts itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

(cd "$here" && go vet . && go build -o "$tests/.work/kinesis-go/kinesis-go" .)
python=$("$tests/harness/need" python)
version=$(cd "$here" && go list -m -f '{{.Version}}' github.com/aws/aws-sdk-go-v2/service/kinesis)
export CLIENT="aws-sdk-go-v2 ${version#v}"
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "$@"
