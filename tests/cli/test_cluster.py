import json
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

    def test_deleting_what_is_not_set_is_said_to_do_nothing(self):
        topic = create_topic("unset-settings")
        words = ["config", "delete", "topic", topic, "retention.ms", "no.such.setting"]
        done = run(*words, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = {"status": "unchanged", "not_set": ["retention.ms"], "unknown": ["no.such.setting"]}
        self.assertEqual(json.loads(done.stdout), {"kind": "topic", "name": topic, **expected})
        stderr = done.stderr.decode()
        self.assertIn(f"warning: retention.ms is not set for topic '{topic}'", stderr)
        self.assertIn(f"warning: no.such.setting is no setting of topic '{topic}'", stderr)
        self.assertNotIn("changed the settings", stderr)
        logway("config", "set", "topic", topic, "retention.ms=60000")
        wait_until(lambda: settings("topic", topic)["retention.ms"]["value"] == "60000", "the new value")
        deleted = logway_json(*words)
        self.assertEqual((deleted["status"], deleted["not_set"]), ("changed", []))
        (altered,) = [logway_json("topic", "alter", topic, "--delete-config", "segment.bytes")]
        self.assertEqual(altered["status"], "unchanged")

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

    def test_status(self):
        topic = create_topic("status", "-p", "2")
        status = logway_json("cluster", "status")
        self.assertTrue(status["healthy"])
        self.assertGreaterEqual(status["partition_count"], 2, topic)
        for kind in ["leaderless", "under_min_isr", "under_replicated"]:
            self.assertEqual(status[f"{kind}_partitions"], [])
        (only,) = status["nodes"]
        self.assertEqual((f"{only['host']}:{only['port']}", only["state"]), (BOOTSTRAP, "active"))
        text = logway("cluster", "status").decode()
        self.assertRegex(text, r"HEALTHY +yes\n")
        self.assertRegex(text, r"NODE +STATE +ROLE +LAG +OUT OF SYNC +ADDRESS +RACK +SAFE TO STOP\n")

    @unittest.skipUnless(DESCRIBE_QUORUM in served_apis(), "the broker announces no DescribeQuorum")
    def test_the_only_node_is_not_safe_to_stop(self):
        status = logway_json("cluster", "status")
        (only,) = status["nodes"]
        self.assertEqual((status["controller"], only["voter"], only["lag"]), (only["id"], True, 0))
        self.assertEqual((only["safe_to_stop"], only["unsafe_for"]), (False, None))
        reason = "the quorum would have 0 of the 1 voters that it needs"
        self.assertEqual(only["unsafe_because"], reason)
        self.assertIn(f"leader  0    0            {BOOTSTRAP}", logway("cluster", "status").decode())
        self.assertIn(f"  no, because {reason}\n", logway("cluster", "status").decode())
