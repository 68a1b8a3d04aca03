import unittest

from confluent_kafka import KafkaError, TopicPartition

from clients import DEADLINE_S, consume, consumer, create_topic, produce, read

BASE_MS = 1_700_000_000_000


class Positions(unittest.TestCase):
    """One partition of 1,000 records, a second apart by their own timestamps."""

    @classmethod
    def setUpClass(cls):
        cls.topic = create_topic("positions", partitions=2, retention_ms="-1")
        records = ({"value": b"%d" % number, "timestamp": BASE_MS + 1_000 * number} for number in range(1_000))
        # Idempotent, so that they keep their order if a request is repeated while others are under way.
        produce(cls.topic, records, partition=1, batch_num_messages=50, enable_idempotence=True)

    def setUp(self):
        self.consumer = consumer()
        self.addCleanup(self.consumer.close)

    def test_watermarks(self):
        def watermarks(partition):
            return self.consumer.get_watermark_offsets(TopicPartition(self.topic, partition), DEADLINE_S)

        self.assertEqual((watermarks(0), watermarks(1)), ((0, 0), (0, 1_000)))

    def test_reports_the_end_of_the_partition(self):
        receiver = consumer(enable_partition_eof=True)
        self.addCleanup(receiver.close)
        receiver.assign([TopicPartition(self.topic, 1, 998)])
        messages = [receiver.poll(DEADLINE_S) for _ in range(3)]
        self.assertEqual([message.value() for message in messages[:2]], [b"998", b"999"])
        self.assertEqual((messages[2].error().code(), messages[2].offset()), (KafkaError._PARTITION_EOF, 1_000))

    def test_small_fetches_deliver_everything(self):
        limits = {"fetch_max_bytes": 1_000, "message_max_bytes": 1_000}
        received = consume(self.topic, 1_000, partition=1, fetch_message_max_bytes=1_000, **limits)
        self.assertEqual([message.value() for message in received], [b"%d" % number for number in range(1_000)])

    def test_read_uncommitted_and_read_committed_agree_without_transactions(self):
        for isolation in ["read_uncommitted", "read_committed"]:
            with self.subTest(isolation):
                self.assertEqual(len(consume(self.topic, 1_000, partition=1, isolation_level=isolation)), 1_000)


class Following(unittest.TestCase):
    def test_one_consumer_over_many_partitions(self):
        topic = create_topic("many", partitions=40)
        for partition in range(40):
            produce(topic, [(None, b"%d" % partition)] * 5, partition=partition)
        receiver = consumer()
        self.addCleanup(receiver.close)
        receiver.assign([TopicPartition(topic, partition, 0) for partition in range(40)])
        seen = sorted(int(message.value()) for message in read(receiver, 200))
        self.assertEqual(seen, sorted(list(range(40)) * 5))

    def test_pause_and_resume(self):
        topic = create_topic("paused")
        produce(topic, [(None, b"1"), (None, b"2")])
        receiver = consumer()
        self.addCleanup(receiver.close)
        receiver.assign([TopicPartition(topic, 0, 0)])
        read(receiver, 1)
        receiver.pause([TopicPartition(topic, 0)])
        self.assertIsNone(receiver.poll(0.3))
        receiver.resume([TopicPartition(topic, 0)])
        self.assertEqual(read(receiver, 1)[0].value(), b"2")
