"""A Flink job copies a topic, commits with its checkpoints, and goes on there after it was killed."""

import os
import tempfile
import unittest
from pathlib import Path

from job import UPPER_CASE

from harness import topics
from harness.program import Program
from harness.waiting import wait_until

BOOTSTRAP = os.environ["BOOTSTRAP"]
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240


def lines(first: int, end: int) -> list[str]:
    return [f"line {number}" for number in range(first, end)]


def send(sent: list[str]):
    records = [{"value": line, "partition": index % 2} for index, line in enumerate(sent)]
    topics.produce(BOOTSTRAP, "flink-in", records)


class UpperCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        arguments = [BOOTSTRAP, "flink-group", "flink-in", "flink-out"]
        self.job = Program([*UPPER_CASE, *arguments], Path(scratch.name) / "log")
        self.addCleanup(self.job.kill)

    def await_committed(self, offsets: dict[int, int]):
        def is_committed() -> bool:
            self.job.check()
            return topics.committed(BOOTSTRAP, "flink-group", "flink-in") == offsets

        try:
            wait_until(is_committed, f"the offsets {offsets}", DEADLINE_S)
        except AssertionError as late:
            raise AssertionError(f"{late}; the job says:\n{self.job.log_end()}") from late

    def test_a_topic_is_copied_across_a_kill(self):
        topics.create_topic(BOOTSTRAP, "flink-in", 2)
        topics.create_topic(BOOTSTRAP, "flink-out", 2)
        send(lines(0, 2_000))
        self.job.start()
        self.await_committed({0: 1_000, 1: 1_000})
        self.job.kill()
        send(lines(2_000, 3_000))
        self.job.start()
        self.await_committed({0: 1_500, 1: 1_500})
        copied = [record.value().decode() for record in topics.read_to_end(BOOTSTRAP, "flink-out")]
        # At least once: but all was committed when the job was killed, so nothing came twice either.
        self.assertEqual(sorted(copied), sorted(line.upper() for line in lines(0, 3_000)))
