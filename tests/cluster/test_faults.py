import random
import time
import unittest

from harness.seed import SEED
from written import wait_until_in_sync, written_cluster

ROUNDS = 3


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
