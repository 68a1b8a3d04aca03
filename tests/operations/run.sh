#!/usr/bin/env bash
# Partitions are moved between nodes under verifying loads, with Kafka's own tools and with ours, while nodes are killed.
# SEED=N repeats a run's random choices; ROUNDS=N makes it longer; with the name of a file it runs only that: run.sh test_tools.py
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
# The clusters and loads are those of the suite `cluster`.
export PYTHONPATH=$tests:$tests/cluster:$here
"$python" -m harness.cases "$here" "${1:-test_*.py}"
