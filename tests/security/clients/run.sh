#!/usr/bin/env bash
# Every client of tests/clients at a broker with TLS, passwords, tokens and ACLs: it gets in, or says why it does not.
# `run.sh NAME…` tries these clients only.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

python=$("$tests/harness/need" python)
PYTHONPATH=$tests:$tests/security exec "$python" "$here/matrix.py" "$@"
