"""What transactions cost, beside Apache Kafka: three nodes of each, one cluster after the other, in pairs.

- *Copies*: `--copiers` Java clients copy a partition each into another topic, by transactions of `--records` records with
  the offset in them. *Transactions* and *records* are what is committed in a second.
- *Latency*: one record acknowledged by all, and one in a transaction of its own, from begin to the end of commit.

    python3 tests/bench/transactions.py [--rounds 2] [--copiers 4] [--records 100] [--seconds 10] [--only logway]

Run `tests/harness/need python` first, and use its Python: tests/.work/venv/bin/python.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from confluent_kafka.admin import NewTopic

from harness.apache_kafka import KafkaCluster, java, need_kafka
from harness.broker import TESTS
from harness.brokers import KINDS
from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics

RECORDS_OF_PARTITION = 50_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--copiers", type=int, default=4)
    parser.add_argument("--records", type=int, default=100, help="of a transaction")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--only", choices=KINDS, help="one broker alone")
    args = parser.parse_args()
    kinds = [args.only] if args.only else list(KINDS)
    print(f"{args.copiers} copiers, transactions of {args.records} records of 100 B, for {args.seconds} s")
    print("| broker | transactions/s | records/s | one record, ms p50, p99 | in a transaction, ms p50, p99 | CPU s |")
    print("|---|---|---|---|---|---|", flush=True)
    for number in range(args.rounds):
        for kind in kinds if number % 2 == 0 else kinds[::-1]:
            print(costs(kind, args), flush=True)


def costs(kind: str, args: argparse.Namespace) -> str:
    with Cluster("transactions", 3) if kind == "logway" else KafkaCluster("transactions") as cluster:
        if kind == "logway":
            wait_until_all_vote(cluster)
        for topic in ("source", "target"):
            create_topics(cluster.bootstrap, NewTopic(topic, args.copiers, 3, config={"min.insync.replicas": "2"}))
        cpu_s = sum(node.cpu_s() for node in cluster.nodes)
        arguments = [cluster.bootstrap, "source", "target"]
        arguments += map(str, (args.copiers, args.records, RECORDS_OF_PARTITION, args.seconds))
        command = java(need_kafka(), str(TESTS / "bench" / "TransactionCost.java"), arguments, "-Xmx512m")
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        cpu_s = sum(node.cpu_s() for node in cluster.nodes) - cpu_s
    latencies = [f"{found[name][0]:.2f}, {found[name][1]:.2f}" for name in ("plain_ms", "transactional_ms")]
    rates = [f"{found[name]:,.0f}" for name in ("transactions_per_s", "records_per_s")]
    return f"| {' | '.join([kind, *rates, *latencies, f'{cpu_s:.0f}'])} |"


if __name__ == "__main__":
    main()
