"""The cases of tests/clients/cases.toml but for the groups', as far as kcat can."""

import json
import os
import subprocess
import time
import unittest

from kcat import BOOTSTRAP, DEADLINE_S, consume, consume_json, create_topic, kcat, produce, run

from client_cases.model import LARGEST_VALUE_BYTES, fresh

BASE_RECORDS = 10_000
TOO_LARGE_BYTES = 1_100_000

# What kcat has no option for.
MISSING = {
    "consume_deleted": "deletes no topics",
    "group_metadata": "commits without metadata",
    "transaction_commit": "its one transaction takes no offsets",
    "transaction_abort": "its one transaction takes no offsets",
    "transaction_fence": "its one transaction takes no offsets",
    "admin_topics": "creates and deletes no topics",
    "admin_partitions": "no such call",
    "admin_topic_configs": "no such call",
    "admin_broker_configs": "no such call",
    "admin_cluster": "does not tell the cluster's id",
    "admin_delete_records": "no such call",
    "admin_groups": "no such call",
    "admin_delete_groups": "no such call",
    "admin_group_offsets": "no such call",
    "admin_delete_offsets": "no such call",
    "admin_log_dirs": "no such call",
    "admin_quotas": "no such call",
    "admin_reassignments": "no such call",
    "admin_elect_leaders": "no such call",
    "admin_producers": "no such call",
    "error_topic_exists": "creates no topics",
    "error_invalid_config": "creates no topics",
    "error_wrong_epoch": "no such call",
    "error_unknown_group": "no such call",
    "error_stale_member": "no such call",
}


class Missing(unittest.TestCase):
    """One skipped case for each."""


for name, reason in MISSING.items():
    setattr(Missing, f"test_{name}", unittest.skip(reason)(lambda self: None))


class Case(unittest.TestCase):
    def topic(self, purpose: str, partitions: int = 1) -> str:
        topic = fresh(f"kcat-{purpose}")
        create_topic(topic, partitions)
        return topic


class Produce(Case):
    def assert_round_trip(self, *settings: str):
        topic = self.topic("round-trip")
        sent = b"".join(b"%d:value %d\n" % (number, number) for number in range(BASE_RECORDS))
        flags = [word for setting in settings for word in ("-X", setting)]
        # Only an idempotent producer keeps its order if a request is repeated while others are under way.
        if "enable.idempotence=true" not in settings:
            flags += ["-X", "max.in.flight.requests.per.connection=1"]
        produce(topic, "-K", ":", "-X", "batch.num.messages=1000", *flags, stdin=sent)
        self.assertEqual(consume(topic, "-K", ":"), sent)
        offsets = consume(topic, "-f", "%o\n").split()
        self.assertEqual([int(offset) for offset in offsets], list(range(BASE_RECORDS)))

    def test_produce_none(self):
        self.assert_round_trip("compression.codec=none")

    def test_produce_gzip(self):
        self.assert_round_trip("compression.codec=gzip")

    def test_produce_snappy(self):
        self.assert_round_trip("compression.codec=snappy")

    def test_produce_lz4(self):
        self.assert_round_trip("compression.codec=lz4")

    def test_produce_zstd(self):
        self.assert_round_trip("compression.codec=zstd")

    def test_produce_acks_0(self):
        self.assert_round_trip("acks=0")

    def test_produce_acks_1(self):
        self.assert_round_trip("acks=1")

    def test_produce_acks_all(self):
        self.assert_round_trip("acks=all")

    def test_produce_idempotent(self):
        self.assert_round_trip("enable.idempotence=true")

    def test_produce_headers(self):
        topic = self.topic("headers")
        produce(topic, "-H", "a=1", "-H", "b=", "-H", "a=2", "-H", "a=1", stdin=b"v\n")
        self.assertEqual(consume_json(topic)[0]["headers"], ["a", "1", "b", "", "a", "2", "a", "1"])

    def test_produce_nulls(self):
        topic = self.topic("nulls")
        produce(topic, "-K", ":", stdin=b"k:v\nk:\n:\n")
        produce(topic, "-K", ":", "-Z", stdin=b"k:\n:v\n")
        produce(topic, stdin=b"v\n")
        pairs = [(record["key"], record["payload"]) for record in consume_json(topic)]
        self.assertEqual(pairs, [("k", "v"), ("k", ""), ("", ""), ("k", None), (None, "v"), (None, "v")])

    def test_produce_sizes(self):
        topic = self.topic("sizes")
        sizes = [1, 100, 1_000, 10_000, 100_000, LARGEST_VALUE_BYTES]
        for size in sizes:
            produce(topic, "-X", "message.max.bytes=2000000", "-D", "\n", stdin=b"x" * size)
        self.assertEqual([len(value) for value in consume(topic).splitlines()], sizes)

    def test_produce_auto_create(self):
        topic = fresh("kcat-auto-created")
        produce(topic, stdin=b"first\n")
        self.assertEqual(consume(topic), b"first\n")


