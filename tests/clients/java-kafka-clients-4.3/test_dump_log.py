"""Kafka's DumpLogSegments reads the broker's own files: segments, indexes and producer snapshots."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from tools import CODECS, ask, create_topic

from harness.dump_log import dump_log
from harness.logway import BINARY

DATA_DIR = Path(os.environ["DATA_DIR"])
RECORDS = 5_000


def partition_directory(topic: str) -> Path:
    (directory,) = DATA_DIR.rglob(f"{topic}-0")
    return directory


class DumpLog(unittest.TestCase):
    """A partition of several segments for every codec, written by an idempotent producer."""

    @classmethod
    def setUpClass(cls):
        for codec in CODECS:
            create_topic(f"dump-{codec}", 1, segment_bytes=1_048_576)
            ask(
                "ProducerPerformance",
                "--topic",
                f"dump-{codec}",
                "--num-records",
                str(RECORDS),
                "--record-size",
                "1000",
                "--throughput",
                "-1",
                "--command-property",
                f"compression.type={codec}",
                "enable.idempotence=true",
            )

    def files(self, codec: str, suffix: str) -> list[Path]:
        """A partition's files of one kind, the active segment's last."""
        files = sorted(partition_directory(f"dump-{codec}").glob(f"*{suffix}"))
        self.assertGreater(len(files), 1, f"{codec}: no segment was closed")
        return files

    def test_segments_hold_every_record(self):
        for codec in CODECS:
            with self.subTest(codec):
                dumped = dump_log(self.files(codec, ".log"), "--deep-iteration")
                offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]
                self.assertEqual(offsets, list(range(RECORDS)))
                self.assertEqual(set(re.findall(r"compresscodec: (\w+)", dumped)), {codec})
                sequences = [int(number) for number in re.findall(r"lastSequence: (-?\d+)", dumped)]
                self.assertEqual(sequences[-1], RECORDS - 1)

    def test_indexes_agree_with_their_segments(self):
        for codec in CODECS:
            with self.subTest(codec):
                offset_indexes, time_indexes = self.files(codec, ".index"), self.files(codec, ".timeindex")
                self.assertIn("offset: ", dump_log(offset_indexes))
                self.assertIn("timestamp: ", dump_log(time_indexes))
                dump_log(offset_indexes, "--verify-index-only")
                # The active segment's indexes may be padded with zeros, which only their owner can tell from entries.
                closed = offset_indexes[:-1] + time_indexes[:-1]
                checked = dump_log(closed, "--index-sanity-check")
                self.assertEqual(checked.count("passed sanity check"), len(closed))

    @unittest.skipUnless(os.environ.get("AGAINST", "logway") == "logway", "it is about Logway's own command")
    def test_indexes_that_were_rebuilt(self):
        """`logway log repair` makes them as the broker did, byte for byte; DumpLogSegments has nothing to add."""
        for codec in CODECS:
            with self.subTest(codec), tempfile.TemporaryDirectory() as directory:
                copy = Path(directory) / f"dump-{codec}-0"
                shutil.copytree(partition_directory(f"dump-{codec}"), copy)
                sealed = [path for suffix in [".index", ".timeindex"] for path in sorted(copy.glob(f"*{suffix}"))[:-1]]
                written = {path: path.read_bytes() for path in sealed}
                for path in sealed:
                    path.unlink()
                subprocess.run([BINARY, "log", "repair", str(copy)], check=True, capture_output=True, timeout=60)
                self.assertEqual({path: path.read_bytes() for path in sealed}, written)
                checked = dump_log(sealed, "--index-sanity-check")
                self.assertEqual(checked.count("passed sanity check"), len(sealed))
                dump_log([path for path in sealed if path.suffix == ".index"], "--verify-index-only")
                dump_log(sealed)

    def test_producer_snapshots(self):
        for codec in CODECS:
            with self.subTest(codec):
                snapshots = self.files(codec, ".snapshot")
                dumped = dump_log(snapshots)
                last_offsets = re.findall(
                    r"^producerId: \d+ producerEpoch: 0 .* lastOffset: (\d+)", dumped, re.MULTILINE
                )
                self.assertEqual(last_offsets, [str(int(snapshot.stem) - 1) for snapshot in snapshots])
