"""A compacted topic shrinks, and every reader finds the last value of each key in it, whenever the broker is killed."""

import json
import os
import random
import subprocess
import time
import unittest
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.apache_kafka import SMALL_JVM, java, need_kafka
from harness.brokers import KINDS
from harness.dump_log import dump_log
from harness.load import QUIET
from harness.seed import SEED
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
DEADLINE_S = 120
KEYS = 500
# Each full segment is compacted at the next look, twice a second.
SETTINGS = {"log.cleaner.backoff.ms": "500", "log.retention.check.interval.ms": "500"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(4 << 20),
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}


class Table:
    """What was written to a topic of one partition: the last value of each key."""

    def __init__(self, broker, topic: str, chance: random.Random):
        self.broker, self.topic, self.chance = broker, topic, chance
        self.values: dict[str, str | None] = {}
        self.written = 0
        self.producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 500,
                "compression.type": "lz4",
                "message.timeout.ms": DEADLINE_S * 1_000,
                **QUIET,
            }
        )
        self.errors: list[str] = []

    def update(self, count: int, deleted: float = 0.0):
        """Writes so many updates of keys chosen at random, a part of them tombstones, and waits for them."""
        for _ in range(count):
            key = f"key-{self.chance.randrange(KEYS)}"
            value = None if self.chance.random() < deleted else f"{self.written:09d}-{'v' * 20}"
            self._produce(key, value)
            self.values[key] = value
            self.written += 1
        left = self.producer.flush(DEADLINE_S)
        if left or self.errors:
            raise AssertionError(f"{left} records were not acknowledged, errors: {self.errors[:3]}")

    def _produce(self, key: str, value: str | None):
        def delivered(error, _):
            if error is not None:
                self.errors.append(str(error))

        while True:
            try:
                self.producer.produce(self.topic, value, key, on_delivery=delivered)
                self.producer.poll(0)
                return
            except BufferError:
                self.producer.poll(0.05)

    def live(self) -> dict[str, str]:
        """The keys that were not deleted last."""
        return {key: value for key, value in self.values.items() if value is not None}


def size_bytes(broker, topic: str) -> int:
    """The bytes of the topic's segments."""
    return sum(segment.stat().st_size for segment in segments(broker, topic))


def segments(broker, topic: str) -> list[Path]:
    return sorted((broker.data_dir / f"{topic}-0").glob("*.log"))


def unfinished(broker, topic: str) -> list[Path]:
    """The files of a compaction that is under way, or was when the broker was killed."""
    files = (broker.data_dir / f"{topic}-0").glob("*.log.*")
    return [path for path in files if path.name.endswith((".cleaned", ".swap"))]


def latest(lines) -> dict[str, str]:
    """The last value of each key of (key, value), without those that were deleted."""
    found = {}
    for key, value in lines:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def read_with_librdkafka(broker, topic: str) -> list[tuple[int, str, str | None]]:
    """All records, by offset, up to the end of the partition as it is now."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            **QUIET,
        }
    )
    found = []
    try:
        end = reader.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S)[1]
        reader.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + DEADLINE_S
        while reader.position([TopicPartition(topic, 0)])[0].offset < end:
            for message in reader.consume(10_000, timeout=0.5):
                if message.error():
                    raise AssertionError(str(message.error()))
                value = message.value()
                found.append((message.offset(), message.key().decode(), value and value.decode()))
            if time.monotonic() > deadline:
                raise AssertionError(f"read {len(found)} records in {DEADLINE_S} s, the end at {end} was not reached")
    finally:
        reader.close()
    return found


def read_with_kcat(broker, topic: str) -> dict[str, str]:
    command = [os.environ["KCAT"], "-b", broker.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    records = map(json.loads, done.stdout.splitlines())
    return latest((record["key"], record["payload"]) for record in records)


def read_with_java(broker, topic: str, count: int) -> dict[str, str]:
    """Kafka's console consumer reads so many records."""
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"]
    arguments += ["--max-messages", str(count), "--timeout-ms", str(DEADLINE_S * 1_000)]
    arguments += ["--formatter-property", "print.key=true"]
    command = java(need_kafka(), "org.apache.kafka.tools.consumer.ConsoleConsumer", arguments, *SMALL_JVM)
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S + 60)
    if done.returncode != 0:
        raise AssertionError(f"the console consumer exited with {done.returncode}: {done.stderr[-1_000:]}")
    pairs = (line.split("\t", 1) for line in done.stdout.splitlines())
    return latest((key, None if value == "null" else value) for key, value in pairs)


