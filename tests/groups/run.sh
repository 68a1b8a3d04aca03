#!/usr/bin/env bash
# Consumers of the newer group protocol (KIP-848) that join and leave while records flow, at the broker at $BOOTSTRAP.
# RECORDS=1000000 MEMBERS=20 tests/groups/run.sh is the long form.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
python=$("$tests/harness/need" python)
exec "$python" "$here/rolling_members.py"
