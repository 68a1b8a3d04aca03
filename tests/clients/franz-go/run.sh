#!/usr/bin/env bash
# franz-go against the broker at $BOOTSTRAP. CASE=substring of an id runs only some cases.
set -euo pipefail
cd "$(dirname "$0")"
go vet ./...
COMPACTED_TOPIC=$(../../harness/compacted)
export COMPACTED_TOPIC
exec go run .