class Compaction(unittest.TestCase):
    def broker(self, name: str, **settings: str):
        print(f"SEED={SEED}")
        broker = KIND(name, SETTINGS | settings).start()
        self.addCleanup(broker.kill)
        return broker

    def create(self, broker, topic: str, **config: str):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        new = NewTopic(topic, 1, 1, config=COMPACTED | config)
        admin.create_topics([new])[topic].result(DEADLINE_S)

    def test_a_million_updates_of_few_keys_shrink_to_their_last_values(self):
        broker = self.broker("compaction-million")
        self.create(broker, "table")
        table = Table(broker, "table", random.Random(SEED))
        table.update(1_000_000, deleted=0.05)
        # 45 bytes and more each, compressed to perhaps a third; what remains is the segment that grows.
        wait_until(lambda: size_bytes(broker, "table") < 6 << 20, "the topic to shrink", DEADLINE_S)
        found = read_with_librdkafka(broker, "table")
        offsets = [offset for offset, _, _ in found]
        self.assertEqual(offsets, sorted(set(offsets)), "offsets increase")
        self.assertLess(len(found), 500_000)
        self.assertEqual(latest((key, value) for _, key, value in found), table.live())
        self.assertEqual(read_with_kcat(broker, "table"), table.live())
        self.assertEqual(read_with_java(broker, "table", len(found)), table.live())
        full = segments(broker, "table")[:-1]
        self.assertGreater(len(full), 0)
        indexes = [segment.with_suffix(suffix) for segment in full for suffix in (".index", ".timeindex")]
        dump_log(full + [index for index in indexes if index.exists()])
        self.assertTrue(broker.data_dir.joinpath("cleaner-offset-checkpoint").read_text().startswith("0\n"))

    def test_kills_while_logs_are_compacted_lose_nothing(self):
        # So slow that it can be hit at work.
        broker = self.broker("compaction-kill", **{"log.cleaner.io.max.bytes.per.second": "2000000"})
        chance = random.Random(SEED)
        self.create(broker, "table", **{"segment.bytes": str(1 << 20)})
        table = Table(broker, "table", chance)
        interrupted = 0
        for round in range(5):
            table.update(130_000, deleted=0.02)
            # The cleaner may have been faster than the updates.
            wait_until(lambda: unfinished(broker, "table") or table.update(5_000), "a segment to be rewritten", DEADLINE_S)
            time.sleep(chance.random() / 2)
            broker.kill()
            left = unfinished(broker, "table")
            broker.start()
            found = read_with_librdkafka(broker, "table")
            self.assertEqual(latest((key, value) for _, key, value in found), table.live(), f"round {round}")
            print(f"round {round}: {len(found)} records of {table.written}, {len(left)} unfinished files")
            interrupted += bool(left)
        self.assertGreater(interrupted, 0, "no kill has hit it at work")
        broker.kill()
        broker.settings = SETTINGS
        broker.start()
        wait_until(lambda: size_bytes(broker, "table") < 3 << 20, "the topic to shrink", DEADLINE_S)
        broker.stop()
        broker.start()
        found = read_with_librdkafka(broker, "table")
        self.assertEqual(latest((key, value) for _, key, value in found), table.live())

    def test_the_log_of_groups_is_bounded(self):
        """A group that commits again and again does not make `__consumer_offsets` grow for ever."""
        broker = self.broker_of_small_offsets()
        self.create(broker, "read")
        reader = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "busy", "enable.auto.commit": False, **QUIET}
        )
        self.addCleanup(reader.close)
        begun = time.monotonic()
        commits = 0
        while len(segments(broker, "__consumer_offsets")) < 2:
            for _ in range(500):
                commits += 1
                reader.commit(offsets=[TopicPartition("read", 0, commits)], asynchronous=True)
            reader.commit(offsets=[TopicPartition("read", 0, commits)], asynchronous=False)
            self.assertLess(time.monotonic() - begun, DEADLINE_S, "no segment is full")

        def full_bytes():
            return sum(path.stat().st_size for path in segments(broker, "__consumer_offsets")[:-1])

        wait_until(lambda: full_bytes() < 64 << 10, "the full segment to shrink", DEADLINE_S)
        broker.kill()
        broker.start()
        committed = reader.committed([TopicPartition("read", 0)], DEADLINE_S)[0]
        self.assertEqual(committed.offset, commits)

    def broker_of_small_offsets(self):
        settings = SETTINGS | {
            "offsets.topic.num.partitions": "1",
            "offsets.topic.segment.bytes": str(1 << 20),
            "log.cleaner.min.cleanable.ratio": "0.01",
        }
        broker = KIND("compaction-offsets", settings).start()
        self.addCleanup(broker.kill)
        return broker


if __name__ == "__main__":
    unittest.main()
