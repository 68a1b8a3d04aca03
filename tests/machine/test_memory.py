"""A broker with less memory than its data, and one that the kernel kills because there is none left."""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic
from memory_limit import MemoryLimit
from probe import Probe

from harness.broker import TESTS
from harness.brokers import KINDS
from harness.load import Writer, assert_kept, create_topics, read_all

KIND = KINDS[os.environ["AGAINST"]]
MEBIBYTE = 1 << 20
# What docs/OPERATING.md says under "Limit its memory".
GUIDE = (TESTS.parent / "docs" / "OPERATING.md").read_text().split("\n## Limit its memory\n")[1].split("\n## ")[0]
SETTINGS = dict(re.findall(r"^printf '\"([a-z.]+)\" = (\d+)", GUIDE, re.MULTILINE))
LIMIT_BYTES = int(re.search(r"MemoryMax=(\d+)M", GUIDE)[1]) * MEBIBYTE
WRITTEN_BYTES = 3 * LIMIT_BYTES
PARTITIONS = 4
DEADLINE_S = 60
EAT = "eaten = []\nwhile True: eaten.append(b'x' * (1 << 20))"


@unittest.skipIf(KIND.kind != "logway", "a JVM needs more than the limit for itself")
class Memory(unittest.TestCase):
    def setUp(self):
        self.limit = MemoryLimit(self, LIMIT_BYTES)
        self.broker = KIND("machine-memory", SETTINGS, under=self.limit.under).start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, NewTopic("kept", PARTITIONS, 1), NewTopic("large", 1, 1))
        self.writer = self.enterContext(Writer(self.broker.bootstrap, "kept", PARTITIONS, producers=2))

    def test_more_data_than_memory(self):
        """What is written and read does not fit into the page cache, which has what the broker leaves of the limit."""
        with Probe(self.broker.bootstrap, "large") as probe:
            probe.fill(WRITTEN_BYTES)
            acked = self.writer.acked_now()
            assert_kept(acked, read_all(self.broker.bootstrap, "kept", PARTITIONS))
        self.writer.wait_for_more_acks(10_000)
        print(f"{self.broker.rss_bytes() // MEBIBYTE} MiB resident after {WRITTEN_BYTES // MEBIBYTE} MiB were written")
        self.writer.finish()
        self.writer.assert_all_there()

    def test_a_neighbour_that_eats_all_memory(self):
        """The kernel ends the broker for it, which is as `kill -9` at a moment of its own choice."""
        self.writer.wait_for_more_acks(20_000)
        Path(f"/proc/{self.broker.process.pid}/oom_score_adj").write_text("1000")
        with subprocess.Popen([*self.limit.under, sys.executable, "-c", EAT], stderr=subprocess.DEVNULL) as neighbour:
            self.addCleanup(neighbour.kill)
            self.assertEqual(self.broker.process.wait(DEADLINE_S), -signal.SIGKILL)
            neighbour.kill()
        acked = self.writer.acked_now()
        self.broker.start()
        assert_kept(acked, read_all(self.broker.bootstrap, "kept", PARTITIONS))
        self.writer.wait_for_more_acks(1_000)
        self.writer.finish()
        self.writer.assert_all_there()
        print(f"{self.writer.acked_count()} records were acknowledged")
