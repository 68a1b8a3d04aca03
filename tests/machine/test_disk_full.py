"""A disk that fills under a broker that is written to, by what others store and by what producers send."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from probe import KAFKA_STORAGE_ERROR, Probe

from harness.brokers import KINDS
from harness.load import DEADLINE_S, Writer, admin_client, assert_kept, create_topics, read_all
from harness.logway import BINARY
from harness.volume import MEBIBYTE, Volume
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
DISK_BYTES = 96 * MEBIBYTE
SPARE_BYTES = 8 * MEBIBYTE
KEPT_BYTES = 2 * MEBIBYTE
PARTITIONS = 4
RESUMED_S_MAX = 1.0
# Time enough for the disk to be filled before.
OLD_AFTER_MS = 6_000
SAID_EVERY_S = 10
# Appends leave 2 MiB.
LEFT_FREE_BYTES = 3 * MEBIBYTE
# Of the topic that is written to all the time. All else has the default settings: files of what is deleted are
# kept for a minute, old records are looked for every five minutes, and a topic's records are in one segment.
SEGMENTS = {"segment.bytes": str(MEBIBYTE)}


class DiskFull(unittest.TestCase):
    def setUp(self):
        """A broker with all that it has on a small disk, and writers to it."""
        self.disk = Volume(self, "machine-disk-full", DISK_BYTES)
        self.broker = KIND("machine-disk-full", data_dir=self.disk.path / "data").start()
        self.began = time.monotonic()
        self.addCleanup(self.broker.kill)
        aging = NewTopic("aging", 1, 1, config={"retention.ms": "1000"})
        names = ("probed", "trimmed", "spare", "doomed", "flood", "kept-by-time", "kept-by-size")
        others = [NewTopic(name, 1, 1, config={"retention.ms": "-1"}) for name in names]
        segmented = NewTopic("segmented", 1, 1, config={"retention.ms": "-1", **SEGMENTS})
        create_topics(self.broker.bootstrap, NewTopic("kept", PARTITIONS, 1, config=SEGMENTS), aging, segmented, *others)
        self.writer = self.enterContext(Writer(self.broker.bootstrap, "kept", PARTITIONS, producers=2))
        self.writer.wait_for_acks(5_000)
        self.probe = self.enterContext(Probe(self.broker.bootstrap, "probed"))
        self.put("trimmed", 4 * MEBIBYTE)
        self.trimmed = 0

    def test_a_disk_that_others_fill_and_each_way_out(self):
        for topic in ("spare", "doomed", "kept-by-time", "kept-by-size", "segmented"):
            self.put(topic, SPARE_BYTES)
        ways_out = {
            "the space comes back": self.disk.make_room,
            "DeleteRecords": self.delete_records,
            "a topic is deleted": lambda: self.delete_topic("doomed"),
            "retention.ms is lowered": lambda: self.alter_topic("kept-by-time", "retention.ms", "1"),
            "retention.bytes is lowered to 0": lambda: self.alter_topic("kept-by-size", "retention.bytes", "0"),
            "retention.bytes is lowered": lambda: self.alter_topic("segmented", "retention.bytes", str(KEPT_BYTES)),
        }
        pid = self.broker.process.pid
        for name, make_room in ways_out.items():
            with self.subTest(name):
                self.fill()
                began = time.monotonic()
                make_room()
                self.assert_resumed(name, began)
        with self.subTest("what retention.bytes frees"):
            # Whole segments, as long as so much is left; as in Kafka.
            self.assertTrue(KEPT_BYTES <= self.stored_bytes("segmented") < KEPT_BYTES + 2 * MEBIBYTE)
        with self.subTest("retention"):
            self.disk.make_room()
            # Old enough in a few seconds.
            self.put("aging", SPARE_BYTES, timestamp_ms=int(time.time() * 1_000) + OLD_AFTER_MS)
            self.fill()
            self.wait_for_retention()
            self.assert_resumed("retention", time.monotonic())
        self.disk.make_room()
        self.assertEqual(self.broker.process.pid, pid)
        self.assert_all_there()

    def test_a_limit_that_the_only_segment_exceeds_frees_nothing(self):
        """The segment that is appended to goes whole or not at all, as in Kafka. DeleteRecords frees it."""
        self.put("spare", SPARE_BYTES)
        self.put("segmented", SPARE_BYTES)
        self.fill()
        self.alter_topic("spare", "retention.bytes", str(KEPT_BYTES))
        self.check_refusal(self.probe.until_refused())
        # When this one's segments are gone, the other's limit was looked at, too.
        self.alter_topic("segmented", "retention.bytes", str(KEPT_BYTES))
        wait_until(lambda: self.stored_bytes("segmented") < SPARE_BYTES // 2, "old segments to go", DEADLINE_S)
        self.probe.until_taken()
        self.assertGreaterEqual(self.stored_bytes("spare"), SPARE_BYTES)
        self.fill()
        began = time.monotonic()
        self.delete_records()
        self.assert_resumed("DeleteRecords to the end", began)
        self.assertEqual(self.stored_bytes("spare"), 0)
        self.assert_all_there()

    def test_a_disk_that_producers_fill(self):
        with Probe(self.broker.bootstrap, "flood") as flood, self.assertRaisesRegex(AssertionError, "error 56"):
            flood.fill(2 * DISK_BYTES)
        self.check_refusal(self.probe.until_refused())
        began = time.monotonic()
        self.delete_topic("flood")
        self.assert_resumed("the topic is deleted", began)
        self.assert_all_there()

    @unittest.skipIf(KIND.kind != "logway", "it is about the command line")
    def test_what_the_command_line_says_of_it(self):
        """The disk is the reason, also for what is sent behind the first refused batch."""
        command = [BINARY, "produce", "spare", "--format", "json", "-b", self.broker.bootstrap]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sender:
            self.addCleanup(sender.kill)
            sender.stdin.write(b"first\n")
            sender.stdin.flush()
            read = [BINARY, "consume", "spare", "-e", "-b", self.broker.bootstrap]
            stored = lambda: subprocess.run(read, capture_output=True).stdout == b"first\n"
            wait_until(stored, "the first record to be stored", DEADLINE_S)
            self.fill()
            # Several batches, which are on their way together.
            sender.stdin.write((b"x" * 1_000 + b"\n") * 2_000)
            sender.stdin.flush()
            said = sender.stderr.readline().decode()
            sender.send_signal(signal.SIGINT)
            report, more = (stream.read().decode() for stream in (sender.stdout, sender.stderr))
            self.assertEqual(sender.wait(DEADLINE_S), 130)
        self.assertRegex(said, "warning: cannot write to spare-0: .* bytes are free.*still trying")
        self.assertNotIn("OUT_OF_ORDER", said + more)
        report = json.loads(report)
        self.assertEqual((report["records"], report["unanswered_records"]), (1, 0), report)
        self.assertGreater(report["refused_records"], 0)
        self.assertIn("more were refused by the broker", more)
        self.disk.make_room()

    def test_a_disk_that_stays_full_and_a_broker_that_is_killed_and_started_on_it(self):
        self.put("spare", SPARE_BYTES)
        self.fill()
        acked = self.writer.acked_now()
        self.broker.kill()
        self.broker.start()
        print(f"ready on a full disk in {self.broker.ready_s:.2f} s")
        assert_kept(acked, read_all(self.broker.bootstrap, "kept", PARTITIONS))
        self.probe = self.enterContext(Probe(self.broker.bootstrap, "probed"))
        self.check_refusal(self.probe.until_refused())
        began = time.monotonic()
        self.delete_records()
        self.assert_resumed("DeleteRecords after a kill", began)
        self.disk.make_room()
        self.assert_all_there()

    def put(self, topic: str, size_bytes: int, timestamp_ms: int | None = None):
        with Probe(self.broker.bootstrap, topic) as probe:
            probe.fill(size_bytes, timestamp_ms=timestamp_ms)

    def fill(self):
        """Fills the disk: reads go on, and what needs space is refused in a way that clients try again after."""
        self.disk.fill()
        self.check_refusal(self.probe.until_refused())
        # The first checkpoint uses what the broker has in reserve, and who tries again must not get that.
        self.trimmed += 1
        self.delete_records("trimmed", before=self.trimmed)
        for _ in range(100):
            self.check_refusal(self.probe.until_refused())
        acked = self.writer.acked_now()
        assert_kept(acked, read_all(self.broker.bootstrap, "kept", PARTITIONS))
        with self.assertRaises(KafkaException) as refused:
            create_topics(self.broker.bootstrap, NewTopic("one-more", 1, 1))
        self.assertEqual(refused.exception.args[0].code(), KAFKA_STORAGE_ERROR)

    def check_refusal(self, message: str):
        """It says which disk is full, and how full."""
        self.assertIn(str(self.broker.data_dir), message)
        (free_bytes,) = re.findall(r"(\d+) bytes are free", message)
        self.assertLess(int(free_bytes), LEFT_FREE_BYTES, message)

    def assert_resumed(self, why: str, began: float):
        """From `began` on, when the way out was taken, to the first append that succeeds."""
        self.probe.until_taken()
        resumed_s = time.monotonic() - began
        acked, began = self.writer.acked_count(), time.monotonic()
        self.writer.wait_for_acks(acked + 1)
        print(f"{why}: appends resume after {resumed_s:.2f} s, the writers after {time.monotonic() - began:.2f} s more")
        self.assertLess(resumed_s, RESUMED_S_MAX, why)

    def delete_records(self, topic: str = "spare", before: int = OFFSET_END):
        admin = admin_client(self.broker.bootstrap)
        for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
            future.result(DEADLINE_S)

    def delete_topic(self, topic: str):
        admin = admin_client(self.broker.bootstrap)
        admin.delete_topics([topic])[topic].result(DEADLINE_S)

    def alter_topic(self, topic: str, name: str, value: str):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin = admin_client(self.broker.bootstrap)
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)

    def wait_for_retention(self):
        wait_until(lambda: self.stored_bytes("aging") == 0, "retention to delete all records of 'aging'", DEADLINE_S)

    def stored_bytes(self, topic: str) -> int:
        (directory,) = self.broker.data_dir.rglob(f"{topic}-0")
        while True:
            try:
                return sum(path.stat().st_size for path in directory.glob("*.log"))
            except FileNotFoundError:
                # It has just gone.
                pass

    def assert_all_there(self):
        """When the broker goes on, after its next start, and in its files."""
        self.writer.finish()
        self.writer.assert_all_there()
        self.assertEqual(self.broker.stop(), KIND.sigterm_exit_code)
        if KIND.kind == "logway":
            verify = [BINARY, "log", "verify", str(self.broker.data_dir)]
            verified = subprocess.run(verify, capture_output=True, text=True)
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
            # However often producers try again, it is said once in a while.
            said_most = 1 + (time.monotonic() - self.began) // SAID_EVERY_S
            self.assertLessEqual(self.broker.log_since_start().count("appends failed"), said_most)
        self.broker.start()
        self.writer.assert_all_there()
        print(f"{self.writer.acked_count()} records were acknowledged")
