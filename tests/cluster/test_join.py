"""A node that cannot join says why and what to do, and leaves nothing in its directory but its own name."""

import unittest
from contextlib import ExitStack

from harness.broker import BrokerFailed
from harness.cluster import Node


class Join(unittest.TestCase):
    def setUp(self):
        self.stack = ExitStack()
        self.addCleanup(self.stack.close)
        self.founder = self.stack.enter_context(Node("join-founder", []))

    def refusal(self, node: Node) -> str:
        """What a node says that must not start."""
        with self.assertRaises(BrokerFailed) as failed:
            node.start()
        self.assertEqual(node.process.returncode, 1)
        said = str(failed.exception)
        self.assertIn("\nhint: ", said)
        return said

    def assert_empty(self, node: Node):
        left = [path.name for path in node.data_dir.iterdir()] if node.data_dir.exists() else []
        self.assertIn(left, ([], ["joining"]))

    def test_by_the_address_that_clients_know(self):
        with Node("join-clients", [self.founder.bootstrap]) as node:
            self.assertIn("the cluster has admitted this node", node.log_since_start())

    def test_a_number_that_is_taken(self):
        node = Node("join-number", [self.founder.nodes], {"node.id": "1"})
        self.assertIn("--node-id away", self.refusal(node))
        self.assert_empty(node)
        node.settings.clear()
        self.stack.enter_context(node)
        self.assertIn(" node=2 ", node.log_since_start())

    def test_addresses_of_two_clusters(self):
        other = self.stack.enter_context(Node("join-other", []))
        node = Node("join-two", [self.founder.bootstrap, other.nodes])
        said = self.refusal(node)
        self.assertIn("are of two clusters", said)
        for address in node.join:
            self.assertIn(address, said)
        self.assert_empty(node)

    def test_data_of_another_cluster(self):
        other = Node("join-data", [])
        with other:
            pass
        other.join = [self.founder.bootstrap]
        said = self.refusal(other)
        self.assertIn(f"{other.data_dir} holds the data of a node of cluster", said)
        other.join = []
        self.stack.enter_context(other)
