"""Lines in are lines out, and a restarted worker goes on where it was."""

import tempfile
import unittest
from pathlib import Path

from worker import Worker


def lines(first: int, end: int) -> list[str]:
    return [f"line {number}" for number in range(first, end)]


class Files(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def test_lines_in_are_lines_out_across_a_restart(self):
        with Worker(self.directory, "connect-restarted") as worker:
            worker.append(lines(0, 2_000))
            worker.await_written("line 1999")
            self.assertEqual(worker.written(), lines(0, 2_000))
            worker.stop()
            worker.append(lines(2_000, 3_000))
            worker.start()
            worker.await_written("line 2999")
            self.assertEqual(worker.written(), lines(0, 3_000))

            (sink,) = worker.offsets("connect-restarted-sink")
            self.assertEqual(sink["partition"], {"kafka_topic": "connect-restarted", "kafka_partition": 0})
            self.assertGreaterEqual(sink["offset"]["kafka_offset"], 2_000)
            (source,) = worker.offsets("connect-restarted-source")
            self.assertEqual(source["partition"], {"filename": str(worker.source)})

    def test_a_killed_worker_loses_nothing(self):
        with Worker(self.directory, "connect-killed") as worker:
            worker.append(lines(0, 2_000))
            worker.await_written("line 1000")
            worker.kill()
            worker.append(lines(2_000, 3_000))
            worker.start()
            worker.await_written("line 2999")
            self.assertEqual(sorted(set(worker.written())), sorted(lines(0, 3_000)))
