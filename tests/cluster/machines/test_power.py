"""The power of all nodes is cut at once, each on a file system of its own."""

import os
import random
import unittest

from confluent_kafka.admin import NewTopic
from written import PARTITIONS, TOPIC, TWO_IN_SYNC, wait_until_in_sync, written_cluster

from harness.cluster import Cluster
from harness.load import Writer, assert_kept, create_topics, read_all
from harness.network import is_own
from harness.seed import SEED
from harness.volume import MEBIBYTE, Volume

ROUNDS = int(os.environ.get("ROUNDS", "3"))
DISK_BYTES = 256 * MEBIBYTE
RECORDS_PER_SECOND = 4_000


class Power(unittest.TestCase):
    def setUp(self):
        is_own()
        print(f"SEED={SEED}")
        self.disks = [Volume(self, f"power-{number}", DISK_BYTES) for number in (1, 2, 3)]
        self.options = {
            "data_dirs": [disk.path / "data" for disk in self.disks],
            "records_per_second": RECORDS_PER_SECOND,
        }

    def cut_and_begin_again(self, cluster, writer, chance: random.Random) -> list[list[tuple[int, int]]]:
        """Returns what was acknowledged when the last node was gone."""
        for disk in chance.sample(self.disks, 3):
            disk.cut_power()
        for node in cluster.nodes:
            node.kill()
        acked = writer.acked_now()
        for disk in self.disks:
            disk.mount_again()
        for node in chance.sample(cluster.nodes, 3):
            node.begin()
        for node in cluster.nodes:
            node.wait_until_ready()
        wait_until_in_sync(cluster)
        return acked

    def test_the_power_of_all_nodes_is_cut_at_once(self):
        """What the file systems had not written is lost. What was acknowledged with acks=all is not."""
        chance = random.Random(SEED)
        with written_cluster("power", **self.options) as (cluster, writer):
            for number in range(ROUNDS):
                writer.wait_for_more_acks(chance.randrange(500, 5_000))
                seen = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
                acked = self.cut_and_begin_again(cluster, writer, chance)
                found = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
                print(f"cut {number}: {total(acked)} acknowledged, {total(found)} found", flush=True)
                assert_kept(acked, found)
                for before, now in zip(seen, found):
                    self.assertGreaterEqual(len(now), len(before), "what a consumer saw was taken back")
        print(f"{writer.acked_count()} acknowledged in all, 0 lost, 0 doubled")

    def test_what_is_not_synced_is_lost(self):
        """So the cuts of the case above take something, and syncs are why nothing of it is missed."""
        chance = random.Random(SEED)
        with Cluster("power-unsynced", data_dirs=self.options["data_dirs"]) as cluster:
            config = {**TWO_IN_SYNC, "flush.messages": "1000000"}
            create_topics(cluster.bootstrap, NewTopic(TOPIC, PARTITIONS, 3, config=config))
            with Writer(cluster.bootstrap, TOPIC, PARTITIONS, records_per_second=RECORDS_PER_SECOND) as writer:
                writer.wait_for_acks(2_000)
                acked = self.cut_and_begin_again(cluster, writer, chance)
                # It may have written since.
                found = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
            print(f"{total(acked)} acknowledged from memory, {total(found)} found")
            with self.assertRaises(AssertionError):
                assert_kept(acked, found)


def total(partitions: list[list]) -> int:
    return sum(map(len, partitions))
