import base64
import os
import subprocess
import tempfile
import time
import unittest

from command import (
    BOOTSTRAP,
    DEADLINE_S,
    consume,
    consume_json,
    create_topic,
    logway_json,
    numbered_lines,
    produce,
    run,
)

from harness.logway import BINARY


class RoundTrip(unittest.TestCase):
    def test_every_codec_keeps_each_line(self):
        sent = numbered_lines(20_000)
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
            with self.subTest(codec):
                topic = create_topic(codec)
                produce(topic, sent, "-z", codec)
                self.assertEqual(consume(topic), sent)

    def test_every_level_of_acks(self):
        for acks in ["0", "1", "all"]:
            with self.subTest(acks):
                topic = create_topic(f"acks-{acks}")
                produce(topic, numbered_lines(1_000), "--acks", acks)
                self.assertEqual(consume(topic), numbered_lines(1_000))

    def test_a_file_with_bytes_that_are_not_text(self):
        topic = create_topic("file")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"\xff\xfe\n\n\r\nlast")
            file.flush()
            self.assertEqual(run("produce", topic, file.name).stdout, b"")
        self.assertEqual(consume(topic), b"\xff\xfe\n\n\r\nlast\n")
        values = [(record["value"], record.get("value_encoding")) for record in consume_json(topic)]
        self.assertEqual(values[0], (base64.b64encode(b"\xff\xfe").decode(), "base64"))
        self.assertEqual(values[1], ("", None))

    def test_keys_headers_partition_and_tombstones(self):
        topic = create_topic("kinds", "-p", "3")
        produce(topic, b"k=v=w\nk=\nno key\n", "-k", "=", "-H", "a=1", "-H", "a=2", "-p", "2", "--tombstone")
        records = consume_json(topic)
        self.assertEqual(
            [(record["key"], record["value"]) for record in records], [("k", "v=w"), ("k", None), (None, "no key")]
        )
        for offset, record in enumerate(records):
            self.assertEqual((record["topic"], record["partition"], record["offset"]), (topic, 2, offset))
            self.assertEqual(record["headers"], [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}])
            self.assertLess(abs(time.time() * 1000 - record["timestamp"]), 60_000)

    def test_a_template(self):
        topic = create_topic("template")
        produce(topic, b"k\tv\n", "-k", "\\t", "-H", "h=1")
        self.assertEqual(
            consume(topic, "-f", r"%t/%p:%o %k(%K)=%v(%V) %h 100%%\n"), f"{topic}/0:0 k(1)=v(1) h=1 100%\n".encode()
        )

    def test_equal_keys_meet_in_one_partition(self):
        topic = create_topic("keyed", "-p", "4")
        produce(topic, b"".join(b"k%d:%d\n" % (number % 20, number) for number in range(2_000)), "-k", ":")
        homes, last = {}, {}
        for line in consume(topic, "-f", r"%p %k %v\n").splitlines():
            partition, key, number = line.split()
            self.assertEqual(homes.setdefault(key, partition), partition)
            self.assertGreater(int(number), last.get(key, -1))
            last[key] = int(number)
        self.assertEqual((len(homes), len(set(homes.values()))), (20, 4))

    def test_the_report_as_data(self):
        report = logway_json("produce", create_topic("report"), stdin=numbered_lines(10))
        (partition,) = report["partitions"]
        self.assertEqual((report["records"], partition["first_offset"], partition["last_offset"]), (10, 0, 9))


class Positions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.topic = create_topic("positions")
        produce(cls.topic, numbered_lines(100))

    def offsets(self, *arguments: str) -> list[int]:
        return [int(offset) for offset in consume(self.topic, "-f", "%o\n", *arguments).split()]

    def test_every_form_of_offset(self):
        self.assertEqual(self.offsets("-o", "start"), list(range(100)))
        self.assertEqual(self.offsets("-o", "end"), [])
        self.assertEqual(self.offsets("-o", "97"), [97, 98, 99])
        self.assertEqual(self.offsets("-o", "-5"), list(range(95, 100)))
        self.assertEqual(self.offsets("-o", "40", "-n", "3", "-p", "0"), [40, 41, 42])

    def test_times(self):
        topic = create_topic("times")
        times_ms = []
        for number in range(3):
            produce(topic, b"record %d\n" % number)
            times_ms.append(consume_json(topic)[-1]["timestamp"])
            while time.time() * 1000 < times_ms[-1] + 2:
                time.sleep(0.001)
        self.assertEqual(consume(topic, "-o", f"@{times_ms[1]}"), b"record 1\nrecord 2\n")
        self.assertEqual(consume(topic, "-o", f"@{times_ms[1] + 1}"), b"record 2\n")
        self.assertEqual(consume(topic, "-o", "@2020-01-01T00:00:00Z", "-n", "1"), b"record 0\n")

    def test_follows_until_it_has_enough(self):
        command = [BINARY, "consume", self.topic, "-o", "99", "-n", "2", "-b", BOOTSTRAP]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
            self.assertEqual(follower.stdout.readline(), b"line 99\n")
            produce(self.topic, b"written later\n")
            self.assertEqual(follower.communicate(timeout=DEADLINE_S)[0], b"written later\n")
            self.assertEqual(follower.returncode, 0)

    def test_a_reader_that_has_seen_enough(self):
        shell = f"'{BINARY}' consume {self.topic} -b {BOOTSTRAP} -o start -e | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=DEADLINE_S, env=os.environ)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (b"line 0\n", b"", 0))
