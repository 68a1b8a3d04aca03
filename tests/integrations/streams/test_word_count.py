"""A word count that is stopped in the middle and restores its state from the changelog."""

import os
import shutil
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from harness import topics
from harness.apache_kafka import SMALL_JVM
from harness.broker import WORK
from harness.program import Program
from harness.waiting import wait_until

BOOTSTRAP = os.environ["BOOTSTRAP"]
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240
CLASS_PATH = f"{WORK}/streams/classes:{WORK}/streams/libs/*"

# Line 10 is "word-1 word-3 all", and so on.
LINES = [f"word-{number % 3} word-{number % 7} all" for number in range(3_000)]


def count_words(lines: list[str]) -> dict[str, int]:
    return dict(Counter(word for line in lines for word in line.split(" ")))


def counted() -> dict[str, int]:
    """The latest count of each word."""
    return {record.key().decode(): int(record.value()) for record in topics.read_to_end(BOOTSTRAP, "word-counts")}


def send(lines: list[str]):
    topics.produce(BOOTSTRAP, "lines", [{"value": line, "partition": index % 2} for index, line in enumerate(lines)])


class WordCount(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = Path(scratch.name) / "state"
        arguments = [BOOTSTRAP, "word-count", str(self.state), "classic", "at_least_once", "lines", "word-counts"]
        command = ["java", *SMALL_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", CLASS_PATH]
        self.program = Program([*command, "io.logway.streams.WordCount", *arguments], Path(scratch.name) / "log")
        self.addCleanup(self.program.kill)

    def await_counts(self, wanted: dict[str, int]):
        def is_counted() -> bool:
            self.program.check()
            return counted() == wanted

        try:
            wait_until(is_counted, "the counts", DEADLINE_S)
        except AssertionError as late:
            found = f"{counted()} is not {wanted}"
            raise AssertionError(f"{late}: {found}; the program says:\n{self.program.log_end()}") from late

    def test_counts_survive_the_loss_of_the_state_directory(self):
        for topic in ("lines", "word-counts"):
            topics.create_topic(BOOTSTRAP, topic, 2)
        send(LINES[:1_500])
        self.program.start()
        self.await_counts(count_words(LINES[:1_500]))
        self.program.stop()
        # Without it, the counts are in the changelog only.
        shutil.rmtree(self.state)
        send(LINES[1_500:])
        self.program.start()
        self.await_counts(count_words(LINES))
        self.assertTrue(self.state.exists())

        self.assertEqual(topics.partitions_of(BOOTSTRAP, "word-count-words-repartition"), [0, 1])
        self.assertEqual(topics.partitions_of(BOOTSTRAP, "word-count-counts-changelog"), [0, 1])
        changelog = topics.configs_of(BOOTSTRAP, "word-count-counts-changelog")
        self.assertEqual(changelog["cleanup.policy"], "compact")
