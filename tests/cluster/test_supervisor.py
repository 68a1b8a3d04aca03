"""A supervisor knows command lines and nothing else: it starts all nodes at the same moment, and again when they end."""

import json
import random
import unittest

from harness.broker import READY_DEADLINE_S
from harness.cluster import Node
from harness.logway import logway
from harness.ports import free_addresses
from harness.seed import SEED
from harness.waiting import wait_until

COUNT = 3


def printed(*arguments: str, stdin: bytes = b"") -> str:
    done = logway(*arguments, stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(f"logway {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout.decode()


class Supervised:
    """Three nodes with fixed addresses. The second and the third join by the address that clients of the first know."""

    def __init__(self, name: str):
        addresses = free_addresses(2 * COUNT)
        clients, nodes = addresses[:COUNT], addresses[COUNT:]
        self.nodes = []
        for number in range(COUNT):
            node = Node(f"{name}-{number + 1}", clients[:1] if number else [])
            node.bootstrap, node.nodes = clients[number], nodes[number]
            self.nodes.append(node)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()

    def start(self, *numbers: int):
        """Starts nodes in this order without waiting between them, and returns when all are ready."""
        nodes = [self.nodes[number] for number in numbers]
        for node in nodes:
            node.begin()
        for node in nodes:
            node.wait_until_ready()

    def stop_all(self) -> list[int]:
        """Asks all for a clean end at the same moment, and returns their exit codes."""
        for node in self.nodes:
            node.process.terminate()
        return [node.process.wait(READY_DEADLINE_S) for node in self.nodes]

    def status(self, number: int) -> dict:
        done = logway("-b", self.nodes[number].bootstrap, "cluster", "status", "--format", "json")
        return json.loads(done.stdout or "{}")

    def wait_until_whole(self) -> str:
        """Waits until each node says that all are in service and in sync, and returns the one name of the cluster."""

        def is_whole():
            all_of_them = [self.status(number) for number in range(COUNT)]
            return all(
                status.get("healthy") and len([node for node in status["nodes"] if node["voter"]]) == COUNT
                for status in all_of_them
            )

        wait_until(is_whole, "all nodes are in service", deadline_s=READY_DEADLINE_S)
        (name,) = {self.status(number)["cluster_id"] for number in range(COUNT)}
        return name

    def write_lines(self) -> list[str]:
        """Writes to a topic with a replica on each node, and returns what, sorted."""
        bootstrap = self.nodes[1].bootstrap
        printed("-b", bootstrap, "topic", "create", "kept", "-p", "3", "-r", str(COUNT))
        lines = [f"line {number}" for number in range(1_000)]
        printed("-b", bootstrap, "produce", "kept", stdin="".join(f"{line}\n" for line in lines).encode())
        return sorted(lines)

    def read_lines(self) -> list[str]:
        """What is in that topic, sorted."""
        return sorted(printed("-b", self.nodes[1].bootstrap, "consume", "kept", "-o", "start", "-e").splitlines())


class Supervisor(unittest.TestCase):
    def test_nodes_that_start_at_once_become_one_cluster_and_stay_it(self):
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        order = [0, 1, 2]
        for _ in range(3):
            chance.shuffle(order)
            with Supervised("supervisor-start") as cluster, self.subTest(order=order):
                cluster.start(*order)
                name = cluster.wait_until_whole()
                self.assertEqual([node["id"] for node in cluster.status(0)["nodes"]], [1, 2, 3])
                chance.shuffle(order)
                for node in cluster.nodes:
                    node.kill()
                cluster.start(*order)
                self.assertEqual(cluster.wait_until_whole(), name)

    def test_a_member_comes_back_while_the_node_that_it_joined_is_down(self):
        with Supervised("supervisor-member") as cluster:
            cluster.start(0, 1, 2)
            name = cluster.wait_until_whole()
            cluster.nodes[0].kill()
            cluster.nodes[1].kill()
            cluster.start(1)
            self.assertEqual(cluster.status(1)["cluster_id"], name)
            cluster.start(0)
            self.assertEqual(cluster.wait_until_whole(), name)

    def test_all_that_stop_at_once_come_back(self):
        with Supervised("supervisor-stop") as cluster:
            cluster.start(2, 1, 0)
            name = cluster.wait_until_whole()
            lines = cluster.write_lines()
            self.assertEqual(cluster.stop_all(), [0] * COUNT)
            cluster.start(0, 1, 2)
            self.assertEqual(cluster.wait_until_whole(), name)
            self.assertEqual(cluster.read_lines(), lines)

    def test_a_node_that_starts_alone_sets_no_log_aside(self):
        with Supervised("supervisor-alone") as cluster:
            cluster.start(0, 1, 2)
            name = cluster.wait_until_whole()
            lines = cluster.write_lines()
            for node in cluster.nodes:
                node.kill()
            # Nobody tells it what was committed of the metadata that it has.
            alone = cluster.nodes[2]
            alone.begin()
            waits = "waiting for a majority of the cluster's voters"
            wait_until(lambda: waits in alone.log_since_start(), "it says so", deadline_s=READY_DEADLINE_S)
            cluster.start(0, 1)
            alone.wait_until_ready()
            self.assertEqual(cluster.wait_until_whole(), name)
            self.assertEqual([path for node in cluster.nodes for path in node.data_dir.glob("*-stray*")], [])
            self.assertEqual(cluster.read_lines(), lines)

    def test_a_node_whose_cluster_is_not_there_says_that_it_looks_for_it(self):
        with Supervised("supervisor-late") as cluster:
            late = cluster.nodes[1]
            late.begin()
            wait_until(lambda: "looking for the cluster to join" in late.log_since_start(), "it says so", deadline_s=10)
            cluster.start(2, 0)
            late.wait_until_ready()
            cluster.wait_until_whole()
