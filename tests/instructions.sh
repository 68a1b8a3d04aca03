#!/usr/bin/env bash
# How many instructions the leaf functions execute, beside leaf-benches/instructions.tsv: at most 10 % more.
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
"$tests/harness/need" valgrind >/dev/null
cd "$tests/.."
# The baseline is of what is released, which CI does not build.
unset CARGO_PROFILE_RELEASE_LTO
exec cargo bench --locked --package logway-leaf-benches --bench instructions
