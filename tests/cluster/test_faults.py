import random
import re
import time
import unittest

from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster
from harness.cluster_status import status
from harness.load import DEADLINE_S, create_topics
from harness.seed import SEED
from harness.waiting import wait_until
from written import wait_until_in_sync, written_cluster

ROUNDS = 3
FENCED = re.compile(r"a broker of the cluster has changed broker=(\d) state=Fenced")
# Longer than `broker.session.timeout.ms`.
PAUSE_S = 1.5


class Faults(unittest.TestCase):
    def test_a_node_that_is_paused_loses_what_it_led_and_nothing_else(self):
        chance = random.Random(SEED)
        with written_cluster("faults-pause") as (cluster, writer):
            for _ in range(ROUNDS):
                writer.wait_for_more_acks(chance.randrange(1_000, 10_000))
                node = chance.choice(cluster.nodes)
                node.pause()
                began = time.monotonic()
                writer.wait_for_more_acks(5_000)
                print(f"went on {time.monotonic() - began:.2f} s after a node was paused")
                time.sleep(chance.random() * 2)
                node.resume()
                wait_until_in_sync(cluster)

    def test_a_controller_that_was_paused_fences_nobody(self):
        """It has heard nobody while it was stopped. The one that was elected meanwhile has."""
        with written_cluster("faults-controller") as (cluster, writer):
            # While it grows, the quorum needs the majorities of before and of then. What is committed next is behind that.
            for name in ("grown", "and-known"):
                create_topics(cluster.bootstrap, NewTopic(name, 1, 3))
            for _ in range(ROUNDS):
                controller = status(cluster.bootstrap)["controller"]
                paused = cluster.node(controller)
                others = [node for node in cluster.nodes if node is not paused]
                said = {node: len(node.log_since_start()) for node in cluster.nodes}
                paused.pause()

                def is_missed() -> bool:
                    return any(str(controller) in FENCED.findall(node.log_since_start()[said[node] :]) for node in others)

                wait_until(is_missed, f"node {controller} to be fenced", DEADLINE_S)
                paused.resume()
                wait_until_in_sync(cluster)
                writer.wait_for_more_acks(1_000)
                for node in cluster.nodes:
                    who = set(FENCED.findall(node.log_since_start()[said[node] :]))
                    self.assertLessEqual(who, {str(controller)}, node.log_since_start()[said[node] :])

    def test_the_only_voter_that_was_paused_fences_nobody(self):
        """Of two nodes the first alone votes, so nobody is elected meanwhile."""
        with Cluster("faults-only-voter", count=2) as cluster:
            voter = cluster.node(1)
            for number in range(ROUNDS):
                voter.pause()
                time.sleep(PAUSE_S)
                voter.resume()
                # When that is done, the controller has looked after the brokers.
                create_topics(cluster.bootstrap, NewTopic(f"topic-{number}", 1, 2))
                wait_until_in_sync(cluster, f"topic-{number}", count=2)
            for node in cluster.nodes:
                self.assertEqual(FENCED.findall(node.log_since_start()), [])

    def test_clean_stops_are_hardly_noticed(self):
        with written_cluster("faults-stop") as (cluster, writer):
            for node in cluster.nodes:
                writer.wait_for_more_acks(5_000)
                began = time.monotonic()
                self.assertEqual(node.stop(), 0)
                print(f"stopped in {time.monotonic() - began:.2f} s")
                writer.wait_for_more_acks(5_000)
                node.start()
                wait_until_in_sync(cluster)

    def test_all_nodes_are_killed_at_once_and_come_back(self):
        chance = random.Random(SEED)
        with written_cluster("faults-all") as (cluster, writer):
            for _ in range(ROUNDS):
                writer.wait_for_more_acks(chance.randrange(1_000, 10_000))
                for node in cluster.nodes:
                    node.kill()
                for node in cluster.nodes:
                    node.process = node.spawn()
                wait_until_in_sync(cluster)
                writer.wait_for_more_acks(1_000)
