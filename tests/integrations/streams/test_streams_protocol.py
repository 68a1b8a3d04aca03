"""A word count by `group.protocol=streams` (KIP-1071): two instances share its tasks, and one is killed and comes back."""

import os
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from harness import topics
from harness.apache_kafka import SMALL_JVM, run_tool
from harness.broker import WORK
from harness.program import Program
from harness.waiting import wait_until

BOOTSTRAP = os.environ["BOOTSTRAP"]
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240
CLASS_PATH = f"{WORK}/streams/classes:{WORK}/streams/libs/*"
GROUP = "shared-count"

# Line 10 is "word-1 word-3 all", and so on.
LINES = [f"word-{number % 3} word-{number % 7} all" for number in range(3_000)]


def count_words(lines: list[str]) -> dict[str, int]:
    return dict(Counter(word for line in lines for word in line.split(" ")))


def counted() -> dict[str, int]:
    """The latest count of each word."""
    return {record.key().decode(): int(record.value()) for record in topics.read_to_end(BOOTSTRAP, "shared-counts")}


def send(lines: list[str]):
    records = [{"value": line, "partition": index % 4} for index, line in enumerate(lines)]
    topics.produce(BOOTSTRAP, "shared-lines", records)


def tool(*arguments: str) -> str:
    """What `kafka-streams-groups` says."""
    said = run_tool("streams.StreamsGroupCommand", "--bootstrap-server", BOOTSTRAP, *arguments, deadline_s=DEADLINE_S)
    return said.stdout + said.stderr


class StreamsProtocol(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.programs = [self.instance(Path(scratch.name), name) for name in ("one", "other")]

    def instance(self, scratch: Path, name: str) -> Program:
        arguments = [BOOTSTRAP, GROUP, str(scratch / name), "streams", "at_least_once", "shared-lines", "shared-counts"]
        command = ["java", *SMALL_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", CLASS_PATH]
        program = Program([*command, "io.logway.streams.WordCount", *arguments], scratch / f"{name}.log")
        self.addCleanup(program.kill)
        return program

    def await_that(self, is_so, what: str, running: list[Program]):
        def holds() -> bool:
            for program in running:
                program.check()
            return is_so()

        try:
            wait_until(holds, what, DEADLINE_S)
        except AssertionError as late:
            logs = "\n".join(program.log_end() for program in self.programs)
            raise AssertionError(f"{late}: {counted()}; the programs say:\n{logs}") from late

    def shares(self) -> list[int]:
        """How many active tasks each member has, by what the tool says of the members."""
        said = tool("--describe", "--members", "--group", GROUP)
        rows = [line for line in said.splitlines() if line.startswith(GROUP)]
        return sorted(row.count("ACTIVE") and row.split("ACTIVE:")[1].split("STANDBY")[0].count(":") for row in rows)

    def test_one_of_two_instances_is_killed_and_comes_back(self):
        for topic in ("shared-lines", "shared-counts"):
            topics.create_topic(BOOTSTRAP, topic, 4)
        one, other = self.programs
        send(LINES[:1_000])
        for program in self.programs:
            program.start()
        self.await_that(lambda: counted() == count_words(LINES[:1_000]), "the counts of both", [one, other])
        self.assertEqual(topics.partitions_of(BOOTSTRAP, f"{GROUP}-words-repartition"), [0, 1, 2, 3])
        self.assertEqual(topics.configs_of(BOOTSTRAP, f"{GROUP}-counts-changelog")["cleanup.policy"], "compact")
        self.assertIn(GROUP, tool("--list"))
        self.await_that(lambda: "Stable" in tool("--describe", "--state", "--group", GROUP), "a stable group", [one, other])
        print(tool("--describe", "--members", "--verbose", "--group", GROUP))

        other.kill()
        send(LINES[1_000:2_000])
        self.await_that(lambda: counted() == count_words(LINES[:2_000]), "the counts of the one that is left", [one])
        other.start()
        send(LINES[2_000:])
        self.await_that(lambda: counted() == count_words(LINES), "the counts after it came back", [one, other])
        for program in self.programs:
            program.stop()
        self.await_that(lambda: "Empty" in tool("--describe", "--state", "--group", GROUP), "an empty group", [])
        self.assertIn("successful", tool("--delete", "--group", GROUP))
