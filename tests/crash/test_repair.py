"""`logway log verify` and `logway log repair` on the files of a broker that was stopped."""

import json
import os
import random
import re
import struct
import subprocess
import time
import unittest
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from harness.broker import fresh_directory
from harness.brokers import KINDS
from harness.dump_log import dump_log
from harness.load import DEADLINE_S, admin_client, create_topics
from harness.logway import BINARY
from harness.seed import SEED
from harness.topics import read_to_end

KIND = KINDS[os.environ["AGAINST"]]
FLIPS = int(os.environ.get("FLIPS", 100))
PARTITIONS = 2
RECORDS = 6_000
DELETED_BEFORE = 100
MILLION = 1_000_000
MEMORY_MAX_KIB = 64 << 10

# What no repair can make again, because nothing else knows it, or what nobody reads.
METADATA = {"log.redb", "snapshot.json"}
UNREAD = {".lock", ".reserve", ".kafka_cleanshutdown"}


def log_command(command: str, *arguments: str | Path) -> subprocess.CompletedProcess:
    words = [BINARY, "log", command, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, timeout=DEADLINE_S)


def report(command: str, *arguments: str | Path) -> tuple[int, list[dict]]:
    """The exit code, and the rows of the report."""
    done = log_command(command, *arguments, "--format", "json")
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


