#!/usr/bin/env bash
# Runs fuzz targets, each for so many seconds: run.sh SECONDS [TARGET...]
# Prints a line for each: inputs tried, code covered before and after. Fails if a promise is broken.
set -euo pipefail
cd "$(dirname "$0")"

seconds=$1
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(ls corpus))

for target in "${targets[@]}"; do
  mkdir -p "found/$target"
  log=found/$target.log
  # Zstandard may take a window of 128 MiB at once, and nothing may take more.
  cargo +nightly fuzz run --fuzz-dir . "$target" "found/$target" "corpus/$target" -- \
    -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=160 -rss_limit_mb=1024 -max_len=8192 \
    -print_final_stats=1 >"$log" 2>&1 || { tail -40 "$log" >&2; exit 1; }
  tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  covered=$(grep -o 'cov: [0-9]*' "$log" | sed -n '1p;$p' | tr -dc '0-9\n' | paste -sd ' ' | sed 's/ / to /')
  echo "$target: $tried inputs, covered $covered, $(ls "found/$target" | wc -l) inputs found"
done
