#!/usr/bin/env bash
# Kills, stops, pauses and cuts off nodes of clusters under load. SEED=N repeats a run's random choices; ROUNDS=N makes
# it longer.
#
# Cases that cut cables need network namespaces (root); without them, they say that they are skipped and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
failed=0
PYTHONPATH=$tests "$python" -m harness.cases "$here" || failed=1

# Network and mounts of its own go with it, however it ends.
own_network=(unshare --net --mount)
if "${own_network[@]}" true 2>/dev/null; then
  export OWN_NETWORK=yes
  "$tests/harness/need" nft >/dev/null
else
  own_network=()
fi
PYTHONPATH=$tests:$here "${own_network[@]}" "$python" -m harness.cases "$here/network" || failed=1
exit $failed
