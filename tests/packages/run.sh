#!/usr/bin/env bash
# Packages and manifests. The Debian package is installed, used, upgraded and taken away by dpkg itself, on a copy of this system that is thrown away.
# Without root it says that it is skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/.." && pwd)
"$tests/harness/need" shlibdeps >/dev/null
python=$("$tests/harness/need" python)
PYTHONPATH=$tests exec "$python" -m harness.cases "$here" "${1:-test_*.py}"
