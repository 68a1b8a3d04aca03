import os
import random
import time
import unittest

from harness.load import assert_kept, read_all
from harness.seed import SEED
from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

ROUNDS = int(os.environ.get("ROUNDS", "8"))


class Failover(unittest.TestCase):
    def test_kill_nine_of_any_node_loses_nothing_that_was_acknowledged(self):
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        with written_cluster("failover-kill") as (cluster, writer):
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
                wait_until_in_sync(cluster)

    def test_all_but_one_are_killed_and_nothing_that_was_acknowledged_is_lost(self):
        chance = random.Random(SEED + 1)
        # All of it is read after each round, so it must not become too much.
        with written_cluster("failover-all-but-one", burst_interval_s=0.1) as (cluster, writer):
            for _ in range(max(2, ROUNDS // 4)):
                writer.wait_for_more_acks(chance.randrange(1_000, 5_000))
                killed = chance.sample(cluster.nodes, 2)
                for node in killed:
                    node.kill()
                acked = writer.acked_now()
                time.sleep(chance.random())
                for node in killed:
                    node.process = node.spawn()
                wait_until_in_sync(cluster)
                assert_kept(acked, read_all(cluster.bootstrap, TOPIC, PARTITIONS))
                writer.wait_for_more_acks(1_000)
