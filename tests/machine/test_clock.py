"""A wall clock that jumps under a running broker, to which libfaketime gives another than the machine's."""

import os
import struct
import subprocess
import time
import unittest

from confluent_kafka.admin import NewTopic
from members import Members
from probe import Probe

from harness.broker import TESTS, fresh_directory
from harness.brokers import KINDS
from harness.load import Writer, create_topics
from harness.protocol import FETCH, LIST_OFFSETS, Connection, array, fetch_v4, string

KIND = KINDS[os.environ["AGAINST"]]
PARTITIONS = 4
DAY_MS = 86_400_000
TOLERANCE_MS = 5_000
INVALID_TIMESTAMP = 32
# Whatever is done now and then is done often.
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.retention.check.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}
# By default a broker takes no record from more than an hour after its own time.
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@unittest.skipIf(KIND.kind != "logway", "the JVM keeps a time of its own")
class Clock(unittest.TestCase):
    def setUp(self):
        need = [TESTS / "harness" / "need", "faketime"]
        library = subprocess.run(need, check=True, stdout=subprocess.PIPE, text=True)
        self.offset_path = fresh_directory("machine-clock-offset") / "offset"
        self.offset_ms = 0
        self.jump_to(0)
        faked = {
            "LD_PRELOAD": library.stdout.strip(),
            "FAKETIME_TIMESTAMP_FILE": str(self.offset_path),
            "FAKETIME_NO_CACHE": "1",
            # A clock that is set does not change how long something takes.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        under = ["env", *(f"{name}={value}" for name, value in faked.items())]
        self.broker = KIND("machine-clock", SETTINGS, under=under).start()
        self.addCleanup(self.broker.kill)
        appended = NewTopic("appended", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
        topics = [NewTopic("kept", PARTITIONS, 1, config=ANY_TIME), NewTopic("judged", 1, 1), appended]
        create_topics(self.broker.bootstrap, *topics)

    def jump_to(self, offset_ms: int):
        """Sets the broker's clock to so much before or after the machine's."""
        written = self.offset_path.with_suffix(".new")
        written.write_text(f"{offset_ms / 1_000:+.0f}\n")
        written.rename(self.offset_path)
        self.offset_ms = offset_ms

    def test_nothing_is_lost_or_late_when_the_clock_jumps_by_a_day(self):
        """Forth, back behind where it was, and right again: producers, groups, waits and look-ups by time go on."""
        with (
            Writer(self.broker.bootstrap, "kept", PARTITIONS, producers=2) as writer,
            Members(self.broker.bootstrap, "kept", PARTITIONS, 2, session_timeout_ms=6_000) as members,
            Probe(self.broker.bootstrap, "appended") as probe,
        ):
            given = None
            for offset_ms in (0, DAY_MS, -DAY_MS, 0):
                self.jump_to(offset_ms)
                writer.wait_for_more_acks(10_000)
                members.wait_for_all(writer.acked_now())
                given = given or members.given.copy()
                self.check_append_time(probe)
                self.check_wait()
            writer.finish()
            members.wait_for_all(writer.acked)
        self.assertEqual(members.given, given, "nobody was thrown out of the group")
        writer.assert_all_there()
        print(f"{writer.acked_count()} records through jumps of a day")
        self.broker.kill()
        self.broker.start()
        writer.assert_all_there()

    def check_append_time(self, probe: Probe):
        """A record gets the broker's time, and is found by it."""
        due_ms = int(time.time() * 1_000) + self.offset_ms
        error, append_time_ms, message = probe.send()
        self.assertEqual(error, 0, message)
        self.assertLess(abs(append_time_ms - due_ms), TOLERANCE_MS)
        with Connection(self.broker.bootstrap) as connection:
            partition = struct.pack(">iq", 0, append_time_ms)
            request = struct.pack(">i", -1) + array([string("appended") + array([partition])])
            found = connection.request(LIST_OFFSETS, 1, request)
            error, found_ms, offset = struct.unpack_from(">hqq", found, len(found) - 18)
        self.assertEqual(error, 0)
        self.assertGreaterEqual(found_ms, append_time_ms)
        self.assertGreaterEqual(offset, 0)

    def check_wait(self):
        """A fetch that finds nothing waits for half a second, whatever the clock does meanwhile."""
        with Connection(self.broker.bootstrap) as connection:
            began = time.monotonic()
            connection.send(FETCH, 4, fetch_v4("judged", 0, 0, 1_000))
            right_ms = self.offset_ms
            self.jump_to(right_ms - 3_600_000)
            connection.read_frame()
            self.jump_to(right_ms)
            self.assertLess(abs(time.monotonic() - began - 0.5), 0.4)

    def test_records_from_after_the_brokers_time_are_refused_until_it_is_right_again(self):
        """As by Kafka. They are not taken and dropped later, nor do they stay refused."""
        with Probe(self.broker.bootstrap, "judged") as probe:
            self.assertEqual(probe.send()[0], 0)
            self.jump_to(-DAY_MS)
            error, _, message = probe.send()
            self.assertEqual(error, INVALID_TIMESTAMP, message)
            self.jump_to(0)
            self.assertEqual(probe.send()[0], 0)
