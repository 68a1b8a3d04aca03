"""Nodes of a secure cluster: who has a join token gets in, and nobody else."""

import json
import socket
import ssl
import time
import unittest
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness import shapes
from harness.broker import BrokerFailed
from harness.cluster import Node
from harness.waiting import wait_until
from harness.secured import librdkafka
from secure_node import SecureNode

TIMEOUT_S = 20
RECORDS = 500


class Nodes(unittest.TestCase):
    def setUp(self):
        self.stack = ExitStack()
        self.addCleanup(self.stack.close)
        self.founder = self.stack.enter_context(SecureNode("secure-founder"))

    def refusal(self, node: Node) -> str:
        """What a node says that must not start."""
        with self.assertRaises(BrokerFailed) as failed:
            node.start()
        self.assertEqual(node.process.returncode, 1)
        return str(failed.exception)

    def three(self) -> list[SecureNode]:
        token = self.founder.new_token(uses=2)
        names = ["secure-second", "secure-third"]
        return [self.founder, *(self.stack.enter_context(SecureNode(name, token)) for name in names)]

    def produce(self, first: int):
        bootstrap = {"bootstrap.servers": ",".join(node.bootstrap for node in self.nodes)}
        producer = Producer({**librdkafka(self.founder.files), **bootstrap, "acks": "all"})
        for number in range(first, first + RECORDS):
            producer.produce("t", str(number))
        self.assertEqual(producer.flush(TIMEOUT_S), 0)

    def consume(self, count: int) -> set[str]:
        bootstrap = {"bootstrap.servers": ",".join(node.bootstrap for node in self.nodes)}
        group = {"group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({**librdkafka(self.founder.files), **bootstrap, **group})
        consumer.subscribe(["t"])
        read, deadline = [], time.monotonic() + TIMEOUT_S
        while len(read) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                read.append(message.value().decode())
        consumer.close()
        self.assertEqual(len(read), len(set(read)))
        return set(read)

    def test_three_nodes_of_four_commands_go_on_without_one(self):
        self.nodes = self.three()
        self.assertEqual(self.founder.tokens(), [], "it is used up")
        self.founder.logway("topic", "create", "t", "-p", "3")
        self.produce(0)
        # Its replicas are at the others, and it comes back as it was begun, with a token that is used up.
        self.nodes[1].kill()
        self.produce(RECORDS)
        self.nodes[1].start()
        self.founder.kill()
        self.produce(2 * RECORDS)
        self.assertEqual(self.consume(3 * RECORDS), {str(number) for number in range(3 * RECORDS)})
        self.founder.start()
        authorities = {(node.files / "ca.crt").read_text() for node in self.nodes}
        self.assertEqual(len(authorities), 1, "clients trust one authority for all nodes")
        modes = {path: path.stat().st_mode & 0o777 for node in self.nodes for path in node.files.iterdir()}
        self.assertEqual(set(modes.values()), {0o600}, modes)
        for node in self.nodes:
            self.assertNotIn(self.nodes[1].token, node.log_path.read_text())

    def test_a_token_admits_as_often_as_it_says(self):
        token = self.founder.new_token()
        self.stack.enter_context(SecureNode("secure-once", token))
        said = self.refusal(SecureNode("secure-twice", token))
        self.assertIn("does not admit this node: the join token is not known: it was used", said)
        self.assertIn("hint: 'logway cluster token create'", said)

    def test_what_tokens_print_is_documented(self):
        made = json.loads(self.founder.logway("cluster", "token", "create", "--format", "json"))
        [kept] = self.founder.tokens()
        self.assertEqual((kept["id"], kept["uses"], kept["expired"]), (made["id"], 1, False))
        self.founder.logway("cluster", "token", "revoke", kept["id"], "--format", "json")
        for verb in ("create", "revoke"):
            self.assertEqual(shapes.unseen(f"cluster token {verb}"), set())
        # The token itself is shown when it is made, and never again.
        self.assertEqual(shapes.unseen("cluster token list"), {".[].token"})

    def test_revoked_and_expired_tokens_admit_nobody(self):
        token = self.founder.new_token()
        [kept] = self.founder.tokens()
        self.founder.logway("cluster", "token", "revoke", kept["id"])
        self.assertIn("the join token is not known", self.refusal(SecureNode("secure-revoked", token)))
        token = self.founder.new_token()
        entries = json.loads(self.founder.logway("config", "describe", "broker", "default", "--format", "json"))
        [kept] = [entry["value"] for entry in entries if entry["name"] == "logway.join.tokens"]
        secret, expires, uses = kept.split(":")
        self.assertGreater(int(expires), time.time() * 1000)
        over = f"logway.join.tokens={secret}:{int(time.time() * 1000) - 1}:{uses}"
        self.founder.logway("config", "set", "broker", "default", over)
        self.assertIn("join token has expired", self.refusal(SecureNode("secure-expired", token)))

    def test_who_was_removed_stays_out(self):
        nodes = self.three()
        removed = nodes[2]
        port = int(removed.bootstrap.rsplit(":", 1)[1])
        number = next(node["id"] for node in self.status()["nodes"] if node["port"] == port)
        removed.kill()
        self.founder.logway("cluster", "remove", str(number), "--yes")
        self.assertEqual(len(self.status()["nodes"]), 2)
        # With all that it had: its key, the authority's, and a token that was made since.
        for token in (removed.token, self.founder.new_token()):
            removed.token = token
            removed.begin()
            self.addCleanup(removed.kill)
            wait_until(lambda: "it was removed" in removed.log_since_start(), "the node to say why", TIMEOUT_S)
            removed.kill()
        # And as a node that has lost what it was told.
        for file in ("ca.crt", "node.pem", "nodes"):
            (removed.files / file).unlink()
        removed.token = self.founder.new_token()
        self.assertIn("was removed from the cluster", self.refusal(removed))
        self.assertEqual(len(self.status()["nodes"]), 2)

    def test_a_new_node_believes_whom_it_was_told_of_until_it_has_the_metadata(self):
        admin = AdminClient(librdkafka(self.founder.files))
        # More than the first batch of metadata that a new node gets. The founder alone is known in the beginning of it.
        for number in range(400):
            acl = AclBinding(ResourceType.TOPIC, f"t{number}", ResourcePatternType.LITERAL, "User:a", "*",
                             AclOperation.READ, AclPermissionType.ALLOW)
            [made] = admin.create_acls([acl]).values()
            made.result(TIMEOUT_S)
        _, second, _ = self.three()
        # What the first one has for its administrator, the others know, too.
        profiles = (self.founder.files / "profiles.toml").read_text()
        profiles = profiles.replace(self.founder.bootstrap, second.bootstrap)
        profiles = profiles.replace(str(self.founder.files), str(second.files))
        (second.files / "profiles.toml").write_text(profiles)
        wait_until(lambda: all(node["voter"] for node in self.status()["nodes"]), "votes of all", TIMEOUT_S)
        self.founder.kill()
        second.logway("cluster", "remove", "1", "--yes")
        replacement = self.stack.enter_context(SecureNode("secure-replacement", second.new_token()))
        self.assertIn("the cluster has admitted this node", replacement.log_since_start())

    def test_a_removal_ends_all_tokens(self):
        nodes = self.three()
        self.founder.new_token(uses=5)
        nodes[2].kill()
        self.founder.logway("cluster", "remove", "3", "--yes")
        self.assertEqual(self.founder.tokens(), [])

    def test_data_of_another_cluster_and_a_token_that_is_gone(self):
        with Node("secure-data", []) as plain:
            pass
        with_data = SecureNode("secure-data-again", self.founder.new_token())
        with_data.data_dir = plain.data_dir
        self.assertIn("only an empty directory joins a cluster", self.refusal(with_data))
        [kept] = self.founder.tokens()
        self.assertEqual(kept["uses"], 1, "nothing was asked")
        token = self.founder.data_dir / "token"
        token.write_text(self.founder.new_token())
        node = self.stack.enter_context(SecureNode("secure-file", f"@{token}"))
        token.unlink()
        node.stop()
        node.start()

    def status(self) -> dict:
        return json.loads(self.founder.logway("cluster", "status", "--format", "json"))

    def test_another_authority_is_not_believed(self):
        other = self.stack.enter_context(SecureNode("secure-other"))
        token = other.new_token()
        other.kill()
        node = SecureNode("secure-foreign", token, [self.founder.nodes])
        node.begin()
        self.addCleanup(node.kill)
        wait_until(lambda: "UnknownIssuer" in node.log_since_start(), "the node to say why", TIMEOUT_S)
        self.assertFalse((node.files / "ca.crt").exists())
        # A node of another cluster, with its own certificate.
        other.token, other.join = self.founder.new_token(), []
        self.assertIn("another authority than the join token names", self.refusal(other))

    def test_nobody_joins_without(self):
        said = self.refusal(SecureNode("secure-none", "", [self.founder.bootstrap]))
        self.assertIn("joins a cluster with a join token", said)
        self.assertIn("no join token", self.refusal(SecureNode("secure-wrong", "logway-join-abc")))
        plain = Node("secure-plain", [self.founder.nodes])
        plain.begin()
        self.addCleanup(plain.kill)
        wait_until(lambda: "looking for the cluster to join" in plain.log_since_start(), "the node to say why", TIMEOUT_S)
        self.assertEqual(len(self.status()["nodes"]), 1)

    def test_what_was_secure_does_not_listen_in_the_clear(self):
        self.founder.stop()
        plain = Node("secure-again", [], data_dir=self.founder.data_dir)
        said = self.refusal(plain)
        self.assertIn("the nodes of this cluster talk by TLS", said)
        self.assertIn("hint: say --secure", said)

    def test_strangers_hold_up_no_node(self):
        host, port = self.founder.nodes.rsplit(":", 1)
        # Those that say nothing, and those that have a session and no certificate.
        idle = [self.stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(500)]
        context = ssl.create_default_context(cafile=str(self.founder.files / "ca.crt"))
        for _ in range(20):
            stranger = socket.create_connection((host, int(port)))
            stranger = context.wrap_socket(stranger, server_hostname="nodes.logway.internal")
            self.stack.enter_context(stranger)
        nodes = self.three()
        self.assertEqual(len(nodes), 3)
        self.assertEqual(len(idle), 500)


if __name__ == "__main__":
    unittest.main()
