#!/usr/bin/env bash
# How many instructions the leaf functions execute, beside leaf-benches/instructions.tsv: at most 10 % more.
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
"$tests/harness/need" valgrind >/dev/null
cd "$tests/.."
exec cargo bench --locked --package logway-leaf-benches --bench instructions
