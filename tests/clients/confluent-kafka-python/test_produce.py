import time
import unittest

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from clients import CODECS, consume, create_topic, produce

# A record of this size makes a batch of exactly 1,048,588 bytes, the default max.message.bytes: the batch header takes
# 61 bytes, and a record without key and headers 11 more.
LARGEST_VALUE_BYTES = 1_048_588 - 61 - 11


class Delivery(unittest.TestCase):
    def assert_round_trip(self, topic, count, **settings):
        sent = [(b"%d" % number, b"value %d" % number) for number in range(count)]
        produce(topic, sent, **settings)
        received = consume(topic, count)
        self.assertEqual([(message.key(), message.value()) for message in received], sent)
        self.assertEqual([message.offset() for message in received], list(range(count)))

    def test_every_codec(self):
        for codec in CODECS:
            with self.subTest(codec):
                self.assert_round_trip(create_topic(codec), 20_000, compression_type=codec)

    def test_every_codec_idempotent_with_five_requests_in_flight(self):
        for codec in CODECS:
            with self.subTest(codec):
                settings = {"compression_type": codec, "enable_idempotence": True, "batch_num_messages": 100}
                self.assert_round_trip(create_topic(f"idempotent-{codec}"), 20_000, **settings)

    def test_every_level_of_acks(self):
        for acks in [0, 1, "all"]:
            with self.subTest(acks):
                self.assert_round_trip(create_topic(f"acks-{acks}"), 2_000, acks=acks)

    def test_delivery_reports_carry_the_offsets(self):
        reports = produce(create_topic("reports"), [(None, b"x")] * 500, enable_idempotence=True)
        self.assertEqual([report.offset() for report in reports], list(range(500)))

    def test_topics_are_created_on_first_use(self):
        topic = "py-auto-created"
        produce(topic, [(None, b"first")])
        self.assertEqual(consume(topic, 1)[0].value(), b"first")


class Records(unittest.TestCase):
    def test_sizes_from_one_byte_to_the_largest_batch(self):
        sizes = [1, 100, 1_000, 10_000, 100_000, LARGEST_VALUE_BYTES]
        topic = create_topic("sizes")
        for size in sizes:
            produce(topic, [(None, b"x" * size)], message_max_bytes=2_000_000)
        self.assertEqual([len(message.value()) for message in consume(topic, len(sizes))], sizes)

    def test_null_and_empty_keys_and_values(self):
        sent = [(None, b"v"), (b"k", None), (None, None), (b"", b""), (b"k", b"")]
        topic = create_topic("nulls")
        produce(topic, sent)
        self.assertEqual([(message.key(), message.value()) for message in consume(topic, len(sent))], sent)

    def test_headers_keep_order_and_duplicates_and_nulls(self):
        headers = [("a", b"1"), ("b", b""), ("a", b"2"), ("c", None), ("a", b"1")]
        for codec in CODECS:
            with self.subTest(codec):
                topic = create_topic(f"headers-{codec}")
                produce(topic, [{"value": b"v", "headers": headers}], compression_type=codec)
                self.assertEqual(consume(topic, 1)[0].headers(), headers)

    def test_create_time_is_the_senders(self):
        topic = create_topic("create-time")
        produce(topic, [{"value": b"v", "timestamp": 1_600_000_000_000}])
        self.assertEqual(consume(topic, 1)[0].timestamp(), (TIMESTAMP_CREATE_TIME, 1_600_000_000_000))

    def test_log_append_time_is_the_brokers(self):
        for codec in CODECS:
            with self.subTest(codec):
                topic = create_topic(f"append-time-{codec}", message_timestamp_type="LogAppendTime")
                before_ms = int(time.time() * 1000)
                record = {"value": b"v", "timestamp": 1_600_000_000_000}
                produce(topic, [record] * 3, compression_type=codec)
                for message in consume(topic, 3):
                    kind, timestamp_ms = message.timestamp()
                    self.assertEqual(kind, TIMESTAMP_LOG_APPEND_TIME)
                    self.assertTrue(before_ms <= timestamp_ms <= time.time() * 1000)
