import os
import time

import client

from client_cases.case import ClientCase, numbered, produce
from client_cases.model import Record, Refused, answered_fetches, read, wait_until

BASE_MS = 1_700_000_000_000


# How long a consumer with nothing to read is looked at, and how often it may ask meanwhile. With its wait of 500 ms
# that is some times; without any wait it is thousands of times.
IDLE_S, IDLE_FETCHES_MAX = 3, 150


class Consume(ClientCase):
    """Most cases read one topic: 1,000 records in partition 1, a second apart by their own timestamps.

    These are so old that the topic must keep its records for ever.
    """

    topic = None

    def setUp(self):
        if Consume.topic is None:
            topic = self.create_topic("positions", partitions=2, retention_ms="-1")
            records = [Record(b"%d" % number, timestamp_ms=BASE_MS + 1_000 * number) for number in range(1_000)]
            produce(topic, records, partition=1)
            Consume.topic = topic

    def test_consume_assigned(self):
        topic = self.create_topic("assigned", partitions=5)
        for partition in range(5):
            produce(topic, numbered(2_000, start=10_000 * partition), partition)
        consumer = self.consumer()
        consumer.assign(topic, {partition: 0 for partition in range(5)})
        received = read(consumer, 10_000)
        for partition in range(5):
            keys = [int(record.key) for record in received if record.partition == partition]
            self.assertEqual(keys, list(range(10_000 * partition, 10_000 * partition + 2_000)))

    def test_consume_mid_batch(self):
        for offset in [1, 500, 777, 998, 999]:
            with self.subTest(offset):
                first = self.consume(self.topic, 1, partition=1, offset=offset)[0]
                self.assertEqual((first.offset, first.value), (offset, b"%d" % offset))

    def test_consume_seek(self):
        consumer = self.consumer()
        consumer.assign(self.topic, {1: 0})
        self.assertEqual(read(consumer, 10)[9].offset, 9)
        for offset in [500, 3, 999]:
            consumer.seek(self.topic, 1, offset)
            self.assertEqual(read(consumer, 1)[0].offset, offset)
        consumer.seek_to_beginning(self.topic, 1)
        self.assertEqual(read(consumer, 1)[0].offset, 0)
        consumer.seek_to_end(self.topic, 1)
        self.assertEqual(consumer.poll(0.3), [])

    def test_consume_by_time(self):
        consumer = self.consumer()
        consumer.assign(self.topic, {1: 0})
        for time_ms, offset in [
            (0, 0),
            (BASE_MS + 250_000, 250),
            (BASE_MS + 250_001, 251),
            (BASE_MS + 999_000, 999),
            (BASE_MS + 999_001, None),
        ]:
            self.assertEqual(consumer.offset_at(self.topic, 1, time_ms), offset, f"at {time_ms}")
        consumer.seek(self.topic, 1, consumer.offset_at(self.topic, 1, BASE_MS + 700_500))
        self.assertEqual(read(consumer, 1)[0].timestamp_ms, BASE_MS + 701_000)

    def test_consume_following(self):
        topic = self.create_topic("following")
        produce(topic, [Record(b"early")])
        consumer = self.consumer(wait_ms_max=15_000)
        consumer.assign(topic, {0: 0})
        self.assertEqual(read(consumer, 1)[0].value, b"early")
        produce(topic, [Record(b"late")])
        began = time.monotonic()
        self.assertEqual(read(consumer, 1)[0].value, b"late")
        self.assertLess(time.monotonic() - began, 5)

    def test_consume_deleted(self):
        idle, gone = self.create_topic("idle"), self.create_topic("gone")
        for topic in (idle, gone):
            produce(topic, [Record(b"early")])
        consumer = self.consumer()
        consumer.assign_places({(idle, 0): 0, (gone, 0): 0})
        read(consumer, 2)
        client.delete_topic(gone)
        before, deadline = answered_fetches(), time.monotonic() + IDLE_S
        while (left_s := deadline - time.monotonic()) > 0:
            poll_whatever(consumer, left_s)
        self.assertLess(answered_fetches() - before, IDLE_FETCHES_MAX)
        produce(idle, [Record(b"late")])
        wait_until(lambda: b"late" in [record.value for record in poll_whatever(consumer, 0.5)], "the late record")

    def test_consume_compacted(self):
        topic = os.environ["COMPACTED_TOPIC"]
        consumer = self.consumer()
        consumer.assign(topic, {0: 0})
        records = read(consumer, 1)
        while records[-1].offset < 5:
            records += read(consumer, 1)
        self.assertEqual((records[-1].offset, records[-1].key, records[-1].value), (5, b"k2", None))
        produce(topic, [Record(b"value", key=b"k3")])
        (following,) = read(consumer, 1)
        self.assertEqual((following.offset, following.key), (6, b"k3"))

    def test_consume_read_committed(self):
        received = self.consume(self.topic, 1_000, partition=1, isolation="read_committed")
        self.assertEqual([record.offset for record in received], list(range(1_000)))


def poll_whatever(consumer, seconds: float) -> list[Record]:
    """What is read, if anything: some clients tell of a topic that is gone."""
    try:
        return consumer.poll(seconds)
    except Refused:
        return []
