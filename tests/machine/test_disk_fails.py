"""Disks that turn read-only or lose power under a broker that is written to."""

import os
import random
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic
from probe import KAFKA_STORAGE_ERROR, Probe

from harness.brokers import KINDS
from harness.load import Writer, assert_kept, create_topics, read_all
from harness.seed import SEED
from harness.volume import MEBIBYTE, Volume
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
DISK_BYTES = 256 * MEBIBYTE
PARTITIONS = 4
DEADLINE_S = 30
ROUNDS = int(os.environ.get("ROUNDS", 3))


@unittest.skipIf(KIND.kind != "logway", "Kafka's controller stays where it is, and its exit codes are others")
class DiskFails(unittest.TestCase):
    def setUp(self):
        self.disk = Volume(self, "machine-disk-fails", DISK_BYTES)
        # Small segments, so that files are made all the time.
        small = {"segment.bytes": str(MEBIBYTE)}
        self.topics = [NewTopic(name, PARTITIONS, 1, config=small) for name in ("kept", "probed")]

    def start(self, data_dir: Path) -> Writer:
        self.broker = KIND("machine-disk-fails", data_dir=data_dir).start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, *self.topics)
        writer = self.enterContext(Writer(self.broker.bootstrap, "kept", PARTITIONS, producers=2))
        writer.wait_for_acks(5_000)
        return writer

    def turn_read_only(self, writer: Writer) -> list[list[tuple[int, int]]]:
        """Has the file system find an error in itself, and says what was acknowledged before.

        What is acknowledged at that moment does not count. ext4 gives up the transaction of its journal that is under
        way, and says only milliseconds later that it has stopped. A sync in between can succeed although the new length
        of its file is lost, and nothing tells the broker.
        """
        acked = writer.acked_now()
        self.disk.fail()
        return acked

    def test_one_of_two_directories_turns_read_only(self):
        """The partitions on the other one go on; those on this one come back with it, at the next start."""
        first = self.disk.path.with_name("first")
        writer = self.start(Path(f"{first},{self.disk.path / 'data'}"))
        lost = lambda topic: {int(path.name.split("-")[1]) for path in self.disk.path.glob(f"data/{topic}-?")}
        going_on = set(range(PARTITIONS)) - lost("kept")
        self.assertEqual(len(going_on), PARTITIONS // 2)
        acked = self.turn_read_only(writer)
        with Probe(self.broker.bootstrap, "probed", lost("probed").pop()) as probe:
            self.assertEqual(probe.send()[0], KAFKA_STORAGE_ERROR)
            wait_until(lambda: str(self.disk.path) in probe.send()[2], "the refusal to name the directory", DEADLINE_S)
        before = writer.acked_now()
        wait_until(
            lambda: all(len(writer.acked[id]) > len(before[id]) + 1_000 for id in going_on),
            "the partitions of the other directory to go on",
            DEADLINE_S,
        )
        self.assertIsNone(self.broker.process.poll())
        self.broker.stop()
        # Of these the disk works.
        for partition, since in enumerate(writer.acked_now()):
            if partition in going_on:
                acked[partition] = since
        self.disk.mount_again()
        self.broker.start()
        assert_kept(acked, read_all(self.broker.bootstrap, "kept", PARTITIONS))

    def test_the_only_directory_turns_read_only(self):
        """The broker ends and says why."""
        writer = self.start(self.disk.path / "data")
        acked = self.turn_read_only(writer)
        self.assertGreater(self.broker.process.wait(DEADLINE_S), 0)
        self.assertRegex(self.broker.log_since_start(), rf"log directory {self.disk.path}/data has failed")
        self.disk.mount_again()
        self.broker.start()
        assert_kept(acked, read_all(self.broker.bootstrap, "kept", PARTITIONS))

    def test_the_power_of_the_disk_is_cut(self):
        """What the file system had not written is lost. What was acknowledged or seen by a consumer is not.

        That holds for what is acknowledged at the moment of the cut, too, and must: the producers go on behind it. Of a
        sync that is under way then ext4 may say that all is written, although the new length of the file is lost. But it
        says before that it has stopped, to whoever asks behind the sync, as the broker does.
        """
        chance = random.Random(SEED)
        writer = self.start(self.disk.path / "data")
        for number in range(ROUNDS):
            writer.wait_for_more_acks(chance.randrange(1, 10_000))
            seen = read_all(self.broker.bootstrap, "kept", PARTITIONS)
            self.disk.cut_power()
            self.broker.kill()
            acked = writer.acked_now()
            self.disk.mount_again()
            self.broker.start()
            found = read_all(self.broker.bootstrap, "kept", PARTITIONS)
            counts = f"{sum(map(len, acked))} records acknowledged, {sum(map(len, found))} found"
            print(f"SEED={SEED}, cut {number}: {counts}")
            assert_kept(acked, found)
            for partition in range(PARTITIONS):
                self.assertGreaterEqual(len(found[partition]), len(seen[partition]))
        writer.finish()
        writer.assert_all_there()
        print(f"{writer.acked_count()} records were acknowledged")
