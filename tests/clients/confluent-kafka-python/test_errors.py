import os
import unittest

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, ResourceType

from client_cases.model import LARGEST_VALUE_BYTES

from clients import DEADLINE_S, admin, consume, consumer, create_topic, produce


class Refusals(unittest.TestCase):
    def assert_refused(self, futures: dict, code: int, *named: str):
        """The only future fails with this code, and Logway's message names what it is about."""
        (future,) = futures.values()
        with self.assertRaises(KafkaException) as raised:
            future.result(DEADLINE_S)
        error = raised.exception.args[0]
        self.assertEqual(error.code(), code, error)
        if os.environ.get("AGAINST") == "logway":
            for word in named:
                self.assertIn(word, error.str())

    def test_topics_that_cannot_be_created(self):
        taken = create_topic("taken")
        for topic, code in [
            (NewTopic(taken, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
            (NewTopic("white space", 1, 1), KafkaError.TOPIC_EXCEPTION),
            (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
            (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
            (NewTopic("py-three-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
            (NewTopic("py-unknown-setting", 1, 1, config={"no.such.setting": "1"}), KafkaError.INVALID_CONFIG),
            (NewTopic("py-bad-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
            (NewTopic("py-out-of-bounds", 1, 1, config={"segment.bytes": "1"}), KafkaError.INVALID_CONFIG),
        ]:
            with self.subTest(topic.topic):
                # A message repeats at most 64 characters of a name.
                self.assert_refused(admin.create_topics([topic]), code, topic.topic[:64], *(topic.config or ()))

    def test_an_invalid_partition_count(self):
        topic = create_topic("shrunk", partitions=3)
        for count in [2, 3]:
            self.assert_refused(
                admin.create_partitions([NewPartitions(topic, count)]), KafkaError.INVALID_PARTITIONS, topic
            )

    def test_things_that_do_not_exist(self):
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
        # librdkafka deletes topics with a version of the request whose response carries no message.
        self.assert_refused(admin.delete_topics(["py-missing"]), unknown)
        self.assert_refused(admin.create_partitions([NewPartitions("py-missing", 2)]), unknown, "py-missing")
        missing = ConfigResource(ResourceType.TOPIC, "py-missing")
        self.assert_refused(admin.describe_configs([missing]), unknown, "py-missing")

    def test_asking_for_an_unknown_topic_without_creating_it(self):
        asker = consumer(allow_auto_create_topics=False)
        self.addCleanup(asker.close)
        answer = asker.list_topics("py-missing", DEADLINE_S).topics["py-missing"]
        self.assertEqual(answer.error.code(), KafkaError.UNKNOWN_TOPIC_OR_PART)
        self.assertNotIn("py-missing", asker.list_topics(timeout=DEADLINE_S).topics)

    def test_a_record_that_is_one_byte_too_large(self):
        topic = create_topic("too-large")
        with self.assertRaisesRegex(AssertionError, "MSG_SIZE_TOO_LARGE"):
            produce(topic, [(None, b"x" * (LARGEST_VALUE_BYTES + 1))], message_max_bytes=2_000_000)
        produce(topic, [(None, b"fits")])
        self.assertEqual(consume(topic, 1)[0].value(), b"fits")

    def test_an_offset_out_of_range(self):
        topic = create_topic("out-of-range")
        produce(topic, [(None, b"x")])
        receiver = consumer(auto_offset_reset="error")
        self.addCleanup(receiver.close)
        receiver.assign([TopicPartition(topic, 0, 1_000)])
        self.assertEqual(receiver.poll(DEADLINE_S).error().code(), KafkaError._AUTO_OFFSET_RESET)

    def test_a_record_without_key_on_a_compacted_topic(self):
        topic = create_topic("compacted", cleanup_policy="compact")
        with self.assertRaisesRegex(AssertionError, "INVALID_RECORD"):
            produce(topic, [(None, b"x")])
        produce(topic, [(b"k", b"x")])
