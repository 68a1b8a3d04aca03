#!/usr/bin/env bash
# Agents beside Apache Flume 1.11 and Hadoop's HDFS, with kills, rotation and clients that mean harm. With the name of a file it runs only
# that: run.sh test_taildir.py. LONG=1 has more events, kills and connections, LOGROTATE_BYTES and THREE_HOPS_EVENTS
# have more of theirs; SEED=N repeats a run's choices.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
"$tests/harness/maven" "$here/pom.xml" dependency:copy-dependencies
FLUME_JARS=$tests/.work/agent/flume
export FLUME_JARS PYTHONPATH=$tests:$here
exec "$python" -m harness.cases "$here" "${1:-test_*.py}"
