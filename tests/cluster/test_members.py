"""Nodes that leave a cluster and voters that people choose: by Kafka's own tools, and by `logway cluster remove`."""

import json
import subprocess
import unittest

from harness.apache_kafka import run_tool
from harness.broker import BrokerFailed
from harness.cluster import Cluster, Node
from harness.cluster_status import status, wait_until_all_vote
from harness.logway import COMMAND_DEADLINE_S, logway
from harness.waiting import wait_until

REMOVED_EXIT_CODE = 3
RECORD = b"kept\n"


def tool(name: str, *arguments: str) -> tuple[int, str]:
    """One of Kafka's tools: its exit code, and all that it says."""
    done = run_tool(name, *arguments, deadline_s=COMMAND_DEADLINE_S)
    return done.returncode, done.stdout + done.stderr


class Members(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(f"members-{self._testMethodName}", 4)
        self.cluster.__enter__()
        self.addCleanup(self.cluster.kill)
        self.bootstrap = self.cluster.node(1).bootstrap
        wait_until_all_vote(self.cluster)

    def nodes(self) -> dict[int, dict]:
        return {node["id"]: node for node in status(self.bootstrap)["nodes"]}

    def voters(self) -> set[int]:
        return {number for number, node in self.nodes().items() if node["voter"]}

    def printed(self, *arguments: str, stdin: bytes = b"") -> str:
        done = logway(*arguments, "-b", self.bootstrap, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def metadata_quorum(self, *arguments: str) -> tuple[int, str]:
        return tool("MetadataQuorumCommand", "--bootstrap-server", self.bootstrap, *arguments)

    def replication(self) -> dict[int, tuple[str, int, str]]:
        """Directory, lag and role of each node, as Kafka's tool shows them."""
        code, said = self.metadata_quorum("describe", "--replication")
        self.assertEqual(code, 0, said)
        rows = [line.split() for line in said.splitlines()[1:] if line.strip()]
        return {int(row[0]): (row[1], int(row[3]), row[-1]) for row in rows}

    def assert_is_refused(self, node: Node):
        """A node that was removed says so, and ends."""
        with self.assertRaises(BrokerFailed) as failed:
            node.start()
        self.assertEqual(node.process.returncode, REMOVED_EXIT_CODE)
        said = str(failed.exception)
        self.assertIn("was removed from the cluster", said)
        self.assertIn("\nhint: ", said)

    def test_kafkas_tool_unregisters_a_dead_broker(self):
        self.printed("topic", "create", "kept", "-r", "3", "-c", "min.insync.replicas=2")
        self.printed("produce", "kept", stdin=RECORD)
        dead = self.cluster.node(4)
        dead.kill()
        wait_until(lambda: self.nodes()[4]["state"] != "active", "it is known to be dead", COMMAND_DEADLINE_S)
        unregister = ["unregister", "--bootstrap-server", self.bootstrap, "--id"]
        code, said = tool("ClusterTool", *unregister, "4")
        self.assertEqual((code, said.strip()), (0, "Broker 4 is no longer registered."))
        self.assertNotIn(4, self.nodes())
        code, said = tool("ClusterTool", *unregister, "4")
        self.assertNotEqual(code, 0)
        self.assertIn("BrokerIdNotRegistered", said)
        self.assert_is_refused(dead)
        self.assertEqual(self.printed("consume", "kept", "-o", "start", "-e"), RECORD.decode())

    def test_kafkas_tool_takes_a_vote_and_gives_it_back(self):
        leader = status(self.bootstrap)["controller"]
        number = next(iter(sorted(self.voters() - {leader})))
        before = self.replication()
        self.assertTrue(all(lag >= 0 for _, lag, _ in before.values()), before)
        directory = before[number][0]
        remove = ["remove-controller", "--controller-id", str(number), "--controller-directory-id"]
        code, said = self.metadata_quorum(*remove, "AAAAAAAAAAAAAAAAAAAAAQ")
        self.assertNotEqual(code, 0)
        self.assertIn("VoterNotFound", said)
        code, said = self.metadata_quorum(*remove, directory)
        self.assertEqual(code, 0, said)
        wait_until(lambda: len(self.voters()) == 3 and number not in self.voters(), "another one votes instead", COMMAND_DEADLINE_S)

        node = self.cluster.node(number)
        properties = node.directory / "controller.properties"
        # What Kafka's tool takes from the configuration of the controller that is to vote.
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.listener.names": "NODE",
            "listeners": f"NODE://{node.nodes}",
            "advertised.listeners": f"NODE://{node.nodes}",
            "log.dirs": str(node.data_dir),
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        add = ["--command-config", str(properties), "add-controller"]
        code, said = self.metadata_quorum(*add)
        self.assertEqual(code, 0, said)
        self.assertIn(number, self.voters())
        code, said = self.metadata_quorum(*add)
        self.assertNotEqual(code, 0)
        self.assertIn("DuplicateVoter", said)

    def test_logway_removes_a_node_that_lives(self):
        leader = status(self.bootstrap)["controller"]
        self.bootstrap = next(node for number, node in enumerate(self.cluster.nodes, 1) if number != leader).bootstrap
        self.printed("topic", "create", "alone", "-p", "8", "-r", "1")
        remove = ["cluster", "remove", str(leader)]
        plan = logway(*remove, "-b", self.bootstrap, "--format", "json")
        shown = json.loads(plan.stdout)
        self.assertEqual((plan.returncode, shown["removed"], len(shown["offline_partitions"])), (1, False, 2))
        refused = logway(*remove, "--yes", "-b", self.bootstrap)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--force", refused.stderr.decode())
        self.assertIn(leader, self.nodes())
        self.printed("topic", "delete", "alone")
        self.printed("topic", "create", "kept", "-p", "8", "-r", "3")
        self.assertIn("REMOVED           no", self.printed(*remove))
        self.assertIn(leader, self.nodes(), "nothing was done yet")
        self.assertIn("REMOVED           yes", self.printed(*remove, "--yes"))
        self.assertNotIn(leader, self.nodes())
        node = self.cluster.node(leader)
        self.assertEqual(node.process.wait(COMMAND_DEADLINE_S), REMOVED_EXIT_CODE)
        self.assertIn("was removed from the cluster", node.log_since_start())
        self.assert_is_refused(node)
        wait_until(lambda: len(self.voters()) == 3, "another one votes instead", COMMAND_DEADLINE_S)
        self.printed("produce", "kept", stdin=RECORD)
        unknown = logway(*remove, "-b", self.bootstrap)
        self.assertEqual(unknown.returncode, 1)
        self.assertIn(f"the cluster has no node {leader}", unknown.stderr.decode())
