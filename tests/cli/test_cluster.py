import unittest

from command import BOOTSTRAP, create_topic, logway, logway_json, run, served_apis, wait_until
from groups import GROUP_APIS
from test_errors import assert_refused

DESCRIBE_QUORUM, LIST_CONFIG_RESOURCES = 55, 74


def settings(kind: str, name: str) -> dict[str, dict]:
    return {setting["name"]: setting for setting in logway_json("config", "describe", kind, name)}


def broker() -> str:
    return str(logway_json("cluster", "info")["brokers"][0]["id"])


class Settings(unittest.TestCase):
    def change_and_take_back(self, kind: str, name: str, setting: str, value: str, source: str):
        before = settings(kind, name).get(setting)
        logway("config", "set", kind, name, f"{setting}={value}", "--dry-run")
        self.assertEqual(settings(kind, name).get(setting), before)
        logway("config", "set", kind, name, f"{setting}={value}")
        wait_until(lambda: settings(kind, name).get(setting, {}).get("value") == value, "the new value")
        self.assertEqual(settings(kind, name)[setting]["source"], source)
        self.assertRegex(logway("config", "describe", kind, name).decode(), rf"\n{setting} +{value} +{source}\n")
        logway("config", "delete", kind, name, setting)
        wait_until(lambda: settings(kind, name).get(setting) == before, "what was there before")

    def test_of_a_topic(self):
        self.change_and_take_back("topic", create_topic("settings"), "retention.ms", "60000", "topic")

    def test_of_a_broker(self):
        found = settings("broker", broker())
        self.assertIn("log.retention.ms", found)
        self.assertGreater(len(logway("config", "describe", "broker", broker(), "--all").splitlines()), len(found))

    @unittest.skipUnless(LIST_CONFIG_RESOURCES in served_apis(), "the broker announces no ListConfigResources")
    def test_of_all_brokers(self):
        self.change_and_take_back("broker", "default", "log.retention.ms", "86400000", "all-brokers")

    @unittest.skipUnless(served_apis() >= GROUP_APIS | {LIST_CONFIG_RESOURCES}, "the broker announces no groups")
    def test_of_a_group(self):
        self.change_and_take_back("group", "cli-settings", "consumer.session.timeout.ms", "50000", "group")

    @unittest.skipUnless(LIST_CONFIG_RESOURCES in served_apis(), "the broker announces no ListConfigResources")
    def test_of_client_metrics(self):
        self.change_and_take_back("client-metrics", "cli-slow", "interval.ms", "5000", "client-metrics")

    def test_who_takes_back_what_is_not_set_is_told(self):
        topic = create_topic("unset-settings")
        logway("config", "set", "topic", topic, "retention.ms=60000")
        wait_until(lambda: settings("topic", topic)["retention.ms"]["value"] == "60000", "the new value")
        both = run("config", "delete", "topic", topic, "no.such", "segment.ms")
        self.assertEqual((both.returncode, both.stdout), (0, b""))
        said = both.stderr.decode()
        self.assertIn(f"no.such was not set for topic '{topic}'", said)
        self.assertIn(f"segment.ms was not set for topic '{topic}'", said)
        self.assertIn("nothing was changed", said)
        some = run("config", "delete", "topic", topic, "no.such", "retention.ms")
        self.assertIn("no.such was not set", some.stderr.decode())
        self.assertIn(f"changed the settings of topic '{topic}'", some.stderr.decode())
        unchanged = logway_json("config", "delete", "topic", topic, "no.such")
        self.assertEqual(unchanged["status"], "unchanged")

    def test_list(self):
        topic = create_topic("has-settings")
        listed = logway_json("config", "list")
        self.assertIn({"kind": "topic", "name": topic}, listed)
        self.assertIn({"kind": "broker", "name": broker()}, listed)
        self.assertEqual({row["kind"] for row in logway_json("config", "list", "topic")}, {"topic"})

    def test_changes_that_are_refused_change_nothing(self):
        topic = create_topic("refused-settings")
        logway("config", "set", "topic", topic, "retention.ms=60000")
        wait_until(lambda: settings("topic", topic)["retention.ms"]["value"] == "60000", "the new value")
        nothing = f"nothing was changed in the settings of topic '{topic}'"
        for command in [
            ["config", "set", "topic", topic, "retention.ms=5", "no.such.setting=1"],
            ["topic", "alter", topic, "-c", "retention.ms=5", "-c", "no.such.setting=1"],
        ]:
            assert_refused(self, command, nothing)
        self.assertEqual(settings("topic", topic)["retention.ms"]["value"], "60000")

    def test_what_cannot_be(self):
        topic = create_topic("refused-settings")
        assert_refused(self, ["config", "set", "topic", topic, "no.such.setting=1"], "no.such.setting", "settings.md")
        assert_refused(self, ["config", "set", "topic", topic, "retention.ms=soon"], "retention.ms")
        assert_refused(self, ["config", "describe", "topic", "cli-missing"], "cli-missing", "topic list")
        for arguments in [
            ["describe", "planet", "x"],
            ["describe", "broker", "all"],
            ["set", "topic", topic],
            ["set", "topic", topic, "x"],
        ]:
            self.assertEqual(run("config", *arguments).returncode, 2)


class Cluster(unittest.TestCase):
    def test_info(self):
        info = logway_json("cluster", "info")
        (only,) = info["brokers"]
        self.assertEqual((f"{only['host']}:{only['port']}", only["fenced"]), (BOOTSTRAP, False))
        text = logway("cluster", "info").decode()
        self.assertIn(info["cluster_id"], text)
        self.assertRegex(text, r"BROKER +HOST +PORT")

    @unittest.skipUnless(DESCRIBE_QUORUM in served_apis(), "the broker announces no DescribeQuorum")
    def test_the_quorum(self):
        info = logway_json("cluster", "info")
        (replica,) = info["quorum"]["replicas"]
        self.assertEqual((info["controller"], replica["id"], replica["voter"]), (replica["id"], replica["id"], True))
        self.assertGreater(info["quorum"]["high_watermark"], 0)

    def test_health(self):
        topic = create_topic("healthy", "-p", "3")
        health = logway_json("cluster", "health")
        self.assertTrue(health["healthy"])
        self.assertGreaterEqual(health["partition_count"], 3, topic)
        self.assertRegex(logway("cluster", "health").decode(), r"HEALTHY +yes\n")
