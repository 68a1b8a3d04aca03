import os
import random
import time
import unittest

from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster
from harness.load import DEADLINE_S, Writer, admin_client, assert_kept, create_topics, read_all
from harness.seed import SEED

PARTITIONS = 6
ROUNDS = int(os.environ.get("ROUNDS", "8"))
TWO_IN_SYNC = {"min.insync.replicas": "2"}


def partitions_of(cluster: Cluster, topic: str):
    return admin_client(cluster.bootstrap).list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions


def wait_until(what: str, is_reached):
    deadline = time.monotonic() + DEADLINE_S
    while not is_reached():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.05)


def wait_until_in_sync(cluster: Cluster, topic: str, count: int):
    def is_in_sync():
        partitions = partitions_of(cluster, topic).values()
        return all(partition.leader >= 0 and len(partition.isrs) == count for partition in partitions)

    wait_until(f"{count} replicas of {topic} are in sync", is_in_sync)


class Failover(unittest.TestCase):
    def test_kill_nine_of_any_node_loses_nothing_that_was_acknowledged(self):
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        with Cluster("failover-kill") as cluster:
            create_topics(cluster.bootstrap, NewTopic("kept", PARTITIONS, 3, config=TWO_IN_SYNC))
            with Writer(cluster.bootstrap, "kept", PARTITIONS) as writer:
                for round in range(ROUNDS):
                    writer.wait_for_more_acks(chance.randrange(1_000, 20_000))
                    node = chance.choice(cluster.nodes)
                    node.kill()
                    began = time.monotonic()
                    writer.wait_for_more_acks(5_000)
                    took = time.monotonic() - began
                    print(f"round {round}: {writer.acked_count()} acknowledged, went on in {took:.2f} s")
                    node.start()
                    print(f"  ready again in {node.ready_s:.2f} s")
                    wait_until_in_sync(cluster, "kept", 3)
                writer.finish()
            writer.assert_all_there()

    def test_all_but_one_are_killed_and_nothing_that_was_acknowledged_is_lost(self):
        chance = random.Random(SEED + 1)
        with Cluster("failover-all-but-one") as cluster:
            create_topics(cluster.bootstrap, NewTopic("kept", PARTITIONS, 3, config=TWO_IN_SYNC))
            # All of it is read after each round, so it must not become too much.
            with Writer(cluster.bootstrap, "kept", PARTITIONS, burst_interval_s=0.1) as writer:
                for _ in range(max(2, ROUNDS // 4)):
                    writer.wait_for_more_acks(chance.randrange(1_000, 5_000))
                    killed = chance.sample(cluster.nodes, 2)
                    for node in killed:
                        node.kill()
                    acked = writer.acked_now()
                    time.sleep(chance.random())
                    for node in killed:
                        node.process = node.spawn()
                    wait_until_in_sync(cluster, "kept", 3)
                    assert_kept(acked, read_all(cluster.bootstrap, "kept", PARTITIONS))
                    writer.wait_for_more_acks(1_000)
                writer.finish()
            writer.assert_all_there()
