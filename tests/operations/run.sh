#!/usr/bin/env bash
# Clusters are operated under verifying loads, with Kafka's own tools and with ours, while nodes are killed: partitions move, nodes come, go and are upgraded.
# SEED=N repeats a run's random choices; ROUNDS=N makes it longer; with the name of a file it runs only that: run.sh test_tools.py
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
# Nodes of some cases are on hosts in network namespaces, where the script has them.
"$tests/harness/need" nft >/dev/null
# The clusters and loads are those of the suite `cluster`.
export PYTHONPATH=$tests:$tests/cluster:$here
"$python" -m harness.cases "$here" "${1:-test_*.py}"
