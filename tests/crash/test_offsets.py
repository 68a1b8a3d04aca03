import os
import unittest

from harness.brokers import KINDS
from harness.offsets import await_coordinator, await_offsets, commit_all, compare_all, one_of_each
from harness.protocol import CREATE_TOPICS, Connection, create_topic_v2

KIND = KINDS[os.environ["AGAINST"]]
TOPIC, PARTITIONS = "read-by-many", 100
GROUPS = 500
COORDINATORS = 50


class Offsets(unittest.TestCase):
    """Many groups with many offsets; tests/bench/group_offsets.py is the same with a million."""

    def setUp(self):
        self.broker = KIND("crash-offsets").start()
        self.addCleanup(self.broker.kill)
        self.groups = {
            f"group-{number}": list(range(number * 1_000, number * 1_000 + PARTITIONS)) for number in range(GROUPS)
        }
        with Connection(self.broker.bootstrap) as connection:
            connection.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, PARTITIONS))
        await_coordinator(self.broker.bootstrap, "group-0")
        self.await_groups()
        commit_all(self.broker.bootstrap, TOPIC, self.groups)

    def await_groups(self):
        await_offsets(self.broker.bootstrap, one_of_each(list(self.groups), COORDINATORS))

    def restart(self, end):
        """What is read to know the offsets again must not stay in memory."""
        rss_bytes_before = self.broker.rss_bytes()
        end()
        self.broker.start()
        self.await_groups()
        self.assertLess(self.broker.rss_bytes() - rss_bytes_before, KIND.restart_rss_growth_bytes_max)
        compare_all(self.broker.bootstrap, TOPIC, self.groups)

    def test_committed_offsets_survive_a_clean_stop(self):
        self.restart(self.broker.stop)

    def test_committed_offsets_survive_kill_9(self):
        self.restart(self.broker.kill)
