#!/usr/bin/env bash
# What the machine does to brokers of the kind $AGAINST while clients write and read: a disk that fills, fails, loses
# power or flips bits, a clock that jumps, pauses, memory and descriptors that run out.
# SEED=N repeats a run's random choices; ROUNDS=N cuts the power so often.
#
# A case that mounts a disk or limits memory needs the right to (root); without it, it says that it is skipped and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

python=$("$tests/harness/need" python)
# Mounts of its own go with it, however it ends.
own_mounts=(unshare --mount)
"${own_mounts[@]}" true 2>/dev/null || own_mounts=()
PYTHONPATH=$tests exec "${own_mounts[@]}" "$python" -m harness.cases "$here"
