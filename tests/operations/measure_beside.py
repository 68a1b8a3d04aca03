"""How long operations take, and what they cost acknowledgements, beside Apache Kafka doing the same.

    PYTHONPATH=tests:tests/cluster:tests/operations tests/.work/venv/bin/python tests/operations/measure_beside.py --gib 2

Three nodes (or --nodes), then another joins (expand), gets its share (rebalance), gives it back and leaves (decommission), and the first ones are restarted one
after the other, each when all replicas are in sync again (rolling restart). Both clusters are told by Kafka's own tools, with the same plans and without a throttle. Logway
copies at most 64 MiB/s of its own accord, unless --rate says more. A writer sends 500 records a second with acks=all to a topic of its own; its p99 is that of
each operation. The time of a move is from the tool's start to the last replica in sync, and has the tool's own start in it (about 2 s).
"""

import argparse
import os
import shutil
from contextlib import contextmanager

os.environ.setdefault("AGAINST", "logway")

from confluent_kafka.admin import NewTopic

from harness.apache_kafka import KafkaCluster, KafkaNode, run_tool
from harness.cluster import Cluster, Node
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S, admin_client, create_topics
from harness.ports import free_addresses
from harness.waiting import wait_until
from measure import BULK, KEPT, PARTITIONS, Phases, fill, writing
from ours import bound_copies
from tools import generated, reassign

MOVED_S = 1_800


class BesideLogway:
    name = "Logway"

    def __init__(self, count: int):
        self.cluster = Cluster("beside-logway", count)

    def begun(self):
        wait_until_all_vote(self.cluster)

    def another(self) -> Node:
        return Node("beside-logway-new", [self.cluster.node(1).nodes])


class BesideKafka:
    name = "Apache Kafka 4.3.0"

    def __init__(self, count: int):
        self.cluster = KafkaCluster("beside-kafka", count=count)

    def begun(self):
        pass

    def another(self) -> KafkaNode:
        client, = free_addresses(1)
        voters, number = self.cluster.node(1).settings["controller.quorum.voters"], len(self.cluster.nodes) + 1
        settings = {"process.roles": "broker", "node.id": str(number), "listeners": f"PLAINTEXT://{client}", "controller.quorum.voters": voters}
        node = KafkaNode("beside-kafka-new", settings)
        node.bootstrap = client
        return node


def partitions_of(bootstrap: str, topic: str) -> dict:
    return admin_client(bootstrap).list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions


def has_moved(bootstrap: str, plan: dict) -> bool:
    """Whether each partition has the replicas of a plan and no other, all in sync."""
    for one in plan["partitions"]:
        known = partitions_of(bootstrap, one["topic"])[one["partition"]]
        if known.replicas != one["replicas"] or sorted(known.isrs) != sorted(one["replicas"]):
            return False
    return True


def is_in_sync(bootstrap: str) -> bool:
    known = [partition for topic in (BULK, KEPT) for partition in partitions_of(bootstrap, topic).values()]
    return all(partition.leader >= 0 and len(partition.isrs) == 3 for partition in known)


def move(bootstrap: str, brokers: list[int]):
    plan = generated(bootstrap, [BULK, KEPT], brokers)
    reassign(bootstrap, "--execute", plan=plan)
    wait_until(lambda: has_moved(bootstrap, plan), "all has moved", deadline_s=MOVED_S)


def unregister(bootstrap: str, number: int):
    """Takes a node out, which has stopped, as `kafka-cluster unregister` does."""
    done = run_tool("ClusterTool", "unregister", "--bootstrap-server", bootstrap, "--id", str(number), deadline_s=DEADLINE_S)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


@contextmanager
def removed(node):
    try:
        yield node
    finally:
        node.kill()
        shutil.rmtree(node.data_dir, ignore_errors=True)


def measure(beside, gib: float, rate: int | None, seconds: float):
    with beside.cluster as cluster:
        beside.begun()
        bootstrap = cluster.bootstrap
        of_bulk = {"segment.bytes": str(64 << 20), "min.insync.replicas": "1"}
        create_topics(bootstrap, NewTopic(KEPT, 3, 3, config={"min.insync.replicas": "2"}), NewTopic(BULK, PARTITIONS, 3, config=of_bulk))
        fill(bootstrap, gib)
        wait_until(lambda: is_in_sync(bootstrap), "all is in sync", deadline_s=MOVED_S)
        if rate and isinstance(beside, BesideLogway):
            bound_copies(bootstrap, rate)
        print(f"{beside.name}, {gib} GiB three times:", flush=True)
        with writing(bootstrap) as phases:
            operate(beside, cluster, phases, seconds)
        for node in cluster.nodes:
            node.kill()
            shutil.rmtree(node.data_dir, ignore_errors=True)


def operate(beside, cluster, phases: Phases, seconds: float):
    bootstrap = cluster.bootstrap
    phases.rest("before", seconds)
    first = list(range(1, len(cluster.nodes) + 1))
    number = len(first) + 1
    with removed(beside.another()) as another:
        with phases.phase("expand"):
            another.start()
            serves = lambda: number in admin_client(bootstrap).list_topics(timeout=DEADLINE_S).brokers
            wait_until(serves, "the new node serves", deadline_s=DEADLINE_S)
        with phases.phase("rebalance"):
            move(bootstrap, [*first, number])
        with phases.phase("decommission"):
            move(bootstrap, first)
            # Kafka's broker would come back.
            another.stop()
            unregister(bootstrap, number)
    for number in first:
        with phases.phase(f"restart of node {number}"):
            cluster.node(number).stop()
            cluster.node(number).start()
            wait_until(lambda: is_in_sync(bootstrap), "all is in sync", deadline_s=MOVED_S)
    phases.rest("after", seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rate", type=int)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", choices=("logway", "kafka"))
    arguments = parser.parse_args()
    for kind in (BesideLogway, BesideKafka):
        if arguments.only in (None, kind.__name__.removeprefix("Beside").lower()):
            measure(kind(arguments.nodes), arguments.gib, arguments.rate, arguments.seconds)


if __name__ == "__main__":
    main()
