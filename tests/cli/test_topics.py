import unittest

from command import BOOTSTRAP, create_topic, logway, logway_json, numbered_lines, produce, wait_until


def described(topic: str) -> dict:
    (description,) = logway_json("topic", "describe", topic)
    return description


def setting(topic: str, name: str) -> str:
    return next(config["value"] for config in described(topic)["configs"] if config["name"] == name)


class Topics(unittest.TestCase):
    def test_create_and_describe(self):
        topic = create_topic("made", "-p", "3", "-c", "retention.ms=3600000")
        description = described(topic)
        self.assertEqual([partition["partition"] for partition in description["partitions"]], [0, 1, 2])
        for partition in description["partitions"]:
            self.assertEqual((partition["start_offset"], partition["end_offset"]), (0, 0))
            self.assertEqual(partition["isr"], [partition["leader"]])
        self.assertEqual(setting(topic, "retention.ms"), "3600000")
        text = logway("topic", "describe", topic).decode()
        for word in [topic, "PARTITION", "retention.ms", "3600000"]:
            self.assertIn(word, text)

    def test_create_with_the_brokers_defaults(self):
        (created,) = logway_json("topic", "create", "cli-defaults")
        self.assertEqual((created["topic"], created["partition_count"], created["status"]), ("cli-defaults", 1, "created"))

    def test_create_again_if_it_does_not_exist(self):
        topic = create_topic("twice")
        (row,) = logway_json("topic", "create", topic, "--if-not-exists")
        self.assertEqual(row["status"], "exists")

    def test_a_dry_run_creates_nothing(self):
        logway("topic", "create", "cli-dry", "--dry-run")
        self.assertNotIn("cli-dry", [row["topic"] for row in logway_json("topic", "list")])

    def test_list(self):
        topic = create_topic("listed", "-p", "2")
        self.assertIn({"topic": topic, "partition_count": 2, "replica_count": 1, "internal": False}, logway_json("topic", "list"))
        self.assertRegex(logway("topic", "list").decode(), rf"NAME +PARTITIONS +REPLICAS\n(.*\n)*{topic} +2 +1\n")

    def test_alter_settings_and_partitions(self):
        topic = create_topic("altered")
        logway("topic", "alter", topic, "-c", "retention.ms=60000", "-c", "segment.bytes=2097152")
        wait_until(lambda: setting(topic, "retention.ms") == "60000", "the new setting")
        logway("topic", "alter", topic, "--delete-config", "retention.ms", "-p", "4")
        wait_until(lambda: setting(topic, "retention.ms") == "604800000", "the default")
        wait_until(lambda: len(described(topic)["partitions"]) == 4, "four partitions")
        self.assertEqual(setting(topic, "segment.bytes"), "2097152")

    def test_trim(self):
        topic = create_topic("trimmed")
        produce(topic, numbered_lines(100))
        logway("topic", "trim", topic, "-p", "0", "-o", "60")
        self.assertEqual(described(topic)["partitions"][0]["start_offset"], 60)

    def test_delete(self):
        topic = create_topic("deleted")
        logway("topic", "delete", topic)
        wait_until(lambda: topic not in [row["topic"] for row in logway_json("topic", "list")], f"{topic} to be gone")


class Brokers(unittest.TestCase):
    def test_every_way_to_name_the_broker(self):
        for flag in ["-b", "--brokers", "--bootstrap-server"]:
            logway("topic", "list", flag, BOOTSTRAP)
        logway("-b", f"127.0.0.1:1,{BOOTSTRAP}", "topic", "list")


class Completions(unittest.TestCase):
    def test_every_shell(self):
        for shell in ["bash", "zsh", "fish"]:
            self.assertIn(b"consume", logway("completions", shell))
