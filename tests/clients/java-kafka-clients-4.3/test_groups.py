"""Consumer groups through Kafka's console consumer, VerifiableConsumer and kafka-consumer-groups."""

import json
import unittest

from tools import BOOTSTRAP, ask, create_topic, produce_lines, run, running

from harness.waiting import wait_until

LINES = [f"line {number}" for number in range(100)]


def groups(*arguments: str) -> str:
    return ask("consumer.group.ConsumerGroupCommand", *arguments)


def describe(group: str, *arguments: str) -> list[dict[str, str]]:
    """The rows of a description, by the names of its columns."""
    printed = [line.split() for line in groups("--describe", "--group", group, *arguments).splitlines() if line]
    heads = next((words for words in printed if words[0] == "GROUP"), [])
    return [dict(zip(heads, words)) for words in printed if words[0] == group]


def read_lines(topic: str, group: str, count: int) -> list[str]:
    """What the console consumer reads as the group's only member; it commits just that."""
    limits = ["--max-messages", str(count), "--timeout-ms", "30000", "--from-beginning"]
    return ask("consumer.ConsoleConsumer", "--topic", topic, "--group", group, *limits).splitlines()


class Groups(unittest.TestCase):
    def test_a_group_is_read_described_reset_and_deleted(self):
        create_topic("tools-group")
        produce_lines("tools-group", LINES)
        self.assertEqual(read_lines("tools-group", "readers", 60), LINES[:60])
        (row,) = describe("readers")
        self.assertEqual((row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]), ("60", "100", "40"))
        self.assertEqual(row["CONSUMER-ID"], "-")
        self.assertIn("readers", groups("--list").split())
        self.assertEqual(describe("readers", "--state")[0]["STATE"], "Empty")

        target = ["--group", "readers", "--topic", "tools-group"]
        groups("--reset-offsets", *target, "--shift-by", "-10", "--dry-run")
        self.assertEqual(describe("readers")[0]["CURRENT-OFFSET"], "60")
        groups("--reset-offsets", *target, "--shift-by", "-10", "--execute")
        self.assertEqual(read_lines("tools-group", "readers", 50), LINES[50:])
        groups("--reset-offsets", *target, "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
        self.assertEqual(describe("readers")[0]["CURRENT-OFFSET"], "0")

        groups("--delete-offsets", *target)
        self.assertEqual(describe("readers"), [])
        groups("--delete", "--group", "readers")
        self.assertNotIn("readers", groups("--list").split())

    def test_members_are_described_and_protect_their_group(self):
        create_topic("tools-members", 2)
        with running("consumer.ConsoleConsumer", "--topic", "tools-members", "--group", "members") as consumer:
            wait_until(lambda: len(describe("members")) == 2, "the member's partitions", deadline_s=60)
            for row in describe("members"):
                whose = (row["TOPIC"], row["HOST"], row["CLIENT-ID"])
                self.assertEqual(whose, ("tools-members", "/127.0.0.1", "console-consumer"))
            (member,) = describe("members", "--members", "--verbose")
            self.assertEqual(member["#PARTITIONS"], "2")
            state = describe("members", "--state")[0]
            self.assertEqual((state["STATE"], state["#MEMBERS"]), ("Stable", "1"))
            target = ["--bootstrap-server", BOOTSTRAP, "--group", "members"]
            refused = run("consumer.group.ConsumerGroupCommand", *target, "--delete")
            self.assertIn("GroupNotEmptyException", refused.stdout + refused.stderr)
            self.assertIsNone(consumer.poll(), "the consumer goes on")

    def test_an_unknown_group_is_said_to_be_none(self):
        target = ["--bootstrap-server", BOOTSTRAP, "--group", "nobody"]
        refused = run("consumer.group.ConsumerGroupCommand", *target, "--delete")
        self.assertIn("GroupIdNotFoundException", refused.stdout + refused.stderr)

    def test_verifiable_consumer(self):
        create_topic("tools-verified")
        produce_lines("tools-verified", LINES)
        limits = ["--max-messages", "100", "--reset-policy", "earliest"]
        printed = ask("VerifiableConsumer", "--topic", "tools-verified", "--group-id", "verified", *limits)
        events = [json.loads(line) for line in printed.splitlines()]
        consumed = sum(event["count"] for event in events if event["name"] == "records_consumed")
        commits = [event for event in events if event["name"] == "offsets_committed"]
        self.assertEqual(consumed, 100)
        self.assertTrue(commits and all(event["success"] for event in commits))
        self.assertEqual(commits[-1]["offsets"][0]["offset"], 100)
