"""The disk under one of three nodes fills, hangs or fails. The others go on, and the node says what is wrong."""

import random
import re
import time
import unittest
from contextlib import contextmanager

from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

from harness.load import DEADLINE_S, admin_client
from harness.network import is_own
from harness.seed import SEED
from harness.volume import MEBIBYTE, Volume
from harness.waiting import wait_until

DISK_BYTES = 96 * MEBIBYTE
RECORDS_PER_SECOND = 2_000
SICK = 3
# The node that founds a cluster is its controller until something happens to it.
CONTROLLER = 1
# Other settings than `logway.replica.stall.max.ms`, which is 2 s, must not come into it.
GOES_ON_S_MAX = 10
SMALL = {"min.insync.replicas": "2", "segment.bytes": str(MEBIBYTE)}


class Disks(unittest.TestCase):
    @contextmanager
    def cluster_with_a_small_disk(self, name: str, sick: int = SICK):
        is_own()
        print(f"SEED={SEED}")
        self.disk = Volume(self, name, DISK_BYTES)
        data_dirs = [None, None, None]
        data_dirs[sick - 1] = self.disk.path / "data"
        pace = {"records_per_second": RECORDS_PER_SECOND}
        with written_cluster(name, data_dirs=data_dirs, config=SMALL, **pace) as (self.cluster, self.writer):
            self.sick = self.cluster.node(sick)
            yield
            wait_until_in_sync(self.cluster)

    def partitions(self) -> dict:
        # Of nodes that are well: one whose disk hangs may not answer.
        bootstrap = ",".join(node.bootstrap for node in self.cluster.nodes if node is not self.sick)
        return admin_client(bootstrap).list_topics(timeout=DEADLINE_S).topics[TOPIC].partitions

    def led_by_others(self) -> list[int]:
        return [id for id, partition in self.partitions().items() if partition.leader != SICK]

    def goes_on(self, partitions, deadline_s: float = DEADLINE_S) -> float:
        """Waits until each of these has acknowledgements anew; says how long that took."""
        began = time.monotonic()
        before = [len(partition) for partition in self.writer.acked]
        wait_until(
            lambda: not self.writer.errors and all(len(self.writer.acked[id]) > before[id] + 10 for id in partitions),
            f"acknowledgements in partitions {partitions}; errors: {self.writer.errors[:3]}",
            deadline_s,
        )
        return time.monotonic() - began

    def wait_until_said(self, pattern: str):
        wait_until(
            lambda: re.search(pattern, self.sick.log_since_start()),
            f"node {SICK} to say {pattern}; it said {self.sick.log_since_start()[-2_000:]}",
            DEADLINE_S,
        )

    def test_a_disk_that_hangs_holds_acknowledgements_up_for_about_2_s(self):
        self.hangs("disk-hangs", SICK)

    def test_the_disk_of_the_controller_hangs(self):
        self.hangs("controllers-disk-hangs", CONTROLLER)

    def hangs(self, name: str, sick: int):
        with self.cluster_with_a_small_disk(name, sick):
            self.goes_on(range(PARTITIONS))
            self.disk.hang()
            try:
                took = self.goes_on(range(PARTITIONS), GOES_ON_S_MAX)
                print(f"all went on {took:.2f} s after the disk of node {sick} hung")
            finally:
                self.disk.go_on()

    def test_a_disk_that_is_full(self):
        with self.cluster_with_a_small_disk("disk-fills"):
            self.goes_on(range(PARTITIONS))
            led = self.led_by_others()
            self.disk.fill()
            took = self.goes_on(led, GOES_ON_S_MAX)
            print(f"partitions {led} of others went on {took:.2f} s after the disk was full")
            self.wait_until_said(rf"no space left in {self.disk.path}/data")
            self.disk.make_room()
            print(f"all went on {self.goes_on(range(PARTITIONS)):.2f} s after there was room")

    def test_a_disk_that_fails(self):
        with self.cluster_with_a_small_disk("disk-fails"):
            self.goes_on(range(PARTITIONS))
            self.disk.fail()
            took = self.goes_on(range(PARTITIONS), GOES_ON_S_MAX)
            print(f"all went on {took:.2f} s after the disk had failed")
            self.assertGreater(self.sick.process.wait(DEADLINE_S), 0)
            self.wait_until_said(rf"log directory {self.disk.path}/data has failed")
            self.disk.mount_again()
            self.sick.start()
