"""Files of a partition that are damaged while a broker uses them, and between two starts."""

import os
import random
import re
import struct
import subprocess
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic
from probe import Probe

from harness.brokers import KINDS
from harness.load import Writer, create_topics, read
from harness.protocol import FETCH, Connection, fetch_v4
from harness.seed import SEED

KIND = KINDS[os.environ["AGAINST"]]
SEGMENTS = {"segment.bytes": str(1 << 20)}
RECORDS = 40_000
PLACES = 5
DEADLINE_S = 30
CORRUPT_MESSAGE = 2
# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta.
BATCH_HEAD = struct.Struct(">qiibIhi")
# A batch's CRC leaves out what is before this byte of it.
CHECKED_FROM = 21


class Damage(unittest.TestCase):
    def setUp(self):
        print(f"SEED={SEED}")
        self.chance = random.Random(SEED)
        self.broker = KIND("machine-damage").start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, NewTopic("damaged", 1, 1, config=SEGMENTS))
        self.writer = self.enterContext(Writer(self.broker.bootstrap, "damaged", 1))
        self.writer.wait_for_acks(RECORDS)
        (self.directory,) = self.broker.data_dir.rglob("damaged-0")

    def test_indexes_that_are_truncated_and_deleted(self):
        """They only make look-ups fast: whatever becomes of them, records are found, and appended."""
        self.damage_indexes()
        self.read_at_random()
        self.writer.wait_for_more_acks(1_000)
        self.broker.kill()
        self.damage_indexes()
        self.broker.start()
        self.read_at_random()
        self.writer.wait_for_more_acks(1_000)
        self.broker.stop()
        self.damage_indexes()
        self.broker.start()
        self.read_at_random()
        self.writer.finish()
        self.writer.assert_all_there()

    def damage_indexes(self):
        indexes = sorted(self.directory.glob("*index"))
        for index in indexes:
            if self.chance.random() < 0.5:
                index.unlink()
            else:
                os.truncate(index, self.chance.randrange(index.stat().st_size + 1))
        print(f"{len(indexes)} indexes damaged")
        # Those that were removed before are made anew when somebody asks for them.
        self.assertGreater(len(indexes), 0)

    def read_at_random(self):
        end = len(self.writer.acked[0])
        for _ in range(PLACES):
            start = self.chance.randrange(end)
            some = min(start + 100, end)
            found = read(self.broker.bootstrap, "damaged", {0: (start, some)})[0]
            self.assertEqual(found, list(range(start, some)))

    @unittest.skipIf(KIND.kind != "logway", "Kafka leaves it to its consumers to find damage")
    def test_a_byte_that_flips_under_a_running_broker(self):
        """It is reported, and costs the batch that it is in and nothing else."""
        self.writer.finish()
        segment = self.chance.choice(sorted(self.directory.glob("*.log"))[:-1])
        first, last, position, size_bytes = self.chance.choice(batches_of(segment))
        flipped = position + self.chance.randrange(CHECKED_FROM, size_bytes)
        print(f"byte {flipped} of {segment.name}, in the batch of offsets {first} to {last}")
        flip(segment, flipped, 1 << self.chance.randrange(8))
        for start, end in [(0, first), (last + 1, len(self.writer.acked[0]))]:
            if start < end:
                done = self.kcat("-o", str(start), "-c", str(end - start), "-f", "%o\\n", "-X", "check.crcs=true")
                self.assertEqual([int(offset) for offset in done.stdout.split()], list(range(start, end)), done.stderr)
        self.assert_refused(segment, first, size_bytes)
        # And by a broker that has not seen it as it was.
        self.broker.stop()
        self.broker.start()
        self.assert_refused(segment, first, size_bytes)
        with Probe(self.broker.bootstrap, "damaged") as probe:
            self.assertEqual(probe.send()[0], 0)


    def kcat(self, *arguments: str) -> subprocess.CompletedProcess:
        command = ["kcat", "-b", self.broker.bootstrap, "-C", "-t", "damaged", "-p", "0", "-q", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)

    def assert_refused(self, segment: Path, first: int, size_bytes: int):
        """A consumer that does not check records gets none of the damaged ones, and is told so at once."""
        with Connection(self.broker.bootstrap) as consumer:
            answer = consumer.request(FETCH, 4, fetch_v4("damaged", 0, first, size_bytes))
        # Throttle time, one topic, its name, one partition, its number, and then the error.
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len("damaged") + 4 + 4)
        self.assertEqual(error, CORRUPT_MESSAGE)
        done = self.kcat("-o", str(first), "-c", "1")
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(self.broker.metrics(), re.compile(r"^logway_damaged_batches_total [1-9]", re.MULTILINE))
        self.assertIn(f"{segment}", self.broker.log_since_start())


def batches_of(segment: Path) -> list[tuple[int, int, int, int]]:
    """The first and the last offset of each batch in a segment, its position and its size in bytes."""
    content, position, batches = segment.read_bytes(), 0, []
    while position < len(content):
        base, length, _, _, _, _, last_delta = BATCH_HEAD.unpack_from(content, position)
        batches.append((base, base + last_delta, position, 12 + length))
        position += 12 + length
    return batches


def flip(path: Path, position: int, bit: int):
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ bit]))
