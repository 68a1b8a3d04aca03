#!/usr/bin/env bash
# Kills, stops, pauses and cuts off nodes of clusters under load, and takes power and disks from them. SEED=N repeats a
# run's random choices; ROUNDS=N makes it longer; with the name of a file it runs only that: run.sh test_power.py
#
# Cases that cut cables and mount disks need network namespaces and mounts (root); without them, they say that they are
# skipped and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
files=${1:-test_*.py}

python=$("$tests/harness/need" python)
export PYTHONPATH=$tests:$here
failed=0
if compgen -G "$here/$files" >/dev/null; then
  "$python" -m harness.cases "$here" "$files" || failed=1
fi
if compgen -G "$here/machines/$files" >/dev/null; then
  "$tests/harness/in_own_network" "$python" -m harness.cases "$here/machines" "$files" || failed=1
fi
exit $failed
