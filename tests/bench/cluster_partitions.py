"""What many partitions cost three nodes that have nothing to do, and how soon a node that was killed has them all again.

Three nodes on this machine, topics of 500 partitions with a replica on each node.

- *Idle*: CPU seconds of the three processes for a minute, bytes on loopback for a second, and resident memory. What other
  programs send over loopback counts as well.
- *Recovery*: after `--megabytes` of records the third node is killed, and started again on the same data when the others
  have noticed. *Ready* is when it says so, *in sync* when it is among the replicas in sync of every partition: both from the
  start of its process.

    python3 tests/bench/cluster_partitions.py [--partitions 20000] [--megabytes 10000] [--seconds 60] [--rounds 3]

Run `tests/harness/need python` first, and use its Python: tests/.work/venv/bin/python.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import Cluster
from harness.waiting import wait_until

NODES = 3
TOPIC_PARTITIONS = 500
RECORD_BYTES = 100_000
SETTLE_S = 5
DEADLINE_S = 1200


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=256, help="records of all partitions together")
    parser.add_argument("--seconds", type=float, default=20, help="how long they are left idle")
    parser.add_argument("--rounds", type=int, default=1, help="how often the node is killed")
    arguments = parser.parse_args()
    with Cluster("cluster-partitions", NODES) as cluster:
        began = time.monotonic()
        topics = create(cluster, arguments.partitions)
        print(f"{arguments.partitions} partitions of {NODES} replicas in sync after {time.monotonic() - began:.1f} s")
        print_idle(cluster, arguments.seconds)
        produce(cluster, topics, arguments.megabytes)
        wait_until(lambda: are_in_sync(cluster), "all replicas in sync", DEADLINE_S)
        print(f"{arguments.megabytes} MB of records written")
        for round in range(1, arguments.rounds + 1):
            print_recovery(cluster, round)


def create(cluster: Cluster, partitions: int) -> list[NewTopic]:
    settings = {"min.insync.replicas": "2"}
    first_partitions = range(0, partitions, TOPIC_PARTITIONS)
    topics = [
        NewTopic(f"many-{first}", min(TOPIC_PARTITIONS, partitions - first), NODES, config=settings)
        for first in first_partitions
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for topic in topics:
        admin.create_topics([topic])[topic.topic].result(DEADLINE_S)
    wait_until(lambda: are_in_sync(cluster), "all replicas in sync", DEADLINE_S)
    return topics


def are_in_sync(cluster: Cluster) -> bool:
    """Whether each partition has a leader and all its replicas in sync, as the first node knows it."""
    # A new client each time: one that asks at once after a kill may wait for the dead node.
    listed = AdminClient({"bootstrap.servers": cluster.node(1).bootstrap}).list_topics(timeout=DEADLINE_S)
    return all(
        partition.leader >= 0 and len(partition.isrs) == NODES
        for topic in listed.topics.values()
        for partition in topic.partitions.values()
    )


def print_idle(cluster: Cluster, seconds: float):
    # What follows creation, such as the writing of checkpoints, is over.
    time.sleep(SETTLE_S)
    cpu_s, loopback, began = cpu_seconds(cluster), loopback_bytes(), time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began
    cpu_s_per_minute = (cpu_seconds(cluster) - cpu_s) / took_s * 60
    bytes_per_s = (loopback_bytes() - loopback) / took_s
    resident = [node.rss_bytes() / 1e6 for node in cluster.nodes]
    print(
        f"idle for {took_s:.0f} s: {cpu_s_per_minute:.2f} CPU s a minute, {bytes_per_s / 1e3:.1f} kB/s on loopback, "
        f"resident {sum(resident):.0f} MB ({', '.join(f'{node:.0f}' for node in resident)})"
    )


def cpu_seconds(cluster: Cluster) -> float:
    """Of all nodes since they were started."""
    return sum(node.cpu_s() for node in cluster.nodes)


def loopback_bytes() -> int:
    (line,) = [line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:")]
    return int(line.partition(":")[2].split()[0])


def produce(cluster: Cluster, topics: list[NewTopic], megabytes: int):
    """As many records to each partition, as far as they go round: one partition after the other, as librdkafka takes seconds to look
    through thousands that have records."""
    failures = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    partitions = [(topic.topic, number) for topic in topics for number in range(topic.num_partitions)]
    value = os.urandom(RECORD_BYTES)
    records = megabytes * 1_000_000 // RECORD_BYTES
    for number in range(records):
        topic, partition = partitions[number * len(partitions) // records]
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: error and failures.append(error))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(DEADLINE_S)
    assert not failures and not left, f"{len(failures)} records failed, {left} unanswered: {failures[:1]}"


def print_recovery(cluster: Cluster, round: int):
    node = cluster.node(NODES)
    node.kill()
    # A replica that has just gone still counts as in sync.
    wait_until(lambda: not are_in_sync(cluster), "the others to notice", DEADLINE_S)
    began = time.monotonic()
    node.start()
    ready_s = time.monotonic() - began
    wait_until(lambda: are_in_sync(cluster), "the node in every ISR", DEADLINE_S)
    print(
        f"round {round}: ready {ready_s:.2f} s after the start, in sync with every partition after "
        f"{time.monotonic() - began:.2f} s, resident {node.rss_bytes() / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
