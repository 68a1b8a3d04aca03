#!/usr/bin/env bash
# `logway bench` itself (target/release/logway, or $LOGWAY): each experiment for a moment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
PYTHONPATH=$tests exec python3 -m harness.cases "$here"
