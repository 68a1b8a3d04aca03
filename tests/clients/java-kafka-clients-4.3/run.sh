#!/usr/bin/env bash
# Java's kafka-clients 4.3 against the broker at $BOOTSTRAP: Kafka's own tools, and a program of ours for what they
# do not reach. DATA_DIR is the broker's, for DumpLogSegments.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

libs=$("$tests/harness/need" kafka)
"$tests/harness/maven" "$here/pom.xml" compile

COMPACTED_TOPIC=$("$tests/harness/compacted")
export COMPACTED_TOPIC
failed=0
java -Xmx256m "-Dlog4j2.configurationFile=$tests/harness/kafka/log4j2.properties" \
  -cp "$tests/.work/java-kafka-clients-4.3/classes:$libs/*" io.logway.clients.Main || failed=1
PYTHONPATH=$tests python3 -m harness.cases "$here" || failed=1
exit $failed
