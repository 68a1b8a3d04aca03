"""Each operation on a cluster under a verifying load, while one node is killed: the one that it is about, the controller, or another one.

ALL=1 tries every pair; without it each operation has one of the three, chosen by the seed. NODES=N has so many nodes, at least 4. Prints how long
each took, and the p99 of acknowledgements before and meanwhile.
"""

import os
import random
import time
import unittest

from harness.broker import BrokerFailed
from harness.cluster import Node
from harness.cluster_status import status
from harness.load import DEADLINE_S
from harness.seed import SEED
from harness.waiting import wait_until
from ours import bound_copies, ended, logway, spawn, unbound_copies
from test_ours import wait_until_fenced
from test_tools import partitions_of, replicas_of
from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

VICTIMS = ("executing", "controller", "bystander")
RECORDS_PER_SECOND = 2_000
NODES = int(os.environ.get("NODES", "4"))


class Operation:
    """One operation on a cluster. `executing` is the node that it is about."""

    def __init__(self, case: unittest.TestCase, cluster, name: str):
        self.case, self.cluster, self.name = case, cluster, name
        self.controller = status(cluster.bootstrap)["controller"]
        self.others = [number for number in range(1, len(cluster.nodes) + 1) if number != self.controller]
        self.process, self.arguments = None, ()

    @property
    def bootstrap(self) -> str:
        """Nodes that are not killed and do not leave: whoever asks goes on asking."""
        spared = [node for node in self.cluster.nodes if node.is_running()]
        return ",".join(node.bootstrap for node in spared)

    def prepare(self):
        """What has to be so before it can begin."""

    def begin(self):
        raise NotImplementedError

    def restart(self, number: int):
        self.cluster.node(number).start()

    def check(self, restarted: int):
        """What is so when it is done. `restarted` is who was killed."""

    def command(self, *arguments: str):
        self.arguments = arguments
        self.process = spawn(self.bootstrap, *arguments)

    def finish(self):
        """Waits for the command. One that was cut off is given once more: what it has begun goes on all the same."""
        if self.process is None:
            return
        try:
            ended(self.arguments, self.process)
        except AssertionError as error:
            print(f"asked again: {error}")
            logway(self.bootstrap, *self.arguments)

    def new_node(self, *flags: str) -> Node:
        node = Node(f"{self.cluster.name}-new", [node.nodes for node in self.cluster.nodes if node.is_running()], flags=flags)
        self.case.addCleanup(node.kill)
        return node

    def begun(self):
        has_begun = lambda: self.process.poll() is not None or logway(self.bootstrap, "cluster", "moves")
        wait_until(has_begun, f"{self.name} has begun", deadline_s=DEADLINE_S)


class Expand(Operation):
    def begin(self):
        self.cluster.nodes.append(self.new_node())
        self.executing = len(self.cluster.nodes)
        self.cluster.node(self.executing).start()
        self.command("cluster", "rebalance", "--yes", "--wait")
        self.begun()

    def check(self, restarted: int):
        # A plan that was made while a node was dead may have passed it over.
        logway(self.bootstrap, "cluster", "rebalance", "--yes", "--wait")
        held = lambda: sum(self.executing in replicas for replicas in replicas_of(self.bootstrap).values())
        wait_until(lambda: held() > 0, "the new node has a share", deadline_s=DEADLINE_S)


class Rebalance(Operation):
    def prepare(self):
        self.executing = self.others[-1]
        kept = [number for number in range(1, NODES + 1) if number != self.executing]
        for partition in range(PARTITIONS):
            # In turn, so that those are even.
            to = ",".join(str(kept[(partition + place) % len(kept)]) for place in range(3))
            logway(self.bootstrap, "cluster", "move", TOPIC, str(partition), "--to", to, "--wait")

    begin = lambda self: (self.command("cluster", "rebalance", "--yes", "--wait"), self.begun())
    check = Expand.check


