#!/usr/bin/env bash
# librdkafka through @confluentinc/kafka-javascript against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

"$here/../../harness/need" node-modules "$here" >/dev/null
COMPACTED_TOPIC=$("$here/../../harness/compacted")
export COMPACTED_TOPIC
exec node "$here/client.js"
