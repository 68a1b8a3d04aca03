#!/usr/bin/env bash
# Clients that break the protocol, stall or flood, beside a polite one, against brokers of the kind $AGAINST.
# SEED=N repeats a run's sessions, SESSIONS=N sends more of them; `run.sh test_sessions.py` runs one file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)

"$tests/harness/need" kcat >/dev/null
python=$("$tests/harness/need" python)
# Brokers with TLS and SASL are those of tests/security.
PYTHONPATH=$tests:$tests/security exec "$python" -m harness.cases "$here" "$@"
