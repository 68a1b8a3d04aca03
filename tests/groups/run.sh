#!/usr/bin/env bash
# Consumers of the newer group protocol (KIP-848) that join and leave while records flow, at the broker at $BOOTSTRAP: ten
# of librdkafka's, then ten of franz-go's. RECORDS=1000000 MEMBERS=20 tests/groups/run.sh is the long form.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
python=$("$tests/harness/need" python)
program=$tests/.work/rolling-members/franz-go
(cd "$here/franz-go" && go vet . && go build -o "$program" .)

passed=0 failed=0
tell() { if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
tell "$python" "$here/rolling_members.py"
tell "$program"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
