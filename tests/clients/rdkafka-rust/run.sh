#!/usr/bin/env bash
# librdkafka through the rdkafka crate against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

program=$("$here/build.sh")
COMPACTED_TOPIC=$("$here/../../harness/compacted")
export COMPACTED_TOPIC
exec "$program"
