"""The audit log: who changed something or was refused, and who was not believed."""

import json
import unittest

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from secure import SecureLogway

TIMEOUT_S = 10


class Audit(unittest.TestCase):
    def test_changes_and_strangers_are_in_it_and_nobody_else_is(self):
        broker = SecureLogway("security-audit")
        path = broker.directory / "audit.log"
        broker.settings["logway.audit.log.file"] = str(path)
        with broker:
            broker.add_user("alice")
            broker.allow("alice", "--topic", "a-", "--prefix", "--operation", "create,write")
            alice = AdminClient(broker.client("SASL_SSL", "SCRAM-SHA-256", "alice"))
            alice.create_topics([NewTopic("a-1", 1)])["a-1"].result(TIMEOUT_S)
            with self.assertRaises(KafkaException):
                alice.create_topics([NewTopic("b-1", 1)])["b-1"].result(TIMEOUT_S)
            stranger = {**broker.client("SASL_SSL", "PLAIN", "alice", password="a-word-for-no-log"), "log_level": 0}
            with self.assertRaises(KafkaException):
                AdminClient(stranger).list_topics(timeout=2)
            alice.list_topics(timeout=TIMEOUT_S)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual({line["target"] for line in lines}, {"logway_audit"})
        changes = [line["fields"] for line in lines if line["message"] == "authorization"]
        seen = {(change["principal"], change["operation"], change["resource"], change["is_allowed"]) for change in changes}
        self.assertIn(("User:alice", "CREATE", "a-1", True), seen)
        self.assertIn(("User:alice", "CREATE", "b-1", False), seen)
        self.assertIn(("User:ANONYMOUS", "ALTER", "kafka-cluster", True), seen)
        self.assertLessEqual({operation for _, operation, _, _ in seen}, {"CREATE", "DELETE", "ALTER", "ALTER_CONFIGS"})
        failures = [line["fields"] for line in lines if line["message"] == "authentication failed"]
        self.assertTrue(failures)
        for failure in failures:
            self.assertEqual((failure["user"], failure["mechanism"], failure["host"]), ("alice", "PLAIN", "127.0.0.1"))
        self.assertNotIn("a-word-for-no-log", path.read_text())
        self.assertNotIn("logway_audit", broker.log_path.read_text())
