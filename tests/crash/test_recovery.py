import os
import unittest
from pathlib import Path

from harness.brokers import KINDS
from harness.protocol import CREATE_TOPICS, Connection, create_topic_v2
from harness.stored import store

KIND = KINDS[os.environ["AGAINST"]]
BATCH_BYTES = 600 << 10
DEADLINE_S = 60


@unittest.skipIf(KIND.kind != "logway", "about what Logway reads")
class Recovery(unittest.TestCase):
    """What a start after `kill -9` reads, counted; tests/bench/recovery.py measures time and memory with much more."""

    def setUp(self):
        self.broker = KIND("crash-recovery").start()
        self.addCleanup(self.broker.kill)

    def create(self, topic: str, partitions: int, **config: str):
        settings = {name.replace("_", "."): value for name, value in config.items()}
        with Connection(self.broker.bootstrap, DEADLINE_S) as connection:
            connection.request(CREATE_TOPICS, 2, create_topic_v2(topic, partitions, settings))

    def reads_of_a_start(self) -> tuple[int, int]:
        """How often the broker reads until it is ready, and how many bytes."""
        self.broker.kill()
        self.broker.start()
        counters = Path(f"/proc/{self.broker.process.pid}/io").read_text().split()
        counts = dict(zip(counters[::2], map(int, counters[1::2])))
        return counts["syscr:"], counts["rchar:"]

    def test_what_is_stored_is_not_read(self):
        self.create("stored", 1, segment_bytes="1048576")
        # Two of them do not fit into a segment.
        store(self.broker, "stored", 4, bytes(BATCH_BYTES))
        calls_before, bytes_before = self.reads_of_a_start()
        store(self.broker, "stored", 40, bytes(BATCH_BYTES))
        calls, read_bytes = self.reads_of_a_start()
        print(f"{read_bytes - bytes_before:,} bytes more for 40 segments more, in {calls - calls_before} reads")
        self.assertLess(read_bytes - bytes_before, BATCH_BYTES // 2)
        self.assertLess(calls - calls_before, 40)

    def test_an_empty_partition_takes_one_read(self):
        calls_before, bytes_before = self.reads_of_a_start()
        self.create("empty", 300)
        calls, read_bytes = self.reads_of_a_start()
        print(f"{read_bytes - bytes_before:,} bytes more for 300 partitions more, in {calls - calls_before} reads")
        self.assertLess(calls - calls_before, 400)
        self.assertLess(read_bytes - bytes_before, 300 << 10)
