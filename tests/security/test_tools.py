"""Kafka's own tools, unchanged, and ours beside them."""

import json
import subprocess
import unittest

from harness.apache_kafka import SMALL_JVM, java, need_kafka
from secure import PASSWORD, SecureLogway

DEADLINE_S = 60


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = SecureLogway("secure-tools").start()
        cls.addClassCleanup(cls.broker.kill)
        cls.broker.add_user("admin")
        cls.properties = cls.broker.directory / "admin.properties"
        cls.properties.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={cls.broker.authority.file}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="admin" password="{PASSWORD}";\n'
        )

    def tool(self, main_class: str, *arguments: str) -> str:
        words = ["--bootstrap-server", self.broker.addresses["SASL_SSL"], "--command-config", str(self.properties)]
        done = subprocess.run(java(need_kafka(), main_class, [*words, *arguments], *SMALL_JVM), capture_output=True,
                              text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def acls(self, *arguments: str) -> str:
        return self.tool("org.apache.kafka.tools.AclCommand", *arguments)

    def configs(self, *arguments: str) -> str:
        return self.tool("kafka.admin.ConfigCommand", *arguments)

    def test_acls_of_kafka_and_ours_are_the_same(self):
        self.acls("--add", "--allow-principal", "User:tool", "--operation", "Read", "--operation", "Write",
                  "--topic", "tool-", "--resource-pattern-type", "prefixed")
        ours = json.loads(self.broker.logway("acl", "list", "--principal", "tool", "--format", "json"))
        self.assertEqual({(acl["operation"], acl["pattern"], acl["name"]) for acl in ours},
                         {("READ", "PREFIXED", "tool-"), ("WRITE", "PREFIXED", "tool-")})
        self.broker.logway("acl", "create", "--deny", "tool", "--topic", "tool-x", "--operation", "write")
        listed = self.acls("--list", "--principal", "User:tool")
        self.assertIn("permissionType=DENY", listed)
        check = ["acl", "check", "tool", "--operation", "write", "--topic"]
        self.assertTrue(self.broker.logway(*check, "tool-y").startswith("allowed: "))
        self.assertTrue(self.broker.logway(*check, "tool-x", exit_code=1).startswith("denied: "))
        self.assertTrue(self.broker.logway("acl", "check", "admin", "--cluster", "--operation", "alter")
                        .startswith("allowed: it is one of super.users"))
        self.acls("--remove", "--force", "--topic", "tool-", "--resource-pattern-type", "prefixed")
        self.broker.logway("acl", "delete", "--principal", "tool")
        self.assertEqual(json.loads(self.broker.logway("acl", "list", "--principal", "tool", "--format", "json")), [])

    def test_users_of_kafka_and_ours_are_the_same(self):
        word = "SCRAM-SHA-256=[iterations=8192,password=of-the-tool]"
        self.configs("--alter", "--add-config", word, "--entity-type", "users", "--entity-name", "tool")
        listed = json.loads(self.broker.logway("user", "list", "--format", "json"))
        self.assertIn({"user": "tool", "mechanisms": [{"name": "SCRAM-SHA-256", "iterations": 8192}]}, listed)
        described = self.configs("--describe", "--entity-type", "users", "--entity-name", "tool")
        self.assertIn("SCRAM-SHA-256=iterations=8192", described)
        self.assertNotIn("of-the-tool", described)
        self.broker.allow("tool", "--topic", "*", "--operation", "describe")
        self.broker.logway("topic", "list", "--mechanism", "SCRAM-SHA-256", user="tool", listener="SASL_SSL",
                           password="of-the-tool")
        self.configs("--alter", "--delete-config", "SCRAM-SHA-256", "--entity-type", "users", "--entity-name", "tool")
        self.assertNotIn('"tool"', self.broker.logway("user", "list", "--format", "json"))

    def test_our_commands_log_in_too(self):
        self.broker.add_user("dora")
        self.broker.allow("dora", "--topic", "doras", "--operation", "all")
        self.broker.logway("topic", "create", "doras", user="dora", listener="SASL_SSL")
        self.assertEqual(self.broker.logway("topic", "list", user="dora", listener="SASL_SSL").count("doras"), 1)
        self.broker.logway("user", "delete", "dora")
        with self.assertRaisesRegex(AssertionError, "invalid credentials"):
            self.broker.logway("topic", "list", user="dora", listener="SASL_SSL")
