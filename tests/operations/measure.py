"""What it costs acknowledgements when much is copied or read.

    PYTHONPATH=tests:tests/cluster:tests/operations tests/.work/venv/bin/python tests/operations/measure.py move --gib 50
    PYTHONPATH=tests:tests/cluster:tests/operations tests/.work/venv/bin/python tests/operations/measure.py read --gib 10

`move` makes a topic of so many GiB on one node, in segments of 64 MiB, lets another node join and moves all of it there. It tells the rate, the
processor time of both nodes, and the p99 of acknowledgements (acks=all, three replicas on disk) before, meanwhile and after. --rate N bounds the copy
to N bytes/s, instead of the default of 64 MiB/s. All 8 partitions move together, for which the disk needs room twice; --at-once N moves so many.

`read` makes such a topic on a leader and a follower, drops it from the page cache, and reads it from its beginning: from the leader, and then, again
cold, from the follower. It tells the rate of the reader and the p99 of acknowledgements of a topic that the same node leads.

Records are incompressible. --seconds is how long acknowledgements are measured before and after. The data is removed at the end.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import time
from pathlib import Path

os.environ.setdefault("AGAINST", "logway")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster, Node
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S, QUIET, Writer, admin_client, create_topics
from harness.waiting import wait_until
from ours import bound_copies, logway, spawn

GIB = 1 << 30
VALUE_BYTES = 32 << 10
PARTITIONS = 8
BULK, KEPT = "bulk", "kept"
# It need not be on the disk before it is acknowledged.
OF_BULK = {"segment.bytes": str(64 << 20), "flush.messages": "1000000", "min.insync.replicas": "1"}
RECORDS_PER_SECOND = 500
RACKS = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


def fill(bootstrap: str, gib: float) -> int:
    """Writes so much to all partitions of the topic; returns the number of records."""
    noise = random.Random(1).randbytes(8 << 20)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.size": 1 << 20, "linger.ms": 20, **QUIET})
    count, failed = int(gib * GIB / VALUE_BYTES), []
    delivered = lambda error, _: failed.append(error) if error else None
    for number in range(count):
        start = number * 4_099 % (len(noise) - VALUE_BYTES)
        while True:
            try:
                value = noise[start : start + VALUE_BYTES]
                producer.produce(BULK, value, partition=number % PARTITIONS, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush(DEADLINE_S * 10)
    if failed or len(producer):
        raise AssertionError(f"{len(failed)} records were not written: {failed[:3]}")
    return count


def read(bootstrap: str, count: int, rack: str | None = None):
    """Reads all of the topic from its beginning."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "fetch.message.max.bytes": 8 << 20}
    reader = Consumer({**settings, **({"client.rack": rack} if rack else {}), **QUIET})
    try:
        reader.assign([TopicPartition(BULK, partition, 0) for partition in range(PARTITIONS)])
        left, heard_at = count, time.monotonic()
        while left:
            messages = [message for message in reader.consume(500, timeout=0.5) if not message.error()]
            left -= len(messages)
            heard_at = time.monotonic() if messages else heard_at
            if time.monotonic() - heard_at > DEADLINE_S:
                raise AssertionError(f"{left} of {count} records did not come")
    finally:
        reader.close()


def bytes_out(node: Node) -> int:
    """What a node has sent of the topic to consumers."""
    found = re.search(rf'^logway_topic_bytes_out_total{{topic="{BULK}"}} (\d+)$', node.metrics(), re.MULTILINE)
    return int(found[1]) if found else 0


