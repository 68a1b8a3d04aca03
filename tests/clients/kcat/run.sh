#!/usr/bin/env bash
# kcat (librdkafka as the distribution ships it) against the broker at $BOOTSTRAP.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../.." && pwd)

kcat=$("$tests/harness/need" kcat)
# "Version 1.7.1 (JSON, Avro, Transactions, IncrementalAssign, librdkafka 2.0.2 builtin.features=…)"
COMPACTED_TOPIC=$("$tests/harness/compacted")
export COMPACTED_TOPIC
CLIENT=$("$kcat" -V | sed -nE 's/^Version ([^ ]+) .*librdkafka ([^ ]+).*/kcat \1+librdkafka-\2/p')
PYTHONPATH=$tests:$tests/clients/python-cases CLIENT=$CLIENT exec python3 -m harness.cases "$here"
