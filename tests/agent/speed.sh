#!/usr/bin/env bash
# What agents manage beside Flume and rsyslog: see speed.py. speed.sh [EVENTS] [ROUNDS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
"$tests/harness/maven" "$here/pom.xml" dependency:copy-dependencies
FLUME_JARS=$tests/.work/agent/flume
export FLUME_JARS PYTHONPATH=$tests:$here
exec "$python" "$here/speed.py" "$@"
