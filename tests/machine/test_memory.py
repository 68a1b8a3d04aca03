"""A broker with less memory than its data, and one that the kernel kills because there is none left."""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from memory_limit import MemoryLimit
from probe import Probe

from harness.broker import TESTS
from harness.brokers import KINDS
from harness.load import Writer, assert_kept, create_topics, read_all
from harness.offsets import await_coordinator, commit_all
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
MEBIBYTE = 1 << 20
# What docs/OPERATING.md says under "Limit its memory".
GUIDE = (TESTS.parent / "docs" / "OPERATING.md").read_text().split("\n## Limit its memory\n")[1].split("\n## ")[0]
SETTINGS = dict(re.findall(r"^printf '\"([a-z.]+)\" = (\d+)", GUIDE, re.MULTILINE))
LIMIT_BYTES = int(re.search(r"MemoryMax=(\d+)M", GUIDE)[1]) * MEBIBYTE
WRITTEN_BYTES = 3 * LIMIT_BYTES
PARTITIONS = 4
# More keys than compaction has room for at a time, and groups for most of what these have.
KEYS = 500_000
GROUPS = 4_000
DEADLINE_S = 60
EAT = "eaten = []\nwhile True: eaten.append(b'x' * (1 << 20))"


@unittest.skipIf(KIND.kind != "logway", "a JVM needs more than the limit for itself")
class Memory(unittest.TestCase):
    def setUp(self):
        self.limit = MemoryLimit(self, LIMIT_BYTES)
        # So that a round of compaction need not be waited for.
        settings = SETTINGS | {"log.cleaner.backoff.ms": "500"}
        self.broker = KIND("machine-memory", settings, under=self.limit.under).start()
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

    def test_groups_and_compaction_beside_requests(self):
        await_coordinator(self.broker.bootstrap, "group-0")
        commit_all(self.broker.bootstrap, "kept", {f"group-{n}": [n] * PARTITIONS for n in range(GROUPS)})
        table = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(8 * MEBIBYTE)}
        create_topics(self.broker.bootstrap, NewTopic("table", 1, 1, config=table))
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 20, "acks": "all"})
        for _ in range(2):
            for key in range(KEYS):
                while True:
                    try:
                        producer.produce("table", b"value", f"key-{key}")
                        break
                    except BufferError:
                        producer.poll(0.1)
            self.assertEqual(producer.flush(DEADLINE_S), 0)
        wait_until(lambda: self.superseded_records() > 0, "the table to be compacted", DEADLINE_S)
        self.writer.wait_for_more_acks(1_000)
        print(f"{self.broker.rss_bytes() // MEBIBYTE} MiB resident with {GROUPS} groups and {KEYS} keys compacted")
        self.writer.finish()
        self.writer.assert_all_there()

    def superseded_records(self) -> int:
        return int(re.search(r"^logway_log_cleaner_superseded_records_total (\d+)", self.broker.metrics(), re.MULTILINE)[1])

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
