"""A job of a program that reads a Kinesis stream from its start, over a resharding, and writes each record to a file as a line."""

import time
import unittest
from pathlib import Path

from harness.broker import fresh_directory
from harness.program import Program

STREAM = "lines"
RECORDS = 2_000
PER_REQUEST = 250
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240
JVM = ["java", "-XX:+UseSerialGC", "-Xmx500m"]


class StreamJob:
    """For a TestCase, which says `kinesis`, a client of boto3, before it calls this."""

    kinesis: object

    def begin(self: unittest.TestCase, name: str):
        self.kinesis.create_stream(StreamName=STREAM, ShardCount=2)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=STREAM, WaiterConfig={"Delay": 1})
        self.directory = fresh_directory(name)
        self.file = self.directory / "lines"
        self.put: list[str] = []

    def read_over_a_reshard(self: unittest.TestCase, command: list[str], beside=lambda: None):
        """Half of the records are put before a resharding, and half behind it. `beside` is called while the job runs."""
        self.put_records(RECORDS // 2)
        job = Program(command, self.directory / "job.log")
        job.start()
        self.addCleanup(job.kill)
        self.wait_until_all_read(job)
        self.kinesis.update_shard_count(StreamName=STREAM, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
        self.put_records(RECORDS // 2)
        beside()
        self.wait_until_all_read(job)

    def put_records(self: unittest.TestCase, count: int):
        for _ in range(count // PER_REQUEST):
            lines = [f"line {number}" for number in range(len(self.put), len(self.put) + PER_REQUEST)]
            entries = [{"Data": line.encode(), "PartitionKey": line} for line in lines]
            answer = self.kinesis.put_records(StreamName=STREAM, Records=entries)
            self.assertEqual(answer["FailedRecordCount"], 0)
            self.put += lines

    def wait_until_all_read(self: unittest.TestCase, job: Program):
        """Each at least once."""
        ends = time.monotonic() + DEADLINE_S
        while (read := self.read_now()) != set(self.put):
            job.check()
            self.assertLess(time.monotonic(), ends, f"{len(read)} of {len(self.put)}\n{job.log_end()}")
            time.sleep(0.1)

    def read_now(self) -> set[str]:
        return set(self.file.read_text().splitlines()) if self.file.exists() else set()


def opened(*packages: str) -> list[str]:
    """Words by which Java lets libraries of before its version 17 look into it."""
    return [word for package in packages for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]


def built(work: Path, name: str, main_class: str) -> list[str]:
    return ["-cp", f"{work}/{name}/classes:{work}/{name}/libs/*", main_class]
