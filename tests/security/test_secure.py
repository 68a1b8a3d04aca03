"""`logway serve --secure`: TLS, a user and permissions, and files that clients of every kind connect with."""

import json
import subprocess
import unittest

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from harness.apache_kafka import SMALL_JVM, java, need_kafka
from harness.secured import SecuredLogway

TIMEOUT_S = 20


class Secure(unittest.TestCase):
    def setUp(self):
        self.broker = SecuredLogway("security-secure")
        self.addCleanup(self.broker.kill)
        self.broker.start()

    def test_every_client_has_a_file_to_connect_with(self):
        self.assertIn("cluster info", self.broker.log_since_start())
        self.broker.logway("topic", "create", "t", "-p", "1")
        producer = Producer(self.broker.librdkafka())
        producer.produce("t", "of librdkafka")
        self.assertEqual(producer.flush(TIMEOUT_S), 0)
        kcat = ["kcat", "-F", self.broker.files / "librdkafka.conf", "-C", "-t", "t", "-e", "-q"]
        read = subprocess.run(kcat, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        self.assertEqual(read.stdout, "of librdkafka\n")
        arguments = ["--bootstrap-server", self.broker.bootstrap, "--list", "--command-config",
                     str(self.broker.files / "client.properties")]
        command = java(need_kafka(), "org.apache.kafka.tools.TopicCommand", arguments, *SMALL_JVM)
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(listed.stdout.split(), ["t"], listed.stderr)

    def test_nobody_else_gets_in(self):
        plain = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        with self.assertRaises(Exception):
            plain.list_topics(timeout=2)
        wrong = AdminClient({**self.broker.librdkafka(), "sasl.password": "wrong", "log_level": 0})
        with self.assertRaises(Exception):
            wrong.list_topics(timeout=2)
        modes = {path.name: path.stat().st_mode & 0o777 for path in self.broker.files.iterdir()}
        self.assertEqual(set(modes.values()), {0o600}, modes)
        self.assertEqual(self.broker.files.stat().st_mode & 0o777, 0o700)
        password = (self.broker.files / "admin.password").read_text().strip()
        self.assertNotIn(password, self.broker.log_path.read_text())
        self.broker.logway("user", "create", "bob")
        refused = AdminClient({**self.broker.librdkafka(), "sasl.username": "bob", "log_level": 0})
        with self.assertRaises(Exception):
            refused.list_topics(timeout=2)

    def test_a_restart_keeps_it_and_makes_what_is_missing(self):
        password = (self.broker.files / "admin.password").read_text()
        authority = (self.broker.files / "ca.crt").read_text()
        server = self.broker.files / "server.pem"
        server.unlink()
        self.broker.stop()
        self.broker.start()
        self.assertEqual((self.broker.files / "admin.password").read_text(), password)
        self.assertEqual((self.broker.files / "ca.crt").read_text(), authority)
        self.assertNotIn("made an authority", self.broker.log_since_start())
        self.broker.logway("cluster", "info")
        self.broker.logway("user", "delete", "admin")
        self.broker.stop()
        self.broker.start()
        self.assertNotEqual((self.broker.files / "admin.password").read_text(), password)
        self.assertEqual([user["user"] for user in json.loads(self.broker.logway("user", "list", "--format", "json"))],
                         ["admin"])
