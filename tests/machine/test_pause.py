"""A broker that is stopped for longer than its clients' sessions (SIGSTOP), and goes on (SIGCONT)."""

import os
import signal
import time
import unittest

from confluent_kafka.admin import NewTopic
from members import Members

from harness.brokers import KINDS
from harness.load import Writer, create_topics

KIND = KINDS[os.environ["AGAINST"]]
SETTINGS = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
PARTITIONS = 4
SESSION_MS = 1_000
PAUSE_S = 3
RESUMED_S_MAX = 2.0


class Pause(unittest.TestCase):
    def setUp(self):
        self.broker = KIND("machine-pause", SETTINGS).start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, NewTopic("kept", PARTITIONS, 1))

    def pause(self):
        """Nothing tells how long a stopped process has been stopped but the clock."""
        self.broker.process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        self.broker.process.send_signal(signal.SIGCONT)

    def test_producers_and_groups_go_on_after_a_pause(self):
        with (
            Writer(self.broker.bootstrap, "kept", PARTITIONS, producers=3) as writer,
            Members(self.broker.bootstrap, "kept", PARTITIONS, 3, session_timeout_ms=SESSION_MS) as members,
        ):
            for _ in range(2):
                writer.wait_for_more_acks(10_000)
                members.wait_for_all(writer.acked_now())
                self.pause()
                acked, began = writer.acked_count(), time.monotonic()
                writer.wait_for_acks(acked + 1_000)
                resumed_s = time.monotonic() - began
                members.wait_for_all(writer.acked_now())
                read_s = time.monotonic() - began
                print(f"after {PAUSE_S} s: acks after {resumed_s:.2f} s, the group has read all after {read_s:.2f} s")
                self.assertLess(resumed_s, RESUMED_S_MAX)
            writer.finish()
            members.wait_for_all(writer.acked)
        given = sorted(members.given.values())
        print(f"{writer.acked_count()} records; each member was given partitions so often: {given}")
        writer.assert_all_there()
