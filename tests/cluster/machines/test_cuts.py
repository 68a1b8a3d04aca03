"""Cables of a cluster's nodes are cut under a verifying load: whole, one way, and between two of three."""

import json
import os
import random
import subprocess
import sys
import time
import unittest
from contextlib import contextmanager

from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

from harness.cluster_status import status
from harness.load import DEADLINE_S, admin_client
from harness.network import WITHOUT, Network, NotPossible, is_own, on_host
from harness.seed import SEED
from harness.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "1"))
RECORDS_PER_SECOND = 2_000

# A node that is cut off is told how long it may take to answer, and takes no more than that and what its machine needs.
TIMEOUT_MS = 1_500
ANSWERED_S_MAX = 4.0

# Error codes of the protocol.
MAY_SAY = {
    6: "not the leader",
    7: "timed out",
    19: "not enough replicas",
    20: "not enough replicas after the append",
    41: "not the controller",
}


@unittest.skipUnless(is_own(), WITHOUT)
class Cuts(unittest.TestCase):
    @contextmanager
    def cluster_on(self, name: str, count: int = 3, **options):
        print(f"SEED={SEED}")
        hosted = {"count": count, "hosted": True, "records_per_second": RECORDS_PER_SECOND}
        with Network(count) as network, written_cluster(name, **hosted, **options) as (cluster, writer):
            self.network, self.cluster, self.writer = network, cluster, writer
            yield random.Random(SEED)

    def leader(self, partition: int = 0) -> int:
        topics = admin_client(self.cluster.bootstrap).list_topics(timeout=DEADLINE_S).topics
        return topics[TOPIC].partitions[partition].leader

    def controller(self) -> int:
        return status(self.cluster.bootstrap)["controller"]

    def goes_on(self, deadline_s: float = DEADLINE_S) -> float:
        """Waits until each partition has acknowledgements anew; says how long that took."""
        began = time.monotonic()
        before = [len(partition) for partition in self.writer.acked]
        wait_until(
            lambda: not self.writer.errors and all(len(now) > then + 10 for now, then in zip(self.writer.acked, before)),
            f"acknowledgements in each partition; errors: {self.writer.errors[:3]}",
            deadline_s,
        )
        return time.monotonic() - began

    def asks_on_its_side(self, host: int, partition: int) -> subprocess.Popen:
        node = self.cluster.node(host)
        script = os.path.join(os.path.dirname(__file__), "minority.py")
        command = [*on_host(host), sys.executable, script, node.bootstrap, TOPIC, str(partition), str(TIMEOUT_MS)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def check_refusals(self, asking: subprocess.Popen, leads: bool) -> dict:
        """Nothing is promised that a minority cannot keep, in bounded time; who led still serves what was committed."""
        out, err = asking.communicate(timeout=2 * DEADLINE_S)
        self.assertEqual(asking.returncode, 0, err)
        answers = json.loads(out)
        for what in ("produce", "create"):
            error, took_s = answers[what]
            self.assertIn(error, MAY_SAY, answers)
            self.assertLess(took_s, ANSWERED_S_MAX, answers)
        (error, _, length), took_s = answers["fetch"]
        if leads:
            self.assertEqual(error, 0, answers)
            self.assertGreater(length, 0, answers)
        self.assertLess(took_s, ANSWERED_S_MAX, answers)
        return answers

    def test_a_leader_that_is_cut_off_promises_nothing_and_the_others_go_on(self):
        with self.cluster_on("cuts-leader"):
            for _ in range(ROUNDS):
                self.goes_on()
                for find in (self.leader, self.controller):
                    who = find()
                    led = [id for id in range(PARTITIONS) if self.leader(id) == who]
                    partition = led[0] if led else 0
                    self.network.unplug(who)
                    at_once = self.asks_on_its_side(who, partition)
                    print(f"node {who} cut off: all partitions went on {self.goes_on():.2f} s later")
                    print(f"  it said at once: {self.check_refusals(at_once, bool(led))}")
                    print(f"  and afterwards: {self.check_refusals(self.asks_on_its_side(who, partition), bool(led))}")
                    self.network.heal()
                    wait_until_in_sync(self.cluster)

    def test_cuts_one_way_and_between_two_of_three(self):
        with self.cluster_on("cuts-partly") as chance:
            for _ in range(ROUNDS):
                for kind in ("one way", "between two"):
                    self.goes_on()
                    leader = self.leader()
                    follower = chance.choice([node for node in (1, 2, 3) if node != leader])
                    cut = self.network.part if kind == "between two" else self.network.block
                    pair = chance.choice([(leader, follower), (follower, leader)])
                    cut(*pair)
                    print(f"{kind}, {pair[0]} to {pair[1]}, leader {leader}: went on {self.goes_on():.2f} s later")
                    self.goes_on()
                    self.network.heal()
                    wait_until_in_sync(self.cluster)

    def test_a_minority_of_five_is_cut_off(self):
        self.cut_minorities_off(5)

    def test_a_minority_of_nine_is_cut_off(self):
        """Five of them vote, two of these are cut off."""
        self.cut_minorities_off(9)

    def cut_minorities_off(self, count: int):
        majority = count // 2 + 1
        config = {"min.insync.replicas": str(majority)}
        with self.cluster_on(f"cuts-{count}", count, replicas=count, config=config) as chance:
            nodes = lambda: status(self.cluster.bootstrap)["nodes"]
            for _ in range(ROUNDS):
                self.goes_on()
                voters = [node["id"] for node in nodes() if node["voter"]]
                others = [node["id"] for node in nodes() if not node["voter"]]
                cut_off = chance.sample(voters, 2) + chance.sample(others, count - majority - 2)
                for host in cut_off:
                    self.network.unplug(host)
                print(f"{cut_off} of {count} cut off: went on {self.goes_on():.2f} s later")
                self.network.heal()
                wait_until_in_sync(self.cluster, count=count)

    def test_a_network_that_loses_and_delays(self):
        with self.cluster_on("cuts-loss"):
            self.network.lose(2)
            print(f"2 % lost: went on {self.goes_on():.2f} s later, and {self.goes_on():.2f} s")
            try:
                self.network.delay(20)
            except NotPossible as reason:
                print(f"no delay: {reason}")
            else:
                print(f"and 20 ms late: went on {self.goes_on():.2f} s later, and {self.goes_on():.2f} s")
            self.network.heal()
            wait_until_in_sync(self.cluster)
