"""A group whose members are restarted one by one while records flow, by the classic protocol or by KIP-848.

The members are Java consumers of kafka-clients 4.3 with their own defaults, in one process; by the classic protocol
with the cooperative-sticky assignor. Each is closed and made anew when the group has settled after the one before: the
partitions are spread evenly, and each is being read. For each restart and partition it is known how long it was not
read at most: for partitions that stayed with their owner all the time, and for those that moved. The same was measured
at rest, before the restarts. The brokers run one after the other, in an order that changes from round to round.

    python3 tests/bench/rolling_restart.py [--protocol consumer] [--members 20] [--partitions 60] [--records 1000000]
        [--rounds 1] [--records-per-second 12500] [--down-ms 0] [--heartbeat-ms 3000] [--only logway]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.apache_kafka import java, need_kafka
from harness.broker import TESTS, WORK
from harness.brokers import KINDS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic", help="as group.protocol has it")
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--records", type=int, default=1_000_000, help="more if the restarts take longer")
    parser.add_argument("--records-per-second", type=int, default=12_500)
    parser.add_argument("--down-ms", type=int, default=0, help="how long a member stays away")
    parser.add_argument("--heartbeat-ms", type=int, default=3_000, help="by which members learn of a rebalance")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, help="one broker alone")
    args = parser.parse_args()
    kinds = [args.only] if args.only else list(KINDS)
    print(f"{args.members} members by the protocol '{args.protocol}', each down for {args.down_ms} ms; ", end="")
    print(f"{args.partitions} partitions, {args.records_per_second:,} records/s")
    print("unread for how long: ms at the median, p99 and most, over all partitions and restarts")
    print("| broker | restarts took | rebalances | revoked | stayed, unread | moved, unread | moved, without owner ", end="")
    print("| at rest, unread | records sent | lost | read twice | owned twice |")
    print("|---" * 12 + "|")
    for number in range(args.rounds):
        for kind in kinds if number % 2 == 0 else kinds[::-1]:
            print(row(kind, rolling_restart(kind, args)), flush=True)


def rolling_restart(kind: str, args: argparse.Namespace) -> dict:
    numbers = [args.members, args.partitions, args.records, args.records_per_second, args.down_ms, args.heartbeat_ms]
    pom = TESTS / "bench" / "rolling-restart" / "pom.xml"
    subprocess.run([TESTS / "harness" / "maven", pom, "compile"], check=True)
    class_path = f"{WORK}/rolling-restart/classes:{need_kafka()}"
    with KINDS[kind]("rolling-restart", settings(args)) as broker:
        arguments = [broker.bootstrap, *map(str, numbers), args.protocol]
        command = java(class_path, "io.logway.bench.RollingRestart", arguments, "-Xmx512m")
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def settings(args: argparse.Namespace) -> dict[str, str]:
    """By the newer protocol it is the broker that says how often members send heartbeats."""
    interval = {"group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"}
    return dict.fromkeys(interval, str(args.heartbeat_ms)) if args.protocol == "consumer" else {}


def row(kind: str, run: dict) -> str:
    def unread(name: str) -> str:
        count, median, p99, most = run[name]
        return f"{median:,.0f}, {p99:,.0f}, {most:,.0f} ({count:,})"

    spreads = [unread(name) for name in ("stayed", "moved", "ownerless", "at_rest")]
    lost = run["sent"] - run["refused"] - run["seen"]
    counts = [f"{count:,}" for count in (run["sent"], lost, run["seen_again"], run["owned_twice"])]
    cells = [kind, f"{run['restart_s']} s", str(run["rebalances"]), str(run["revoked"]), *spreads, *counts]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