class Consume(Case):
    def numbered_topic(self, count: int, partitions: int = 1) -> str:
        topic = self.topic("numbered", partitions)
        for partition in range(partitions):
            sent = b"".join(b"%d\n" % number for number in range(count))
            produce(topic, "-p", str(partition), "-X", "enable.idempotence=true", stdin=sent)
        return topic

    def test_consume_assigned(self):
        topic = self.numbered_topic(2_000, partitions=3)
        read = [tuple(map(int, line.split())) for line in consume(topic, "-f", "%p %s\n").splitlines()]
        for partition in range(3):
            self.assertEqual([number for at, number in read if at == partition], list(range(2_000)))

    def test_consume_mid_batch(self):
        topic = self.numbered_topic(1_000)
        for offset in [1, 500, 777, 998, 999]:
            self.assertEqual(consume(topic, "-o", str(offset), "-c", "1"), b"%d\n" % offset)

    def test_consume_seek(self):
        topic = self.numbered_topic(100)
        for flag, numbers in {"40": range(40, 100), "-5": range(95, 100), "beginning": range(100), "end": ()}.items():
            self.assertEqual([int(line) for line in consume(topic, "-o", flag).split()], list(numbers))

    def test_consume_following(self):
        topic = self.numbered_topic(1)
        command = ["kcat", "-b", BOOTSTRAP, "-C", "-t", topic, "-o", "end", "-u", "-c", "1", "-X", "fetch.wait.max.ms=4000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
            while b"Reached end" not in follower.stderr.readline():
                self.assertIsNone(follower.poll())
            produce(topic, stdin=b"late\n")
            began = time.monotonic()
            self.assertEqual(follower.communicate(timeout=DEADLINE_S)[0], b"late\n")
            self.assertLess(time.monotonic() - began, 2)

    def test_consume_compacted(self):
        topic = os.environ["COMPACTED_TOPIC"]
        last = consume_json(topic)[-1]
        self.assertEqual((last["offset"], last["key"], last["payload"]), (5, "k2", None))
        produce(topic, "-K", ":", stdin=b"k3:value\n")
        self.assertEqual([record["key"] for record in consume_json(topic, "-o", "6")], ["k3"])

    def test_consume_read_committed(self):
        topic = self.numbered_topic(1_000)
        read = consume(topic, "-X", "isolation.level=read_committed").split()
        self.assertEqual([int(line) for line in read], list(range(1_000)))

    def test_consume_by_time(self):
        """Three records, written at different milliseconds."""
        topic, times_ms = self.topic("times"), []
        for number in range(3):
            produce(topic, stdin=b"record %d\n" % number)
            times_ms.append(consume_json(topic)[-1]["ts"])
            while time.time() * 1000 < times_ms[-1] + 2:
                time.sleep(0.001)
        first, second, third = times_ms
        self.assertEqual(consume(topic, "-o", f"s@{second}"), b"record 1\nrecord 2\n")
        self.assertEqual(consume(topic, "-o", f"s@{second + 1}"), b"record 2\n")
        self.assertEqual(consume(topic, "-o", f"s@{first}", "-o", f"e@{third}"), b"record 0\nrecord 1\n")
        for time_ms, offset in {0: 0, first + 1: 1, second: 1, third: 2, third + 1_000_000: -1}.items():
            answer = kcat("-Q", "-t", f"{topic}:0:{time_ms}").decode().strip()
            self.assertEqual(answer, f"{topic} [0] offset {offset}", f"at {time_ms}")


class Administration(Case):
    def test_admin_list_offsets(self):
        topic = self.topic("offsets", 2)
        produce(topic, "-p", "1", stdin=b"x\n" * 10)
        listed = [
            int(kcat("-Q", "-t", f"{topic}:{partition}:{which}").split()[-1])
            for partition in range(2)
            for which in (-2, -1)
        ]
        self.assertEqual(listed, [0, 0, 0, 10])


class Errors(Case):
    def test_error_unknown_topic(self):
        missing = fresh("kcat-missing")
        refused = run("-C", "-t", missing, "-e")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"Unknown topic or partition", refused.stderr)
        self.assertNotIn(missing, [topic["topic"] for topic in json.loads(kcat("-L", "-J"))["topics"]])

    def test_error_too_large(self):
        topic = self.topic("too-large")
        refused = run("-P", "-t", topic, "-X", "message.max.bytes=2000000", stdin=b"x" * TOO_LARGE_BYTES)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"Message size too large", refused.stderr)
        produce(topic, stdin=b"fits\n")
        self.assertEqual(consume(topic), b"fits\n")

    def test_error_offset_out_of_range(self):
        topic = self.topic("out-of-range")
        produce(topic, stdin=b"x\n")
        refused = run("-C", "-t", topic, "-o", "1000000", "-X", "auto.offset.reset=error", "-e")
        self.assertIn(b"out of range", refused.stderr)