@unittest.skipIf(KIND.kind != "logway", "it is about Logway's own files")
class Repair(unittest.TestCase):
    def setUp(self):
        """A stopped broker with a topic of several segments, the first records of which were deleted."""
        print(f"SEED={SEED}")
        self.chance = random.Random(SEED)
        self.broker = KIND("crash-repair", {"offsets.topic.num.partitions": "1"}).start()
        self.addCleanup(self.broker.kill)
        kept = NewTopic("kept", PARTITIONS, 1, config={"segment.bytes": "1048576"})
        create_topics(self.broker.bootstrap, kept, NewTopic("single", 1, 1))
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("kept", b"%-1000d" % number, partition=number % PARTITIONS)
            producer.poll(0)
            if number % 50 == 0:
                producer.flush(DEADLINE_S)
        producer.produce("single", b"v")
        self.assertEqual(producer.flush(DEADLINE_S), 0)
        deleted = [TopicPartition("kept", 0, DELETED_BEFORE)]
        admin = admin_client(self.broker.bootstrap)
        for future in admin.delete_records(deleted).values():
            future.result(DEADLINE_S)
        self.records = self.read()
        self.assertEqual(self.broker.stop(), 0)
        self.root = self.broker.data_dir
        self.assertEqual(report("verify", self.root)[0], 0)

    def read(self) -> list[tuple[int, int, bytes]]:
        records = read_to_end(self.broker.bootstrap, "kept")
        return sorted((record.partition(), record.offset(), record.value()) for record in records)

    def segments(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.root.rglob("*.log")}

    def assert_repaired(self, context: str):
        segments = self.segments()
        done = log_command("repair", self.root)
        self.assertEqual(done.returncode, 0, context + done.stdout.decode() + done.stderr.decode())
        verified = log_command("verify", self.root)
        self.assertEqual(verified.returncode, 0, context + verified.stderr.decode())
        self.assertEqual(self.segments(), segments, context)

    def assert_served(self, context: str):
        """A broker starts and has all records that there were; those that were deleted may be back."""
        self.broker.start()
        found = self.read()
        self.assertEqual(found[len(found) - len(self.records) :], self.records, context)
        self.assertEqual(self.broker.stop(), 0)

    def test_a_byte_that_changes_in_any_file_without_records_is_said_or_harmless_and_repaired(self):
        said = 0
        good = self.small_files()
        for flip in range(FLIPS):
            path, position = self.some_place()
            changed = bytearray(path.read_bytes())
            changed[position] ^= 1 << self.chance.randrange(8)
            path.write_bytes(changed)
            context = f"SEED={SEED}, flip {flip}: byte {position} of {path}\n"
            said += report("verify", self.root)[0]
            self.assert_repaired(context)
            if flip % 20 == 0:
                self.assert_served(context)
            self.put_back(good)
        self.assert_served(f"SEED={SEED}, at the end")
        print(f"{said} of {FLIPS} flips were reported and repaired, the others change nothing")
        self.assertGreater(said, FLIPS // 2)

    def small_files(self) -> dict[Path, bytes]:
        files = [path for path in self.root.rglob("*") if path.is_file() and path.suffix != ".log"]
        return {path: path.read_bytes() for path in files}

    def put_back(self, good: dict[Path, bytes]):
        found = self.small_files()
        for path in found.keys() - good.keys():
            path.unlink()
        for path, content in good.items():
            if found.get(path) != content:
                path.write_bytes(content)

    def some_place(self) -> tuple[Path, int]:
        left_out = METADATA | UNREAD
        files = [
            path
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path.suffix != ".log" and path.name not in left_out and path.stat().st_size
        ]
        while True:
            path = self.chance.choice(files)
            content = path.read_bytes()
            position = self.chance.randrange(len(content))
            # Nothing else knows the cluster's id.
            first = content.find(b"cluster.id") - 1 if path.name == "meta.properties" else len(content)
            if not first <= position <= content.find(b"\n", first + 1):
                return path, position

    def test_all_that_can_be_made_again_is(self):
        names = ["*index", "*.snapshot", "leader-epoch-checkpoint", "*-offset-checkpoint", "segment-lists"]
        for name in names:
            for path in self.root.rglob(name):
                path.unlink()
        code, rows = report("verify", self.root)
        self.assertEqual(code, 1)
        self.assertTrue(all(problem["repair"] for row in rows for problem in row["problems"]), rows)
        before = sorted(self.root.rglob("*"))
        code, rows = report("repair", self.root, "--dry-run")
        self.assertEqual((code, sorted(self.root.rglob("*"))), (0, before))
        self.assertGreater(sum(len(row["changes"]) for row in rows), 4)
        self.assert_repaired("")
        indexes = sorted((self.root / "kept-0").glob("*index"))
        self.assertGreater(len(indexes), 3)
        self.assertEqual(dump_log(indexes, "--index-sanity-check").count("passed sanity check"), len(indexes))
        dump_log([path for path in indexes if path.suffix == ".index"], "--verify-index-only")
        dump_log(indexes)
        self.assert_served("")

    def test_damage_in_the_metadata_is_said_and_left_alone(self):
        path = self.root / "metadata" / "log.redb"
        good = path.read_bytes()
        path.write_bytes(b"x" * len(good))
        for command in ["verify", "repair"]:
            code, rows = report(command, self.root)
            (problem,) = [problem for row in rows for problem in row["problems"]]
            self.assertEqual((code, problem["path"], problem["repair"]), (1, str(path), None))
        path.write_bytes(good)
        topic_id = (self.root / "kept-0" / "partition.metadata").read_text()
        (self.root / "kept-1").rename(self.root / "unknown-0")
        code, rows = report("verify", self.root)
        reasons = {Path(problem["path"]).name: problem["reason"] for row in rows for problem in row["problems"]}
        self.assertEqual(code, 1)
        self.assertIn("no such partition", reasons["unknown-0"])
        self.assertIn("kept-1", reasons["recovery-point-offset-checkpoint"])
        (self.root / "unknown-0").rename(self.root / "kept-1")
        self.assertEqual(path.read_bytes(), good)
        self.assertEqual((self.root / "kept-0" / "partition.metadata").read_text(), topic_id)
        self.assert_served("")

    def test_what_kill_9_leaves_is_no_problem(self):
        self.broker.start()
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("kept", b"%-1000d" % number, partition=0)
            producer.poll(0)
        producer.poll(0.2)
        self.broker.kill()
        code, rows = report("verify", self.root)
        self.assertEqual(code, 0, rows)
        segments = self.segments()
        self.assertEqual(report("repair", self.root)[0], 0)
        self.assertEqual(self.segments(), segments)
        self.broker.start()
        found = [record for record in self.read() if record[1] < RECORDS // PARTITIONS]
        self.assertEqual(found, self.records)
        self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(report("verify", self.root)[0], 0)

    def test_a_running_broker_keeps_its_directory_to_itself(self):
        self.broker.start()
        for command in ["verify", "repair"]:
            for path in [self.root, self.root / "kept-0"]:
                refused = log_command(command, path)
                self.assertEqual(refused.returncode, 1)
                self.assertRegex(refused.stderr.decode(), "in use by another process\nhint: a broker runs on it")
        self.assertEqual(report("verify", self.root, "--while-running")[0], 0)

    def test_a_million_entries_take_no_more_memory_than_few(self):
        directory = self.million_entries()
        offsets = directory / f"{0:020}.index"
        good = offsets.read_bytes()
        self.assertEqual(self.measured("verify", directory), 0)
        # Nearly all of them are wrong.
        entries = struct.iter_unpack(">ii", good)
        offsets.write_bytes(b"".join(struct.pack(">ii", offset, position + 1) for offset, position in entries))
        self.assertEqual(self.measured("verify", directory), 0)
        self.assertLess(len(log_command("verify", directory).stderr.splitlines()), 30)
        self.assertEqual(self.measured("repair", directory), 0)
        rebuilt = list(struct.iter_unpack(">ii", offsets.read_bytes()))
        self.assertGreater(len(rebuilt), 10_000)
        self.assertLessEqual(set(rebuilt), set(struct.iter_unpack(">ii", good)))
        (directory / f"{0:020}.log").unlink()

    def million_entries(self) -> Path:
        """A partition with a million batches, each of which is in the index. A batch's CRC leaves its offset out."""
        template = bytearray((self.root / "single-0" / f"{0:020}.log").read_bytes())
        directory = fresh_directory("crash-million") / "million-0"
        directory.mkdir()
        (directory / "partition.metadata").write_bytes((self.root / "single-0" / "partition.metadata").read_bytes())
        with (
            (directory / f"{0:020}.log").open("wb") as log,
            (directory / f"{0:020}.index").open("wb") as index,
        ):
            for number in range(MILLION):
                struct.pack_into(">q", template, 0, number)
                log.write(template)
                index.write(struct.pack(">ii", number, number * len(template)))
        return directory

    def measured(self, command: str, directory: Path) -> int:
        words = [BINARY, "log", command, str(directory)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            peak_kib = 0
            while process.poll() is None:
                # Not from getrusage, which counts what this process has: it was copied for a moment.
                peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
                peak_kib = max(peak_kib, int(peak[1]) if peak else 0)
                time.sleep(0.01)
        print(f"{command}: {peak_kib >> 10} MiB at most")
        self.assertLess(peak_kib, MEMORY_MAX_KIB)
        return process.returncode
