#!/usr/bin/env bash
# Clients that break the protocol, stall or flood, beside a polite one, against brokers of the kind $AGAINST.
# SEED=N repeats a run's random frames.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

PYTHONPATH=$tests exec python3 -m harness.cases "$here"
