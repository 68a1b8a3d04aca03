"""The same log through Kafka's protocol."""

import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import PolicyViolationError
from streams import StreamCase


class Kafka(StreamCase):
    def consumer(self, partition: int = 0) -> KafkaConsumer:
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(self.stream, partition)])
        self.addCleanup(consumer.close)
        return consumer

    def producer(self, **more) -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, **more)
        self.addCleanup(producer.close)
        return producer

    def test_what_kinesis_puts_kafka_reads(self):
        self.create()
        put = self.put(b"from Kinesis", "user-7", ExplicitHashKey="5")
        record = next(self.consumer())
        self.assertEqual((record.key, record.value), (b"user-7", b"from Kinesis"))
        self.assertEqual(record.headers, [("kinesis.explicit.hash.key", b"5")])
        counter = int(f"{int(put['SequenceNumber']):047x}"[11:27], 16)
        self.assertEqual(counter, record.offset)

    def test_what_kafka_sends_kinesis_reads(self):
        self.create()
        producer = self.producer(compression_type="gzip")
        for key, value in [(b"user-7", b"1"), (None, b"2"), (b"\xff", b"3"), (b"user-7", None)]:
            producer.send(self.stream, value, key=key, partition=0)
        producer.flush()
        read = self.read(self.iterator(), 4)
        self.assertEqual([it["Data"] for it in read], [b"1", b"2", b"3", b""])
        self.assertEqual([it["PartitionKey"] for it in read], ["user-7", "-", "base64:/w==", "user-7"])

    def test_a_closed_shard_refuses_kafka_for_good_and_says_why(self):
        self.create()
        producer = self.producer(retries=1_000_000)
        producer.send(self.stream, b"before", partition=0).get(10)
        self.kinesis.split_shard(
            StreamName=self.stream, ShardToSplit="shardId-000000000000", NewStartingHashKey="10"
        )
        self.wait_until_active()
        began = time.monotonic()
        with self.assertRaises(PolicyViolationError):
            producer.send(self.stream, b"after", partition=0).get(20)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(next(self.consumer()).value, b"before")
