import time
import unittest

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from clients import CODECS, consume, create_topic, produce


class Delivery(unittest.TestCase):
    def test_delivery_reports_carry_the_offsets(self):
        reports = produce(create_topic("reports"), [(None, b"x")] * 500, enable_idempotence=True)
        self.assertEqual([report.offset() for report in reports], list(range(500)))


class Records(unittest.TestCase):
    def test_headers_keep_order_and_duplicates_and_nulls(self):
        headers = [("a", b"1"), ("b", b""), ("a", b"2"), ("c", None), ("a", b"1")]
        for codec in CODECS:
            with self.subTest(codec):
                topic = create_topic(f"headers-{codec}")
                produce(topic, [{"value": b"v", "headers": headers}], compression_type=codec)
                self.assertEqual(consume(topic, 1)[0].headers(), headers)

    def test_create_time_is_the_senders(self):
        topic = create_topic("create-time", retention_ms="-1")
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
