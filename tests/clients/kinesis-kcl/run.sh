#!/usr/bin/env bash
# AWS's Kinesis Client Library, versions 3, 2 and 1, unchanged: workers that share the shards of a stream through tables on the same
# endpoint. RECORDS=1000000 PAIRS="FanOut3 Polling2" is the long form: classes of test_workers.py, each a version and a way to read, one
# after the other; PAIRS=all is all of them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)
read -ra pairs <<<"${PAIRS:-FanOut3 Polling2 Polling1}"
[ "${pairs[*]}" != all ] || pairs=(FanOut3 Polling3 Polling34 FanOut30 FanOut2 Polling2 Polling1)

declare -A profiles=([3]="" [34]=-P3.4 [30]=-P3.0 [2]=-P2 [1]=-P1)
declare -A built
for pair in "${pairs[@]}"; do
  version=${pair##*[a-zA-Z]}
  [ -z "${built[$version]-}" ] || continue
  built[$version]=yes
  # Word splitting is meant: the newest version has no profile.
  "$tests/harness/maven" "$here/pom.xml" compile ${profiles[$version]}
done
python=$("$tests/harness/need" python)
export PYTHONPATH=$tests:$here/../boto3

failed=
for pair in "${pairs[@]}"; do
  PAIR=$pair "$python" -m harness.cases "$here" "$@" || failed=yes
done
[ -z "$failed" ]
