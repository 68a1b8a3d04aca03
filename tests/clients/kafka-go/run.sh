#!/usr/bin/env bash
# kafka-go against the broker at $BOOTSTRAP. CASE=substring of an id runs only some cases.
set -euo pipefail
cd "$(dirname "$0")"
go vet ./...
exec go run .