class Drain(Operation):
    def begin(self):
        self.executing = self.others[0]
        self.command("cluster", "drain", str(self.executing))

    def check(self, restarted: int):
        leads = lambda: sum(it.leader == self.executing for it in partitions_of(self.bootstrap).values())
        # A start ends it.
        if restarted != self.executing:
            wait_until(lambda: leads() == 0, "others lead", deadline_s=DEADLINE_S)
        logway(self.bootstrap, "cluster", "undrain", str(self.executing))
        wait_until(lambda: leads() > 0, "it leads again", deadline_s=DEADLINE_S)


class Decommission(Operation):
    @property
    def bootstrap(self) -> str:
        nodes = [node for number, node in enumerate(self.cluster.nodes, 1) if number != self.executing and node.is_running()]
        return ",".join(node.bootstrap for node in nodes)

    def begin(self):
        self.executing = self.others[-1]
        self.command("cluster", "decommission", str(self.executing), "--yes")
        self.begun()

    def restart(self, number: int):
        try:
            super().restart(number)
        except BrokerFailed as failed:
            # Others have had all of it meanwhile.
            if number != self.executing or "was removed from the cluster" not in str(failed):
                raise

    def check(self, restarted: int):
        self.case.assertNotIn(self.executing, {node["id"] for node in status(self.bootstrap)["nodes"]})
        for replicas in replicas_of(self.bootstrap).values():
            self.case.assertTrue(self.executing not in replicas and len(replicas) == 3, replicas)
        self.cluster.nodes.pop(self.executing - 1).kill()


class Replace(Operation):
    def begin(self):
        self.executing = self.others[-1]
        self.cluster.node(self.executing).kill()
        wait_until_fenced(self.bootstrap, self.executing)
        node = self.new_node("--node-id", str(self.executing), "--replace")
        node.start()
        self.cluster.nodes[self.executing - 1] = node


OPERATIONS = {"expand": Expand, "rebalance": Rebalance, "drain": Drain, "decommission": Decommission, "replace": Replace}


class KillEach(unittest.TestCase):
    def run_one(self, name: str):
        chance = random.Random(f"{SEED} {name}")
        victims = VICTIMS if os.environ.get("ALL") else (chance.choice(VICTIMS),)
        for victim in victims:
            with self.subTest(victim=victim, seed=SEED):
                self.try_one(name, victim, chance)

    def try_one(self, name: str, victim: str, chance: random.Random):
        options = {"count": NODES, "records_per_second": RECORDS_PER_SECOND}
        with written_cluster(f"kill-{name}-{victim}", **options) as (cluster, writer):
            operation = OPERATIONS[name](self, cluster, name)
            operation.prepare()
            before = time.monotonic()
            writer.wait_for_more_acks(2 * RECORDS_PER_SECOND)
            # The bound makes it last, so that it is hit in the middle.
            bound_copies(cluster.bootstrap, 200_000)
            began = time.monotonic()
            operation.begin()
            time.sleep(chance.random() / 2)
            others = [number for number in operation.others if number != operation.executing]
            number = {"executing": operation.executing, "controller": operation.controller, "bystander": others[0]}[victim]
            killed = cluster.node(number)
            killed.kill()
            time.sleep(chance.random() * 2)
            operation.restart(number)
            wait_until(lambda: status(operation.bootstrap)["has_controller"], "there is a controller", deadline_s=DEADLINE_S)
            unbound_copies(operation.bootstrap)
            operation.finish()
            operation.check(number)
            wait_until_in_sync(cluster)
            done = time.monotonic()
            writer.wait_for_more_acks(500)
            p99 = writer.p99_ms(before, began), writer.p99_ms(began, done)
            print(f"{name}, {victim} killed: {done - began:.1f} s; p99 of acks {p99[0]:.0f} ms before, {p99[1]:.0f} ms meanwhile")

    def test_expand(self):
        self.run_one("expand")

    def test_rebalance(self):
        self.run_one("rebalance")

    def test_drain(self):
        self.run_one("drain")

    def test_decommission(self):
        self.run_one("decommission")

    def test_replace(self):
        self.run_one("replace")
