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
files=${1:-test_*.py} failed=0
if compgen -G "$here/$files" >/dev/null; then
  "$python" -m harness.cases "$here" "$files" || failed=1
fi
if compgen -G "$here/machines/$files" >/dev/null; then
  # From a network of one's own nothing can be fetched.
  "$tests/harness/maven" "$here/hdfs/pom.xml" dependency:copy-dependencies
  "$tests/harness/need" node-modules "$here/s3" >/dev/null
  "$tests/harness/in_own_network" "$python" -m harness.cases "$here/machines" "$files" || failed=1
fi
exit $failed
