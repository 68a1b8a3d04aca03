"""Two brokers and a third machine that only votes: each of the three may die, and the cluster goes on."""

import json
import random
import unittest
import urllib.request
from urllib.error import HTTPError

from confluent_kafka.admin import AdminClient, NewTopic

from harness.broker import BrokerFailed
from harness.cluster import Cluster, Node
from harness.cluster_status import status
from harness.load import DEADLINE_S, Writer, create_topics
from harness.logway import logway
from harness.seed import SEED
from harness.waiting import wait_until
from written import CLIENT

VOTER = ("--role", "voter")
TOPIC, PARTITIONS = "kept", 4


class Voter(unittest.TestCase):
    def setUp(self):
        # Where one of two brokers is enough, a topic takes records when the other one is dead.
        self.cluster = Cluster(f"voter-{self._testMethodName}", 2)
        self.cluster.__enter__()
        self.addCleanup(self.cluster.kill)
        self.brokers = list(self.cluster.nodes)
        self.bootstrap = self.cluster.bootstrap
        self.voter = Node(f"voter-{self._testMethodName}-3", [self.brokers[0].nodes], flags=VOTER)
        self.addCleanup(self.voter.kill)
        self.voter.start()
        wait_until(lambda: self.voters() == {1, 2, 3}, "all three vote", deadline_s=DEADLINE_S)

    def nodes(self, bootstrap: str | None = None) -> dict[int, dict]:
        return {node["id"]: node for node in status(bootstrap or self.bootstrap)["nodes"]}

    def voters(self) -> set[int]:
        return {number for number, node in self.nodes().items() if node["voter"]}

    def said(self, *arguments: str, code: int = 1) -> str:
        """What a command says on stderr that does not do what it is told."""
        done = logway("cluster", *arguments, "-b", self.bootstrap)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr.decode()

    def assert_fails(self, node: Node, told: str):
        with self.assertRaises(BrokerFailed) as failed:
            node.start()
        self.assertEqual(node.process.returncode, 1)
        self.assertIn(told, str(failed.exception))
        self.assertIn("\nhint: ", str(failed.exception))

    def ready_code(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{self.voter.http}/health/ready", timeout=DEADLINE_S) as answer:
                return answer.status
        except HTTPError as error:
            return error.code

    def test_each_of_the_three_dies_under_load(self):
        print(f"SEED={SEED}")
        config = {"min.insync.replicas": "1"}
        create_topics(self.bootstrap, NewTopic(TOPIC, PARTITIONS, 2, config=config))
        nodes = [*self.brokers, self.voter]
        random.Random(SEED).shuffle(nodes)
        with Writer(self.bootstrap, TOPIC, PARTITIONS, client=CLIENT) as writer:
            for node in nodes:
                writer.wait_for_more_acks(1_000)
                node.kill()
                # Of the two that are left one leads the quorum, and a broker leads all partitions.
                writer.wait_for_more_acks(1_000)
                node.start()
                wait_until(lambda: status(self.bootstrap)["healthy"], "all is well again", deadline_s=DEADLINE_S)
            writer.finish()
        writer.assert_all_there()
        self.assertEqual([number for number, node in self.nodes().items() if not node["broker"]], [3])

    def test_it_holds_nothing_and_is_shown_as_what_it_is(self):
        create_topics(self.bootstrap, NewTopic(TOPIC, PARTITIONS, 2))
        shown = self.nodes()
        self.assertEqual([(node["broker"], node["safe_to_stop"]) for node in shown.values()], [(True, True)] * 2 + [(False, True)])
        self.assertEqual(shown[3]["port"], int(self.voter.nodes.rsplit(":", 1)[1]))
        self.assertEqual(self.ready_code(), 200)
        metadata = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=DEADLINE_S)
        self.assertEqual(set(metadata.brokers), {1, 2})
        # Nothing is put there, by whoever asks.
        with self.assertRaisesRegex(Exception, "Replication factor 3 is larger"):
            create_topics(self.bootstrap, NewTopic("three", 1, 3))
        self.assertIn("no broker 3 is registered", self.said("move", TOPIC, "0", "--to", "1,3"))
        planned = logway("cluster", "rebalance", "--format", "json", "-b", self.bootstrap)
        self.assertEqual([node["node"] for node in json.loads(planned.stdout)["nodes"]], [1, 2])
        for command in ("drain", "decommission"):
            self.assertIn("node 3 only votes", self.said(command, "3"))
        # Without it, two voters need each other.
        self.voter.kill()
        wait_until(lambda: not self.nodes()[1]["safe_to_stop"], "nobody is spared", deadline_s=DEADLINE_S)
        self.assertIn("voters that it needs", self.nodes()[1]["unsafe_because"])
        self.assertFalse(status(self.bootstrap)["healthy"])
        self.voter.start()
        wait_until(lambda: self.nodes()[1]["safe_to_stop"], "it votes again", deadline_s=DEADLINE_S)
        self.assertEqual(logway("cluster", "remove", "3", "--yes", "-b", self.bootstrap).returncode, 0)
        self.voter.process.wait(DEADLINE_S)
        self.assertNotIn(3, self.nodes())

    def test_a_broker_with_replicas_does_not_become_one(self):
        create_topics(self.bootstrap, NewTopic(TOPIC, PARTITIONS, 2))
        broker = self.brokers[1]
        broker.stop()
        broker.flags = VOTER
        self.assert_fails(broker, f"this node cannot be a voter, which holds no replicas: its log directories hold {PARTITIONS}")
        broker.flags = ()
        broker.start()
        # Nor does an empty directory in its place: its replicas would be nowhere.
        broker.kill()
        other = Node("voter-in-place", [self.brokers[0].nodes], flags=(*VOTER, "--node-id", "2", "--replace"))
        self.addCleanup(other.kill)
        self.assert_fails(other, "node 2 cannot be replaced: it was a broker, and this is a voter")
        broker.start()
        # A lost voter is replaced by a voter.
        self.voter.kill()
        new = Node("voter-new", [self.brokers[0].nodes], flags=(*VOTER, "--node-id", "3", "--replace"))
        self.addCleanup(new.kill)
        new.start()
        wait_until(lambda: self.voters() == {1, 2, 3}, "all three vote", deadline_s=DEADLINE_S)

    def test_it_becomes_a_broker_and_not_a_voter_again(self):
        self.voter.stop()
        self.voter.flags = ()
        self.voter.start()
        self.assertTrue(self.nodes()[3]["broker"])
        create_topics(self.bootstrap, NewTopic("three", 1, 3))
        self.voter.stop()
        self.voter.flags = VOTER
        self.assert_fails(self.voter, "cannot be a voter")

    def test_it_founds_no_cluster_and_serves_no_clients(self):
        self.assert_fails(Node("voter-alone", [], flags=VOTER), "a voter joins a cluster, and none was named")
        serving = Node("voter-serving", [self.brokers[0].nodes], {"kinesis.listen": "127.0.0.1:0"}, flags=VOTER)
        self.assert_fails(serving, "a voter serves no clients, and kinesis.listen is set")
