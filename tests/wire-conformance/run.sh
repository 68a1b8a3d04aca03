#!/usr/bin/env bash
# Proves the wire codec against Apache Kafka's own classes, byte for byte, both ways:
#
# 1. Java writes every message at every version, with defaults and with random values; our codec reads and rewrites it.
# 2. We write random messages, from the definitions; our codec and Java read and rewrite them.
#
#   run.sh            SEED=1 SAMPLES=20 by default: samples per message and version
#   run.sh --golden   writes the samples that the codec's own tests read, one of each kind
set -euo pipefail

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
work=$root/tests/.work/wire-conformance
seed=${SEED:-1}
samples=${SAMPLES:-20}

mvn --batch-mode --quiet process-classes >&2

java_side() {
    java -cp "$work/classes:$work/lib/*" io.logway.wire.Conformance "$@"
}

rust_side() {
    (cd "$root" && LOGWAY_WIRE_SAMPLES=$1 cargo test --quiet --test samples -- --nocapture)
}

if [ "${1:-}" = --golden ]; then
    java_side generate "$seed" 1 "$root/crates/wire/tests/samples.txt"
    exit
fi

echo "seed $seed, $samples random samples per version (SEED=$seed SAMPLES=$samples repeats this run)"

echo "written by Java:"
java_side generate "$seed" "$samples" "$work/java.txt"
rust_side "$work/java.txt"

echo "written from the definitions:"
(cd "$root" && cargo xtask wire-samples --seed "$seed" --samples "$samples" \
    --clients-jar "$work/lib/kafka-clients-4.3.0.jar" \
    --group-coordinator-jar "$work/lib/kafka-group-coordinator-4.3.0.jar" \
    --transaction-coordinator-jar "$work/lib/kafka-transaction-coordinator-4.3.0.jar" --out "$work/rust.txt")
rust_side "$work/rust.txt"
java_side verify "$work/rust.txt"
