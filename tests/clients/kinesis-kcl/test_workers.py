"""Workers of the client library over reshardings and a crash: each record at least once, and each key in its order."""

import collections
import os
import threading
import time
import unittest
import unittest.mock

from streams import client

from harness.broker import TESTS
from harness.logway import Logway
from harness.program import Program

BUILT = TESTS / ".work"

RECORDS = int(os.environ.get("RECORDS", "50000"))

# Each version and each way to read is tried once, unless all pairs are asked for: a pair takes minutes.
ALL_PAIRS = "ALL_PAIRS" in os.environ

KEYS = 500

WORKERS = 3

# Virtual machines of Java that start on a loaded machine take minutes.
DEADLINE_S = 480 + RECORDS / 1_000


class Workers:
    version = 3
    mode = "polling"

    def setUp(self):
        # Without AWS's own files of settings, which this machine may have.
        variables = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}
        self.enterContext(unittest.mock.patch.dict(os.environ, variables))
        self.stream = f"kcl-{self.version}-{self.mode.lower()}"
        self.broker = Logway(self.stream, {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(self.broker.kill)
        self.kinesis = client(self.broker)
        self.put = 0
        self.ends = time.monotonic() + DEADLINE_S

    def start_worker(self, number: int) -> Program:
        notes = self.notes_of(number)
        java = ["java", "-Xmx192m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        built = BUILT / f"kinesis-kcl-{self.version}"
        where = ["-cp", f"{built}/classes:{built}/libs/*", "io.logway.kcl.Worker"]
        arguments = [f"http://{self.broker.kinesis}", self.stream, f"worker-{number}", self.mode, str(notes)]
        worker = Program([*java, *where, *arguments], notes.with_suffix(".log"))
        worker.start()
        self.addCleanup(worker.kill)
        return worker

    def notes_of(self, number: int):
        return self.broker.data_dir.parent / f"{self.stream}-worker-{number}.notes"

    def put_all(self):
        """Puts all records, the next of each key behind the one before it."""
        counts = [0] * KEYS
        number = 0
        while number < RECORDS:
            entries = []
            for key in range(KEYS):
                data = f"{key}:{counts[key]}"
                counts[key] += 1
                entries.append({"Data": data.encode(), "PartitionKey": str(key)})
            answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
            self.assertEqual(answer["FailedRecordCount"], 0)
            number += len(entries)
            self.put = number

    def read_notes(self) -> list[tuple[int, str, str, str]]:
        """What all workers have noted, in the order of its time."""
        notes = []
        for number in range(WORKERS + 1):
            path = self.notes_of(number)
            for line in path.read_text().split("\n")[:-1] if path.exists() else []:
                at, what, shard, text = line.split(" ")
                notes.append((int(at), what, shard, text))
        return sorted(notes)

    def until(self, what: str, ask):
        while not (answer := ask()):
            if time.monotonic() > self.ends:
                self.fail(f"{what}: {self.state()}")
            time.sleep(0.5)
        return answer

    def state(self) -> str:
        notes = self.read_notes()
        records = {text for _, what, _, text in notes if what == "record"}
        logs = "".join(self.notes_of(it).with_suffix(".log").read_text()[-2_000:] for it in range(WORKERS))
        return f"{len(records)} of {self.put} records, {len(notes)} notes\n{logs}"

    def reshard(self, count: int):
        self.kinesis.update_shard_count(
            StreamName=self.stream, TargetShardCount=count, ScalingType="UNIFORM_SCALING"
        )
        summary = lambda: self.kinesis.describe_stream_summary(StreamName=self.stream)["StreamDescriptionSummary"]
        self.until(f"{count} shards", lambda: summary()["StreamStatus"] == "ACTIVE")
        self.assertEqual(summary()["OpenShardCount"], count)

    def test_all_records_reach_workers_in_order(self):
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=8)
        # The first one makes the tables: of several that do so at once, the library lets all but one fail.
        workers = [self.start_worker(0)]
        self.until("a worker begins", self.read_notes)
        workers += [self.start_worker(number) for number in range(1, WORKERS)]
        failed = []

        def put():
            try:
                self.put_all()
            except BaseException as error:
                failed.append(error)
                raise

        putting = threading.Thread(target=put)
        putting.start()
        self.addCleanup(putting.join)
        self.until("a third is put", lambda: failed or self.put >= RECORDS / 3)
        self.reshard(16)
        workers[0].kill()
        self.until("two thirds are put", lambda: failed or self.put >= RECORDS * 2 / 3)
        # No more than half of them at once, as at AWS.
        self.reshard(8)
        self.reshard(4)
        putting.join()
        self.assertEqual(failed, [])

        def records():
            return [text for _, what, _, text in self.read_notes() if what == "record"]

        self.until("all records are seen", lambda: len(set(records())) == self.put)
        self.check_order(records())
        for worker in workers[1:]:
            self.assertIsNone(worker.process.poll(), "it works still")
        self.assertIn("logway_cloudwatch_sum{", self.broker.metrics())
        owners = {item["leaseOwner"]["S"] for item in self.leases() if "leaseOwner" in item}
        self.assertTrue(owners <= {"worker-1", "worker-2"}, owners)

    def leases(self) -> list[dict]:
        dynamodb = client(self.broker, "dynamodb")
        pages = dynamodb.get_paginator("scan").paginate(TableName=f"{self.stream}-app")
        items = [item for page in pages for item in page["Items"]]
        return [item for item in items if item["leaseKey"]["S"].startswith("shardId-")]

    def check_order(self, records: list[str]):
        """A record may come again; but none comes for the first time before those of its key that were put before it."""
        nexts = collections.Counter()
        for text in records:
            key, number = text.split(":")
            if int(number) >= nexts[key]:
                self.assertEqual(int(number), nexts[key], f"the next record of key {key}")
                nexts[key] += 1
        self.assertEqual(sum(nexts.values()), self.put)


@unittest.skipUnless(ALL_PAIRS, "ALL_PAIRS=1 tries all pairs")
class Polling3(Workers, unittest.TestCase):
    pass


class FanOut3(Workers, unittest.TestCase):
    mode = "fanOut"


class Polling2(Workers, unittest.TestCase):
    version = 2


@unittest.skipUnless(ALL_PAIRS, "ALL_PAIRS=1 tries all pairs")
class FanOut2(Workers, unittest.TestCase):
    version = 2
    mode = "fanOut"


if __name__ == "__main__":
    unittest.main()
