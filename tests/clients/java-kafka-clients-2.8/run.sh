#!/usr/bin/env bash
# Java's kafka-clients 2.8, the last line before Kafka 3, against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)
work=$tests/.work/java-kafka-clients-2.8

"$tests/harness/maven" "$here/pom.xml" compile dependency:copy-dependencies
COMPACTED_TOPIC=$("$tests/harness/compacted")
export COMPACTED_TOPIC
exec java -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$work/classes:$work/libs/*" io.logway.clients.Main
