import json
import random
import subprocess
import tempfile
import time
import unittest

from kcat import BOOTSTRAP, DEADLINE_S, consume, consume_json, create_topic, kcat, lines, produce, run


class Metadata(unittest.TestCase):
    def test_lists_brokers_and_topics(self):
        create_topic("kcat-listed", 3)
        listing = json.loads(kcat("-L", "-J"))
        self.assertEqual([broker["name"] for broker in listing["brokers"]], [BOOTSTRAP])
        topic = next(topic for topic in listing["topics"] if topic["topic"] == "kcat-listed")
        self.assertEqual([partition["partition"] for partition in topic["partitions"]], [0, 1, 2])
        node = listing["brokers"][0]["id"]
        for partition in topic["partitions"]:
            self.assertEqual((partition["leader"], partition["isrs"]), (node, [{"id": node}]))

    def test_plain_listing_names_the_broker_as_it_was_reached(self):
        self.assertIn(f"at {BOOTSTRAP}".encode(), kcat("-L"))


class RoundTrip(unittest.TestCase):
    def test_every_codec_keeps_each_line(self):
        sent = lines(20_000)
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
            with self.subTest(codec):
                create_topic(f"kcat-{codec}")
                produce(f"kcat-{codec}", "-z", codec, stdin=sent)
                self.assertEqual(consume(f"kcat-{codec}"), sent)

    def test_acks_and_idempotence(self):
        for settings in [["acks=0"], ["acks=1"], ["acks=all"], ["acks=all", "enable.idempotence=true"]]:
            with self.subTest(settings):
                topic = "kcat-" + "-".join(settings).replace("=", "-")
                create_topic(topic)
                produce(topic, *(flag for setting in settings for flag in ("-X", setting)), stdin=lines(1_000))
                self.assertEqual(consume(topic), lines(1_000))

    def test_a_binary_file_as_one_record(self):
        seed = random.randrange(1 << 32)
        blob = random.Random(seed).randbytes(900_000)
        with tempfile.NamedTemporaryFile() as file:
            file.write(blob)
            file.flush()
            produce("kcat-blob", file.name)
        self.assertEqual(consume("kcat-blob", "-f", "%s"), blob, f"seed {seed}")

    def test_keys_headers_and_null_values(self):
        produce("kcat-kinds", "-K", ":", "-H", "a=1", "-H", "a=2", "-H", "empty=", stdin=b"key:value\n")
        produce("kcat-kinds", "-K", ":", "-Z", stdin=b"tombstone:\n")
        produce("kcat-kinds", stdin=b"no key\n")
        first, second, third = consume_json("kcat-kinds")
        self.assertEqual((first["key"], first["payload"]), ("key", "value"))
        self.assertEqual(first["headers"], ["a", "1", "a", "2", "empty", ""])
        self.assertEqual((second["key"], second["payload"]), ("tombstone", None))
        self.assertEqual((third["key"], third["payload"]), (None, "no key"))
        self.assertEqual([record["offset"] for record in (first, second, third)], [0, 1, 2])

    def test_keys_choose_partitions_and_partitions_keep_their_order(self):
        create_topic("kcat-keyed", 4)
        sent = b"".join(b"k%d:%d\n" % (number % 50, number) for number in range(5_000))
        produce("kcat-keyed", "-K", ":", stdin=sent)
        homes, last = {}, {}
        for line in consume("kcat-keyed", "-f", "%p %k %s\n").splitlines():
            partition, key, number = line.split()
            self.assertEqual(homes.setdefault(key, partition), partition)
            self.assertGreater(int(number), last.get(partition, -1))
            last[partition] = int(number)
        self.assertEqual((len(homes), len(last)), (50, 4))

    def test_one_partition_of_several(self):
        create_topic("kcat-partition", 3)
        produce("kcat-partition", "-p", "2", stdin=lines(10))
        self.assertEqual(consume("kcat-partition", "-p", "2"), lines(10))
        self.assertEqual(consume("kcat-partition", "-p", "0"), b"")


class Offsets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        produce("kcat-offsets", stdin=lines(100))

    def offsets(self, *arguments):
        return [int(offset) for offset in consume("kcat-offsets", "-f", "%o\n", *arguments).split()]

    def test_absolute_relative_and_named_offsets(self):
        self.assertEqual(self.offsets("-o", "40", "-c", "10"), list(range(40, 50)))
        self.assertEqual(self.offsets("-o", "-5"), list(range(95, 100)))
        self.assertEqual(self.offsets("-o", "beginning"), list(range(100)))
        self.assertEqual(self.offsets("-o", "end"), [])

    def test_follows_the_end_of_the_log(self):
        command = ["kcat", "-b", BOOTSTRAP, "-C", "-t", "kcat-followed", "-o", "end", "-u", "-c", "1"]
        create_topic("kcat-followed")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
            while b"Reached end" not in follower.stderr.readline():
                self.assertIsNone(follower.poll())
            produce("kcat-followed", stdin=b"written later\n")
            self.assertEqual(follower.communicate(timeout=DEADLINE_S)[0], b"written later\n")


class Times(unittest.TestCase):
    """Three records, written at different milliseconds."""

    @classmethod
    def setUpClass(cls):
        cls.times_ms = []
        for number in range(3):
            produce("kcat-times", stdin=b"record %d\n" % number)
            cls.times_ms.append(consume_json("kcat-times")[-1]["ts"])
            while time.time() * 1000 < cls.times_ms[-1] + 2:
                time.sleep(0.001)

    def test_consumes_between_two_times(self):
        first, second, third = self.times_ms
        self.assertEqual(consume("kcat-times", "-o", f"s@{second}"), b"record 1\nrecord 2\n")
        self.assertEqual(consume("kcat-times", "-o", f"s@{second + 1}"), b"record 2\n")
        self.assertEqual(consume("kcat-times", "-o", f"s@{first}", "-o", f"e@{third}"), b"record 0\nrecord 1\n")

    def test_queries_the_offset_of_a_time(self):
        def offset_of(time_ms):
            return kcat("-Q", "-t", f"kcat-times:0:{time_ms}").decode().strip()

        first, second, third = self.times_ms
        for time_ms, offset in [
            (0, 0),
            (first + 1, 1),
            (second, 1),
            (third, 2),
            (third + 1_000_000, -1),
            (-1, 3),
            (-2, 0),
        ]:
            self.assertEqual(offset_of(time_ms), f"kcat-times [0] offset {offset}", f"at {time_ms}")


class Errors(unittest.TestCase):
    def test_a_partition_that_does_not_exist(self):
        produce("kcat-errors", stdin=b"x\n")
        refused = run("-C", "-t", "kcat-errors", "-p", "7", "-e", "-o", "beginning")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"partition 7 does not exist", refused.stderr)

    def test_an_offset_out_of_range_with_reset_to_error(self):
        produce("kcat-errors", stdin=b"x\n")
        refused = run("-C", "-t", "kcat-errors", "-o", "1000000", "-X", "auto.offset.reset=error", "-e")
        self.assertIn(b"out of range", refused.stderr)
