import unittest

from command import create_topic, produce, run

from harness.apache_kafka import free_addresses


class Errors(unittest.TestCase):
    """Failures print `error:` and mostly `hint:` on stderr, nothing on stdout, and exit with 1."""

    def assert_refused(self, arguments: list[str], *expected: str, stdin: bytes = b""):
        refused = run(*arguments, stdin=stdin)
        stderr = refused.stderr.decode()
        self.assertEqual((refused.returncode, refused.stdout), (1, b""), stderr)
        for text in ["error: ", "hint: ", *expected]:
            self.assertIn(text, stderr)

    def test_no_broker(self):
        (nobody,) = free_addresses(1)
        self.assert_refused(["topic", "list", "-b", nobody], nobody, "logway serve")

    def test_an_unknown_topic(self):
        for command in (
            ["consume", "cli-missing", "-e"],
            ["topic", "describe", "cli-missing"],
            ["topic", "delete", "cli-missing"],
        ):
            with self.subTest(command):
                self.assert_refused(command, "cli-missing", "topic list")

    def test_an_unknown_partition(self):
        topic = create_topic("partition")
        self.assert_refused(["consume", topic, "-p", "7", "-e"], topic, "7")
        self.assert_refused(["produce", topic, "-p", "7"], topic, "7", stdin=b"x\n")

    def test_an_existing_topic(self):
        topic = create_topic("existing")
        self.assert_refused(["topic", "create", topic], topic, "--if-not-exists")

    def test_a_setting_that_does_not_exist(self):
        self.assert_refused(["topic", "create", "cli-setting", "-c", "no.such.setting=1"], "no.such.setting")
        self.assert_refused(["topic", "alter", create_topic("setting"), "-c", "no.such.setting=1"], "no.such.setting")

    def test_more_replicas_than_brokers(self):
        self.assert_refused(["topic", "create", "cli-replicas", "-r", "3"], "-r 1")

    def test_fewer_partitions(self):
        self.assert_refused(["topic", "alter", create_topic("fewer", "-p", "3"), "-p", "2"])

    def test_a_record_that_is_too_large(self):
        topic = create_topic("large", "-c", "max.message.bytes=1000")
        self.assert_refused(["produce", topic], "max.message.bytes", stdin=b"x" * 2_000)

    def test_an_offset_out_of_range(self):
        topic = create_topic("range")
        produce(topic, b"x\n")
        self.assert_refused(["consume", topic, "-o", "1000", "-e"], "1000", "-o start")


class Usage(unittest.TestCase):
    def test_wrong_usage_exits_with_2(self):
        for arguments in [
            ["no-such-command"],
            ["consume"],
            ["consume", "t", "-o", "yesterday"],
            ["consume", "t", "-f", "%x"],
            ["produce", "t", "-z", "rar"],
            ["topic", "alter", "t"],
            ["topic", "create", "a b"],
        ]:
            with self.subTest(arguments):
                refused = run(*arguments)
                self.assertEqual((refused.returncode, refused.stdout), (2, b""))
                self.assertIn(b"error: ", refused.stderr)
