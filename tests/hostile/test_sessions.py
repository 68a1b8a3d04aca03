import os
import random
import re
import unittest

from polite import PoliteProducer, create_topic
from sessions import send_sessions

from harness.brokers import KINDS
from harness.seed import SEED
from harness.topics import admin, end_offsets
from harness.topics import create_topic as create_empty_topic
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
SESSIONS = int(os.environ.get("SESSIONS", 10_000))
# After these the broker has made what it keeps from then on, such as the topic of offsets.
SESSIONS_BEFORE = 2_000
P99_MS_MAX = 250
# The segment and the two indexes of each partition of __consumer_offsets, which stay open once they are used.
OFFSETS_DESCRIPTORS = 3 * 50
# Files of idle logs are closed at a checkpoint.
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "1000"}
DEADLINE_S = 60
MEBIBYTE = 1 << 20
# No mutation of what is sent to other topics comes upon this name.
POLITE_TOPIC = f"polite-{random.Random(SEED).randbytes(16).hex()}"
# Made when all is done that was asked for before.
BEHIND_TOPIC = f"{POLITE_TOPIC}-behind"


class Sessions(unittest.TestCase):
    """SESSIONS=N sessions of real clients, mutated by SEED=N, beside a polite producer.

    What is valid in spite of its mutation may be done: topics are made, written and deleted, all but the polite one's.
    """

    def setUp(self):
        self.broker = self.enterContext(KIND("hostile-sessions", SETTINGS))
        create_topic(self.broker.bootstrap, POLITE_TOPIC)
        self.rss_bytes_most = 0

    def test_mutated_sessions_hurt_nobody(self):
        print(f"SEED={SEED} SESSIONS={SESSIONS}", flush=True)
        self.attack(first=SESSIONS, sessions=SESSIONS_BEFORE)
        self.settle()
        self.sweep()
        with PoliteProducer(self.broker.bootstrap, POLITE_TOPIC) as polite:
            rss_bytes_before, descriptors_before = self.broker.rss_bytes(), self.descriptors()
            self.attack(first=0, sessions=SESSIONS)
            latency, acked = polite.finish(), polite.acked()
        self.settle()
        self.sweep()
        descriptors_most = descriptors_before + OFFSETS_DESCRIPTORS
        wait_until(lambda: self.swept_descriptors() <= descriptors_most, "descriptors to be closed", DEADLINE_S)

        rss_mib = [bytes // MEBIBYTE for bytes in (rss_bytes_before, self.rss_bytes_most, self.broker.rss_bytes())]
        print("resident memory {} MiB before, {} at most, {} after".format(*rss_mib))
        print(f"descriptors {descriptors_before} before, {self.descriptors()} after")
        print(latency, flush=True)
        self.assertIsNone(self.broker.process.poll(), "the broker died")
        self.assertNotIn("panicked", self.broker.log_since_start())
        self.assertEqual(end_offsets(self.broker.bootstrap, POLITE_TOPIC), {0: 1 + acked})
        self.assertLess(self.rss_bytes_most - rss_bytes_before, KIND.rss_growth_bytes_max)
        self.assertLess(latency.p99_ms, P99_MS_MAX)

    @unittest.skipIf(KIND.kind != "logway", "asks for Logway's metrics")
    def test_what_sessions_have_taken_is_given_back(self):
        self.attack(first=2 * SESSIONS, sessions=SESSIONS_BEFORE)
        self.settle()

    def attack(self, first: int, sessions: int):
        """Sends so many sessions, from a number on, and looks at the broker's memory meanwhile."""
        most = send_sessions(self.broker, self.broker.bootstrap, first, sessions)
        self.rss_bytes_most = max(self.rss_bytes_most, most)

    def settle(self):
        """Waits until what the sessions have asked for is done, or given up.

        A session does not wait long for its answer, and its topics are made all the same. The controller takes one thing
        after the other. A topic of 8,000 partitions, if a mutation has asked for one, is listed when some of them are made.
        """
        if KIND.kind == "logway":
            for metric in ("logway_connections_open", "logway_request_memory_used_bytes"):
                wait_until(lambda: self.metric(metric) == 0, f"{metric} to be 0", DEADLINE_S)
        create_empty_topic(self.broker.bootstrap, BEHIND_TOPIC, partitions=1)

    def sweep(self):
        """Deletes what topics the sessions have left behind."""
        client = admin(self.broker.bootstrap)
        topics = client.list_topics(timeout=DEADLINE_S).topics
        left = [topic for topic in topics if topic != POLITE_TOPIC and not topic.startswith("__")]
        if left:
            for deleted in client.delete_topics(left, request_timeout=DEADLINE_S).values():
                deleted.result(DEADLINE_S)

    def swept_descriptors(self) -> int:
        """So many are open when what topics are listed by now is deleted."""
        self.sweep()
        return self.descriptors()

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.broker.process.pid}/fd"))

    def metric(self, name: str) -> float:
        return float(re.search(rf"^{name} (\S+)$", self.broker.metrics(), re.MULTILINE)[1])
