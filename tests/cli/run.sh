#!/usr/bin/env bash
# The logway command line (target/release/logway, or $LOGWAY) against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

PYTHONPATH=$tests exec python3 -m harness.cases "$here"
