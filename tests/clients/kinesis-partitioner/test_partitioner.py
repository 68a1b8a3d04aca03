"""A Kafka producer with the partitioner puts a key where PutRecord does, also after shards were split and merged."""

import subprocess
import time

from streams import StreamCase

from harness.broker import TESTS

BUILT = TESTS / ".work" / "kinesis-partitioner"

DEADLINE_S = 120

KEYS = [f"key-{number}" for number in range(200)] + ["ключ", "🗝", "with space", "x" * 256]


class Producer:
    """The program in Java, which answers each line of its input."""

    def __init__(self, case: StreamCase):
        java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]
        where = ["-cp", f"{BUILT}/classes:{BUILT}/libs/*", "io.logway.partitioner.Send"]
        arguments = [case.broker.bootstrap, f"http://{case.broker.kinesis}", case.stream]
        log = (case.broker.data_dir.parent / f"{case.stream}.log").open("ab")
        self.process = subprocess.Popen(
            [*java, *where, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        log.close()

    def send(self, key: str) -> str:
        self.process.stdin.write(key + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()


class Partitioner(StreamCase):
    def start(self) -> Producer:
        producer = Producer(self)
        self.addCleanup(producer.process.wait, DEADLINE_S)
        self.addCleanup(producer.process.kill)
        return producer

    def shard_of(self, key: str) -> str:
        """Where PutRecord puts it, as a partition's number."""
        return str(int(self.put(b"x", key)["ShardId"].removeprefix("shardId-")))

    def check(self, producer: Producer) -> set[str]:
        found = {key: producer.send(key) for key in KEYS}
        self.assertEqual(found, {key: self.shard_of(key) for key in KEYS})
        return set(found.values())

    def send_until_written(self, producer: Producer, key: str) -> str:
        """Sends a record again that a closed shard has refused."""
        ends = time.monotonic() + DEADLINE_S
        while (answer := producer.send(key)) == "PolicyViolationException":
            self.assertLess(time.monotonic(), ends)
        return answer

    def test_keys_are_where_put_record_puts_them(self):
        self.create(3)
        producer = self.start()
        self.assertEqual(self.check(producer), {"0", "1", "2"})
        self.assertLessEqual({producer.send("") for _ in range(20)}, {"0", "1", "2"})
        ranges = {it["ShardId"]: it["HashKeyRange"] for it in self.shards()}
        middle = int(ranges["shardId-000000000002"]["StartingHashKey"]) + 2**100
        self.kinesis.split_shard(
            StreamName=self.stream, ShardToSplit="shardId-000000000002", NewStartingHashKey=str(middle)
        )
        self.kinesis.merge_shards(
            StreamName=self.wait_for_stream(),
            ShardToMerge="shardId-000000000000",
            AdjacentShardToMerge="shardId-000000000001",
        )
        self.wait_for_stream()
        # What is known of shards gets old, and then all goes where it has to.
        for key in KEYS:
            self.assertEqual(self.send_until_written(producer, key), self.shard_of(key))
        self.assertLessEqual(self.check(producer), {"3", "4", "5"})
        self.assertLessEqual({producer.send("") for _ in range(50)}, {"3", "4", "5"})
        producer.end()

    def wait_for_stream(self) -> str:
        self.wait_until_active()
        return self.stream
