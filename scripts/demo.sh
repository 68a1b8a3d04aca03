#!/usr/bin/env bash
# Streams a text file through a fresh broker, line by line, and reads it back with Logway's own command line and with
# kcat, before and after `kill -9`. Every copy must equal the file byte for byte, and each partition must be in order.
#
#   FILE=/path/to/a/log scripts/demo.sh     without FILE: the largest text log under /var/log
#
# The lines are spread over three partitions by key. The key is the line's number, by which the file is put together
# again from what the partitions hold.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
logway=${LOGWAY:-$root/target/release/logway}
work=$(mktemp -d "${TMPDIR:-/tmp}/logway-demo.XXXXXX")
broker=

finish() {
  local status=$?
  if [ -n "$broker" ]; then kill -9 "$broker" 2>/dev/null || true; fi
  if [ "$status" != 0 ] && [ -s "$work/broker.log" ]; then
    echo "demo: failed; the broker's own log is $work/broker.log" >&2
  else
    rm -rf "$work"
  fi
}
trap finish EXIT

say() { echo "demo: $*"; }
fail() { echo "demo: $*" >&2; exit 1; }
now_ms() { date +%s%3N; }

# The largest file under /var/log that can be read and holds text.
largest_log() {
  find /var/log -type f -readable -size +0 -printf '%s %p\n' 2>/dev/null | sort -rn | cut -d' ' -f2- |
    while read -r path; do
      if grep -Iq . "$path"; then echo "$path"; break; fi
    done
}

# Sets broker, address and ready_ms.
start_broker() {
  local began ready
  began=$(now_ms)
  : >"$work/stdout"
  "$logway" serve --data-dir "$work/data" --kafka-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 \
    >"$work/stdout" 2>>"$work/broker.log" &
  broker=$!
  until ready=$(grep -m1 '^ready ' "$work/stdout"); do
    kill -0 "$broker" 2>/dev/null || fail "the broker ended before it was ready"
    sleep 0.005
  done
  ready_ms=$(($(now_ms) - began))
  address=$(sed -E 's/.* kafka=([^ ]+).*/\1/' <<<"$ready")
}

rss_mib() { awk '/^VmRSS:/ { printf "%.1f", $2 / 1024 }' "/proc/$broker/status"; }

# "NUMBER<tab>LINE" in any order, to the file as it was.
reassemble() {
  sort -t $'\t' -k1,1n | cut -f2- | if [ "$ends_with_newline" = yes ]; then cat; else head -c -1; fi
}

read_with_logway() { "$logway" consume demo -b "$address" -o start -e -f '%k\t%v\n'; }
read_with_kcat() { kcat -b "$address" -C -t demo -o beginning -e -q -f '%k\t%s\n'; }

# Reads everything with one of the two, compares it with the file, and says how long the reading took.
read_back() {
  local reader=$1 when=$2 began
  began=$(now_ms)
  "read_with_$reader" >"$work/read"
  read_ms=$(($(now_ms) - began))
  reassemble <"$work/read" | cmp - "$work/original" || fail "$reader read something else $when"
  say "$reader, $when: all $bytes bytes are the same"
}

check_order() {
  kcat -b "$address" -C -t demo -o beginning -e -q -f '%p %k\n' |
    awk '$2 + 0 <= last[$1] { exit 1 } { last[$1] = $2 + 0 }' || fail "a partition is out of order"
}

per_second() { echo $(($1 * 1000 / ($2 > 0 ? $2 : 1))); }

"$root/tests/harness/need" kcat >/dev/null
file=${FILE:-$(largest_log)}
[ -n "$file" ] || fail "there is no text log under /var/log: name one with FILE=..."
[ ! -d "$file" ] || fail "$file is a directory: name a text file"
[ -r "$file" ] || fail "$file does not exist, or cannot be read"
cp "$file" "$work/original" # A log may grow while we look at it.
bytes=$(stat -c %s "$work/original")
lines=$(awk 'END { print NR }' "$work/original")
ends_with_newline=$([ -z "$(tail -c 1 "$work/original")" ] && echo yes || echo no)

start_broker
first_ready_ms=$ready_ms
idle_rss_mib=$(rss_mib)
say "streaming $file ($lines lines, $bytes bytes) to $address"
"$logway" topic create demo -b "$address" -p 3 >/dev/null
awk '{ print NR "\t" $0 }' "$work/original" >"$work/numbered"
began=$(now_ms)
"$logway" produce demo -b "$address" -k '\t' "$work/numbered"
produce_ms=$(($(now_ms) - began))

read_back kcat "as written"
kcat_ms=$read_ms
read_back logway "as written"
check_order
loaded_rss_mib=$(rss_mib)

say "kill -9 $broker"
# The shell would tell of the death of its own child, too.
{ kill -9 "$broker" && wait "$broker"; } 2>/dev/null || true
start_broker
read_back kcat "after the kill"
read_back logway "after the kill"
check_order
kill -TERM "$broker"
wait "$broker" || fail "the broker did not stop cleanly"
broker=

cat <<REPORT

records                $lines
bytes                  $bytes
written in             $produce_ms ms, $(per_second "$lines" "$produce_ms") rec/s, each acknowledged after its sync
read by kcat in        $kcat_ms ms, $(per_second "$lines" "$kcat_ms") rec/s
read by logway in      $read_ms ms, $(per_second "$lines" "$read_ms") rec/s
time to ready          $first_ready_ms ms
time to recover        $ready_ms ms, after kill -9
resident memory        $idle_rss_mib MiB idle, $loaded_rss_mib MiB after the load
REPORT