def make_cold(directory: Path):
    """Has the page cache forget a node's logs of the topic."""
    os.sync()
    for path in directory.glob(f"{BULK}-*/*.log"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Phases:
    """Names what is measured, and tells it."""

    def __init__(self, writer: Writer):
        self.writer = writer

    @contextlib.contextmanager
    def phase(self, name: str, gib: float = 0, nodes: dict[str, Node] | None = None):
        cpu = {who: node.cpu_s() for who, node in (nodes or {}).items()}
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        told = f"{name}: {took:.1f} s, p99 of acks {self.writer.p99_ms(began, began + took):.1f} ms"
        if gib:
            told += f", {gib * 1_024 / took:.0f} MiB/s"
        for who, before in cpu.items():
            told += f", {who} {(nodes[who].cpu_s() - before) / took:.2f} cores"
        print(told, flush=True)

    def rest(self, name: str, seconds: float):
        with self.phase(name):
            time.sleep(seconds)


def place(bootstrap: str, topic: str, partitions: int, to: str):
    for partition in range(partitions):
        logway(bootstrap, "cluster", "move", topic, str(partition), "--to", to, "--wait")


@contextlib.contextmanager
def writing(bootstrap: str):
    with Writer(bootstrap, KEPT, 3, records_per_second=RECORDS_PER_SECOND) as writer:
        writer.wait_for_acks(RECORDS_PER_SECOND)
        yield Phases(writer)
        writer.finish()
    writer.assert_all_there()


def measure_move(cluster: Cluster, arguments: argparse.Namespace):
    bootstrap = cluster.bootstrap
    create_topics(bootstrap, NewTopic(KEPT, 3, 3, config={"min.insync.replicas": "2"}), NewTopic(BULK, PARTITIONS, 1, config=OF_BULK))
    place(bootstrap, BULK, PARTITIONS, "1")
    fill(bootstrap, arguments.gib)
    if arguments.rate:
        bound_copies(bootstrap, arguments.rate)
    with Node("measure-4", [cluster.node(1).nodes]) as new, writing(bootstrap) as phases:
        phases.rest("before", arguments.seconds)
        with phases.phase("the move", arguments.gib, {"leader": cluster.node(1), "new node": new}):
            for first in range(0, PARTITIONS, arguments.at_once):
                together = range(first, min(first + arguments.at_once, PARTITIONS))
                moves = [spawn(bootstrap, "cluster", "move", BULK, str(partition), "--to", "4", "--wait") for partition in together]
                for move in moves:
                    if move.wait() != 0:
                        raise AssertionError(move.stderr.read().decode())
        phases.rest("after", arguments.seconds)
        shutil.rmtree(new.data_dir, ignore_errors=True)


def wait_for_leader_and_follower(bootstrap: str):
    """Waits until the first node leads all of the topic, and its follower is in sync: a disk that was too busy changes both."""
    admin = admin_client(bootstrap)

    def is_as_placed() -> bool:
        known = admin.list_topics(BULK, timeout=DEADLINE_S).topics[BULK].partitions.values()
        return all(partition.leader == 1 and len(partition.isrs) == 2 for partition in known)

    wait_until(is_as_placed, f"node 1 to lead {BULK} with a follower in sync", DEADLINE_S * 4)


def measure_read(cluster: Cluster, arguments: argparse.Namespace):
    bootstrap = cluster.bootstrap
    create_topics(bootstrap, NewTopic(KEPT, 3, 3, config={"min.insync.replicas": "2"}), NewTopic(BULK, PARTITIONS, 2, config=OF_BULK))
    place(bootstrap, KEPT, 3, "1,2,3")
    place(bootstrap, BULK, PARTITIONS, "1,2")
    logway(bootstrap, "cluster", "undrain", "1")
    count = fill(bootstrap, arguments.gib)
    with writing(bootstrap) as phases:
        phases.rest("without a reader", arguments.seconds)
        for who, number, rack in (("leader", 1, None), ("follower", 2, "rack-2")):
            make_cold(cluster.node(number).data_dir)
            wait_for_leader_and_follower(bootstrap)
            sent = bytes_out(cluster.node(number))
            with phases.phase(f"read from the {who}", arguments.gib, {who: cluster.node(number)}):
                read(bootstrap, count, rack)
            sent = bytes_out(cluster.node(number)) - sent
            if sent < count * VALUE_BYTES * 0.9:
                raise AssertionError(f"the {who} has sent {sent} bytes: others were read from")
        phases.rest("after", arguments.seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("move", "read"))
    parser.add_argument("--gib", type=float, default=float(os.environ.get("GIB", "50")))
    parser.add_argument("--rate", type=int)
    parser.add_argument("--at-once", type=int, default=PARTITIONS)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    measure = {"move": measure_move, "read": measure_read}[arguments.what]
    cluster = Cluster(f"measure-{arguments.what}", 3, settings=RACKS, racks=True)
    try:
        with cluster:
            wait_until_all_vote(cluster)
            measure(cluster, arguments)
    finally:
        for node in cluster.nodes:
            shutil.rmtree(node.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
