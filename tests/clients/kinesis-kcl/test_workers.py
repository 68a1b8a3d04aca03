"""Workers of the client library over reshardings and crashes: each record at least once, each key in its order, leases in balance."""

import collections
import os
import threading
import time
import unittest
import unittest.mock

from notes import Notes
from streams import client

from harness.broker import TESTS
from harness.logway import Logway
from harness.program import Program

BUILT = TESTS / ".work"

RECORDS = int(os.environ.get("RECORDS", "20000"))

# The class that is tried: a version and a way to read. It takes minutes.
PAIR = os.environ.get("PAIR", "FanOut3")

KEYS = 500

# So many records a second at least, all the time that workers come and go.
RATE = max(500, RECORDS // 300)

WORKERS = 3

# As many as 8 shards become, at most, and what a merge leaves.
SHARDS, MORE_SHARDS, FEWER_SHARDS = 8, 16, 4

# Virtual machines of Java that start on a loaded machine take minutes.
DEADLINE_S = 900 + RECORDS / 1_000


class Workers:
    version = "3"
    mode = "polling"

    def setUp(self):
        # Without AWS's own files of settings, which this machine may have.
        variables = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}
        self.enterContext(unittest.mock.patch.dict(os.environ, variables))
        self.stream = f"kcl-{self.version}-{self.mode.lower()}"
        self.broker = Logway(self.stream, {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(self.broker.kill)
        self.kinesis, self.dynamodb = client(self.broker), client(self.broker, "dynamodb")
        self.notes = Notes()
        self.workers: dict[str, Program] = {}
        self.put = 0
        self.may_end, self.failed = threading.Event(), []
        self.ends = time.monotonic() + DEADLINE_S

    def start_worker(self):
        name = f"worker-{len(self.notes.paths)}"
        path = self.notes.add(self.broker.directory / f"{self.stream}-{name}.notes")
        java = ["java", "-Xmx192m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        built = BUILT / f"kinesis-kcl-{self.version}"
        where = ["-cp", f"{built}/classes:{built}/libs/*", "io.logway.kcl.Worker"]
        arguments = [f"http://{self.broker.kinesis}", self.stream, name, self.mode, str(path)]
        self.workers[name] = Program([*java, *where, *arguments], path.with_suffix(".log"))
        self.workers[name].start()
        self.addCleanup(self.workers[name].kill)

    def replace_a_worker(self):
        """Kills the one that has worked for longest, and starts another one."""
        name = next(iter(self.workers))
        self.workers.pop(name).kill()
        self.start_worker()

    def put_all(self):
        """Puts records at a pace until there are enough and it may end, the next of each key behind the one before it."""
        try:
            began = time.monotonic()
            for number in range(1 << 30):
                if self.put >= RECORDS and self.may_end.is_set():
                    return
                entries = [{"Data": f"{key}:{number}".encode(), "PartitionKey": str(key)} for key in range(KEYS)]
                answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
                self.assertEqual(answer["FailedRecordCount"], 0)
                self.put += len(entries)
                time.sleep(max(0.0, began + self.put / RATE - time.monotonic()))
        except BaseException as error:
            self.failed.append(error)
            raise

    def until(self, what: str, ask):
        while not (answer := ask()):
            if self.failed or time.monotonic() > self.ends:
                self.fail(f"{what}: {self.failed or self.state()}")
            time.sleep(0.5)
        return answer

    def state(self) -> str:
        logs = "".join(path.with_suffix(".log").read_text()[-2_000:] for path in self.notes.paths)
        return f"{len(self.notes.records())} of {self.put} records, leases {self.leases()}\n{logs}"

    def reshard(self, *counts: int):
        """No more than twice or half as many at once, as at AWS."""
        for count in counts:
            self.kinesis.update_shard_count(
                StreamName=self.stream, TargetShardCount=count, ScalingType="UNIFORM_SCALING"
            )
            summary = lambda: self.kinesis.describe_stream_summary(StreamName=self.stream)["StreamDescriptionSummary"]
            self.until(f"{count} shards", lambda: summary()["StreamStatus"] == "ACTIVE")
            self.assertEqual(summary()["OpenShardCount"], count)

    def until_balanced(self, shards: int):
        """Waits until the workers have all leases of the open shards, and about the same number of leases each.

        Versions 1 and 2 count those of shards that are read to their end for some minutes, version 3 does not.
        """
        began = time.monotonic()

        def is_even(counts: collections.Counter) -> bool:
            return counts.keys() == self.workers.keys() and max(counts.values()) - min(counts.values()) <= 2

        def are_balanced():
            at_work, all_of_them = self.leases()
            has_all = at_work.total() == shards and at_work.keys() <= self.workers.keys()
            return at_work if has_all and (is_even(at_work) or is_even(all_of_them)) else None

        counts = self.until(f"{shards} leases in balance", are_balanced)
        print(f"{self.stream}: {shards} leases in balance after {time.monotonic() - began:.1f} s: {dict(counts)}", flush=True)

    def leases(self) -> tuple[collections.Counter, collections.Counter]:
        """How many leases each worker has of shards that are not read to their end, and of all."""
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=f"{self.stream}-app")
        items = [item for page in pages for item in page["Items"] if item["leaseKey"]["S"].startswith("shardId-")]
        at_work = [item for item in items if item["checkpoint"]["S"] != "SHARD_END"]
        return tuple(
            collections.Counter(item.get("leaseOwner", {}).get("S", "nobody") for item in some) for some in (at_work, items)
        )

    def test_all_records_reach_workers_in_order(self):
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=SHARDS)
        # The first one makes the tables: of several that do so at once, the library lets all but one fail.
        self.start_worker()
        self.until("a worker begins", self.notes.read)
        for _ in range(1, WORKERS):
            self.start_worker()
        putting = threading.Thread(target=self.put_all)
        putting.start()
        self.addCleanup(putting.join)
        self.addCleanup(self.failed.append, "the case has ended")
        self.until_balanced(SHARDS)
        self.reshard(MORE_SHARDS)
        self.replace_a_worker()
        self.until_balanced(MORE_SHARDS)
        self.reshard(MORE_SHARDS // 2, FEWER_SHARDS)
        self.replace_a_worker()
        self.until_balanced(FEWER_SHARDS)
        self.may_end.set()
        self.until("all are put", lambda: not putting.is_alive())
        self.until("all records are seen", lambda: len(self.notes.records()) == self.put)
        self.check_order()
        for worker in self.workers.values():
            worker.check()
        self.assertIn("logway_cloudwatch_sum{", self.broker.metrics())

    def check_order(self):
        """A record may come again; but none comes for the first time before those of its key that were put before it."""
        nexts = collections.Counter()
        again = 0
        for text in self.notes.in_order():
            key, number = text.split(":")
            if int(number) >= nexts[key]:
                self.assertEqual(int(number), nexts[key], f"the next record of key {key}")
                nexts[key] += 1
            else:
                again += 1
        self.assertEqual(nexts.total(), self.put)
        print(f"{self.stream}: {self.put} records, each key in its order, {again} came again", flush=True)


class FanOut3(Workers, unittest.TestCase):
    mode = "fanOut"


class Polling2(Workers, unittest.TestCase):
    version = "2"


class Polling1(Workers, unittest.TestCase):
    version = "1"


class Polling3(Workers, unittest.TestCase):
    pass


class Polling34(Workers, unittest.TestCase):
    version = "3.4"


class FanOut30(Workers, unittest.TestCase):
    version = "3.0"
    mode = "fanOut"


class FanOut2(Workers, unittest.TestCase):
    version = "2"
    mode = "fanOut"


def load_tests(loader, _tests, _pattern):
    """Of all pairs the one that is wanted."""
    return loader.loadTestsFromTestCase(globals()[PAIR])
