"""`logway bench appends` against Logway and Apache Kafka, in turn, in one run.

Both brokers are up all the time. A round runs every number of connections on one broker and then on the other; the
order changes from round to round. What counts is the ratio within a run: the machine's own speed drifts.

    python3 tests/bench/appends.py [--rounds 3] [--seconds 4] [--kafka-unsynced]
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.apache_kafka import ApacheKafka
from harness.logway import BINARY, Logway

CONNECTIONS = [1, 4, 16, 64, 128]


def appends(broker, options: list[str]) -> dict[int, dict]:
    command = [str(BINARY), "bench", "appends", "--format", "json", "--brokers", broker.bootstrap, *options]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {row["connections"]: row for row in map(json.loads, output.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--kafka-unsynced", action="store_true", help="let Kafka acknowledge without a sync")
    args = parser.parse_args()
    common = ["--seconds", str(args.seconds), "--connections", ",".join(map(str, CONNECTIONS))]
    unsynced = ["--flush-messages", str(2**63 - 1)] if args.kafka_unsynced else []
    rounds = {"logway": [], "kafka": []}
    with Logway("bench-appends") as logway, ApacheKafka("bench-appends") as kafka:
        sides = [(logway, common), (kafka, common + unsynced)]
        for number in range(args.rounds):
            for broker, options in sides if number % 2 == 0 else sides[::-1]:
                rounds[broker.kind].append(appends(broker, options))
                print(f"round {number + 1} of {args.rounds}: {broker.kind}", file=sys.stderr)
    report(rounds, "without sync" if args.kafka_unsynced else "synced")


def report(rounds: dict[str, list[dict]], kafka_is: str):
    def median(kind, connections, figure):
        return statistics.median(run[connections][figure] for run in rounds[kind])

    print("128 appenders of 2 KiB, one partition, acks=all; medians of appends/s, and of p99 in ms")
    print(f"| connections | Logway synced | Kafka {kafka_is} | ratio (least, most) | Logway p99 | Kafka p99 |")
    print("|---|---|---|---|---|---|")
    for connections in CONNECTIONS:
        pairs = zip(rounds["logway"], rounds["kafka"])
        ratios = [a[connections]["appends_per_second"] / b[connections]["appends_per_second"] for a, b in pairs]
        ours, theirs = (median(kind, connections, "appends_per_second") for kind in rounds)
        ours_ms, theirs_ms = (median(kind, connections, "p99_us") / 1000 for kind in rounds)
        spread = f"{statistics.median(ratios):.1f} ({min(ratios):.1f}, {max(ratios):.1f})"
        print(f"| {connections} | {ours:,.0f} | {theirs:,.0f} | {spread} | {ours_ms:.1f} | {theirs_ms:.1f} |")


if __name__ == "__main__":
    main()
