import unittest

from command import create_topic, produce, run

from harness.ports import free_addresses



def assert_refused(case: unittest.TestCase, arguments: list[str], *expected: str, stdin: bytes = b""):
    """A failure prints `error:` and mostly `hint:` on stderr, nothing on stdout, and exits with 1."""
    refused = run(*arguments, stdin=stdin)
    stderr = refused.stderr.decode()
    case.assertEqual((refused.returncode, refused.stdout), (1, b""), stderr)
    for text in ["error: ", "hint: ", *expected]:
        case.assertIn(text, stderr)


class Errors(unittest.TestCase):
    def test_no_broker(self):
        (nobody,) = free_addresses(1)
        assert_refused(self, ["topic", "list", "-b", nobody], nobody, "logway serve")

    def test_no_broker_at_any_address(self):
        first, second = free_addresses(2)
        assert_refused(self, ["topic", "list", "-b", f"{first},{second}"], first, second)

    def test_an_unknown_topic(self):
        for command in (
            ["consume", "cli-missing", "-e"],
            ["topic", "describe", "cli-missing"],
            ["topic", "delete", "cli-missing"],
        ):
            with self.subTest(command):
                assert_refused(self, command, "cli-missing", "topic list")

    def test_an_unknown_partition(self):
        topic = create_topic("partition")
        assert_refused(self, ["consume", topic, "-p", "7", "-e"], topic, "7")
        assert_refused(self, ["produce", topic, "-p", "7"], topic, "7", stdin=b"x\n")

    def test_an_existing_topic(self):
        topic = create_topic("existing")
        assert_refused(self, ["topic", "create", topic], topic, "--if-not-exists")

    def test_a_setting_that_does_not_exist(self):
        assert_refused(self, ["topic", "create", "cli-setting", "-c", "no.such.setting=1"], "no.such.setting")
        assert_refused(self, ["topic", "alter", create_topic("setting"), "-c", "no.such.setting=1"], "no.such.setting")

    def test_more_replicas_than_brokers(self):
        assert_refused(self, ["topic", "create", "cli-replicas", "-r", "3"], "-r 1")

    def test_fewer_partitions(self):
        assert_refused(self, ["topic", "alter", create_topic("fewer", "-p", "3"), "-p", "2"])

    def test_a_record_that_is_too_large(self):
        topic = create_topic("large", "-c", "max.message.bytes=1000")
        advice = f"topic alter {topic} -c max.message.bytes"
        assert_refused(self, ["produce", topic], advice, stdin=b"x" * 2_000)

    def test_an_offset_out_of_range(self):
        topic = create_topic("range")
        produce(topic, b"x\n")
        assert_refused(self, ["consume", topic, "-o", "1000", "-e"], "1000", "0 to 0", "-o start")
        empty = create_topic("empty")
        assert_refused(self, ["consume", empty, "-o", "1000", "-e"], "1000", "it is empty")


class Usage(unittest.TestCase):
    def test_the_version_is_that_of_the_program_wherever_it_is_asked_for(self):
        version = run("--version").stdout
        self.assertRegex(version, rb"^logway \d")
        served = run("serve", "--version")
        self.assertEqual((served.returncode, served.stdout), (0, version))

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
