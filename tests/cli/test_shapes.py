"""That each command prints the JSON that is documented: all that other cases have printed is held against it as well."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import BOOTSTRAP, DEADLINE_S, create_topic, logway, produce, run, served_apis
from groups import leave_behind, needs_groups, new_group

from harness import shapes
from harness.logway import BINARY

DESCRIBE_QUORUM = 55
# What a broker that is well, and of one node, does not print.
NEVER_SEEN = {
    "cluster health": {".leaderless_partitions[].", ".under_replicated_partitions[]."},
    "cluster remove": {".under_min_isr_partitions[].", ".under_replicated_partitions[]."},
    "group describe": {".[].members[].", ".[].subtopologies[]."},
    "group describe --watch": {".[].members[].", ".[].subtopologies[]."},
    "log verify": {".[].problems[]."},
}


class Shapes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.topic = create_topic("shapes", "-p", "2")
        produce(cls.topic, b"k=v\n", "-k", "=", "-H", "a=1", "-p", "0")
        produce(cls.topic, b"\xff", "-d", "", "--key", "ff", "--key-encoding", "hex", "-p", "0")
        header = b'{"value":null,"partition":0,"headers":[{"key":"/w==","key_encoding":"base64","value":null},'
        header += b'{"key":"h","value":"ff","value_encoding":"hex"}]}'
        produce(cls.topic, header, "--input-format", "json")

    def printed(self, *arguments: str, stdin: bytes = b"", codes=(0,)):
        """Has a command print JSON, which is held against the page as all JSON is."""
        done = run(*arguments, "--format", "json", stdin=stdin)
        self.assertIn(done.returncode, codes, done.stderr.decode())
        self.assertTrue(done.stdout, arguments)

    def assert_all_seen(self, *commands: str):
        """Every field that is documented has been printed."""
        for command in commands:
            never = tuple(NEVER_SEEN.get(command, set()))
            unseen = {path for path in shapes.unseen(command) if not (never and path.startswith(never))}
            self.assertEqual(unseen, set(), command)

    def test_topics_and_records(self):
        self.printed("topic", "create", "cli-shapes-created", "--dry-run")
        self.printed("topic", "create", self.topic, "--if-not-exists")
        self.printed("topic", "create", self.topic, codes=[1])
        self.printed("topic", "list")
        self.printed("topic", "describe", self.topic)
        self.printed("topic", "alter", self.topic, "-c", "retention.ms=600000000")
        self.printed("topic", "alter", self.topic, "-p", "3")
        self.printed("topic", "trim", self.topic, "-p", "1", "-o", "end")
        self.printed("topic", "delete", create_topic("shapeless"))
        self.printed("topic", "delete", "cli-shapes-missing", codes=[1])
        self.printed("produce", self.topic, "-p", "0", stdin=b"v\n")
        self.printed("consume", self.topic, "-e")
        self.printed("consume", self.topic, "-e", "--key-encoding", "hex", "--value-encoding", "base64")
        self.assert_all_seen(*(f"topic {verb}" for verb in ["create", "list", "describe", "alter", "trim", "delete"]))
        self.assert_all_seen("produce", "consume")

    @needs_groups
    def test_groups(self):
        group = new_group("shapes")
        leave_behind(group, self.topic, 0, 0)
        self.printed("group", "list")
        self.printed("group", "describe", group)
        self.printed("group", "describe", "cli-shapes-missing", codes=[1])
        self.printed("group", "seek", group, "--to", "end")
        command = [BINARY, "group", "describe", group, "--watch=0.1", "--format", "json", "-b", BOOTSTRAP]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as watching:
            lines = watching.stdout.readline() + watching.stdout.readline()
            watching.terminate()
            watching.stdout.read()
            self.assertEqual(watching.wait(DEADLINE_S), 0)
        shapes.check(command[1:], lines)
        self.printed("group", "delete", group)
        self.printed("group", "delete", group, codes=[1])
        self.assert_all_seen("group list", "group describe", "group describe --watch", "group seek", "group delete")

    def test_settings_and_the_cluster(self):
        self.printed("config", "list", "topic")
        self.printed("config", "describe", "topic", self.topic)
        self.printed("config", "set", "topic", self.topic, "retention.ms=700000000")
        self.printed("config", "set", "topic", self.topic, "retention.ms=800000000", "--dry-run")
        self.printed("config", "delete", "topic", self.topic, "retention.ms", "flush.ms", "no.such.setting")
        self.printed("cluster", "health")
        self.printed("cluster", "info")
        self.printed("cluster", "rebalance")
        self.printed("cluster", "moves")
        self.printed("cluster", "move", self.topic, "0", "--to", "1")
        self.assert_all_seen("cluster move")
        # The only node: it shows what would be, and refuses.
        self.printed("cluster", "remove", "1", codes=[1])
        self.assert_all_seen(*(f"config {verb}" for verb in ["list", "describe", "set", "delete"]), "cluster health")
        if DESCRIBE_QUORUM in served_apis():
            self.assert_all_seen("cluster info", "cluster remove")

    def test_users_and_acls(self):
        user = "cli-shapes"
        self.printed("user", "create", user)
        self.printed("user", "passwd", user)
        self.printed("user", "list")
        topic = ["--topic", self.topic, "--operation", "read"]
        self.printed("acl", "create", "--allow", user, *topic)
        self.printed("acl", "list", "--principal", user)
        self.printed("acl", "check", user, *topic)
        self.printed("acl", "delete", "--principal", user)
        self.printed("acl", "check", user, *topic, codes=[1])
        self.printed("user", "delete", user)
        self.assert_all_seen("user create", "user passwd", "user list", "user delete")
        self.assert_all_seen("acl create", "acl list", "acl check", "acl delete")

    @unittest.skipUnless("DATA_DIR" in os.environ, "whose files they are is not known")
    def test_files(self):
        with tempfile.TemporaryDirectory() as directory:
            data_dir = Path(directory) / "data"
            data_dir.mkdir()
            (copied,) = Path(os.environ["DATA_DIR"]).rglob(f"{self.topic}-0")
            shutil.copytree(copied, data_dir / copied.name)
            partition = str(data_dir / copied.name)
            self.printed("log", "dump", partition)
            self.printed("log", "dump", partition, "--records")
            self.printed("log", "verify", partition)
            (Path(partition) / "leader-epoch-checkpoint").write_bytes(b"no checkpoint\n")
            self.printed("log", "verify", partition, codes=[1])
            self.printed("log", "repair", partition, "--dry-run", codes=[0, 1])
            self.printed("log", "repair", partition, codes=[0, 1])
        self.assert_all_seen("log dump", "log dump --records", "log verify", "log repair")

    def test_every_command_that_prints_json_is_documented(self):
        """A command is added here, to the page, and to a case above; tokens have theirs among the cases of security,
        transactions in test_transactions.py, streams in those of boto3, agents in their own."""
        names = {command.split(" --")[0] for command in shapes.documented()}
        groups = ["topic", "group", "txn", "config", "user", "acl", "token", "cluster", "cluster token", "kinesis stream", "log"]
        listed = {f"{group} {verb}" for group in groups for verb in verbs_of(group)} - set(groups)
        self.assertEqual(names, listed | {"produce", "consume", "agent top"})


def verbs_of(group: str) -> list[str]:
    """The commands of a group, as its help lists them."""
    lines = logway(*group.split(), "--help").decode().partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    verbs = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]
    return [verb for verb in verbs if verb != "help"]
