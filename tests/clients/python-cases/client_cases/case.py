"""What all cases start from."""

import unittest
from collections.abc import Iterable

import client

from client_cases.model import Record, Refused, fresh, read, wait_until


class ClientCase(unittest.TestCase):
    def need(self, *calls: str):
        """Skips the case if the library lacks one of the calls."""
        for call in calls:
            if not hasattr(client, call):
                self.skipTest("no such call")

    def create_topic(self, purpose: str, partitions: int = 1, **configs: str) -> str:
        """A new topic that can be used at once; `retention_ms="1"` sets `retention.ms`."""
        topic = fresh(purpose)
        client.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in configs.items()})
        # Kafka answers the creation before it tells of the partitions.
        wait_until(lambda: client.partitions(topic) == [*range(partitions)], f"all of {topic} to have a leader")
        return topic

    def consumer(self, **settings) -> "client.Consumer":
        consumer = client.Consumer(**settings)
        self.addCleanup(consumer.close)
        return consumer

    def consume(self, topic: str, count: int, partition: int = 0, offset: int = 0, **settings) -> list[Record]:
        consumer = self.consumer(**settings)
        consumer.assign(topic, {partition: offset})
        return read(consumer, count)

    def assert_refused(self, code: int, call, *arguments, **settings) -> Refused:
        with self.assertRaises(Refused) as raised:
            call(*arguments, **settings)
        self.assertEqual(raised.exception.code, code, raised.exception)
        return raised.exception


def produce(topic: str, records: Iterable[Record], partition: int = 0, **settings) -> list[int]:
    """Sends records in order, waits until they are acknowledged, and returns their offsets.

    The first goes ahead: Kafka refuses requests to a topic that is very new, and a producer that is not idempotent
    loses its order by repeating some of many.
    """
    producer = client.Producer(**settings)
    try:
        offsets = []
        for record in records:
            producer.send(topic, partition, record)
            offsets += [] if offsets else producer.flush()
        return offsets + producer.flush()
    finally:
        producer.close()


def numbered(count: int, start: int = 0) -> list[Record]:
    return [Record(b"value %d" % number, key=b"%d" % number) for number in range(start, start + count)]
