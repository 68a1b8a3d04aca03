import unittest

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from client_cases.model import fresh

from clients import DEADLINE_S, admin, consume, consumer, create_topic, description, produce, wait_until


def only(futures: dict):
    """The result of the only future that an admin call returned."""
    (future,) = futures.values()
    return future.result(DEADLINE_S)


def topic_configs(topic: str) -> dict[str, ConfigEntry]:
    return only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))


def change(topic: str, name: str, value: str | None, operation: AlterConfigOpType):
    entry = ConfigEntry(name, value, incremental_operation=operation)
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))


class Topics(unittest.TestCase):
    def test_a_recreated_topic_is_empty_and_has_another_id(self):
        topic = create_topic("recreated")
        produce(topic, [(None, b"old")])
        old_id = str(description(topic).topic_id)
        only(admin.delete_topics([topic]))
        wait_until(lambda: description(topic) is None, f"{topic} to be gone")
        only(admin.create_topics([NewTopic(topic, 1, 1)]))
        wait_until(lambda: description(topic), f"{topic} to be back")
        self.assertNotEqual(str(description(topic).topic_id), old_id)
        produce(topic, [(None, b"new")])
        self.assertEqual(consume(topic, 1)[0].value(), b"new")

    def test_validate_only_creates_nothing(self):
        topic = fresh("validated")
        only(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
        self.assertNotIn(topic, admin.list_topics(timeout=DEADLINE_S).topics)

    def test_default_partitions_and_replication(self):
        topic = fresh("defaults")
        only(admin.create_topics([NewTopic(topic, -1, -1)]))
        wait_until(lambda: description(topic), f"{topic} to be described")
        (partition,) = description(topic).partitions
        self.assertEqual((len(partition.replicas), len(partition.isr)), (1, 1))


class Configs(unittest.TestCase):
    def test_set_append_subtract_and_delete(self):
        topic = create_topic("changed")
        change(topic, "retention.ms", "7200000", AlterConfigOpType.SET)
        change(topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
        configs = topic_configs(topic)
        self.assertEqual(configs["retention.ms"].value, "7200000")
        self.assertEqual(configs["cleanup.policy"].value, "delete,compact")
        change(topic, "cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)
        change(topic, "retention.ms", None, AlterConfigOpType.DELETE)
        configs = topic_configs(topic)
        self.assertEqual((configs["cleanup.policy"].value, configs["retention.ms"].value), ("delete", "604800000"))

    def test_the_older_alter_replaces_all(self):
        topic = create_topic("replaced", retention_ms="3600000")
        only(admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "2097152"})]))
        wait_until(lambda: topic_configs(topic)["segment.bytes"].value == "2097152", "the setting to be changed")
        self.assertEqual(topic_configs(topic)["retention.ms"].value, "604800000")

    def test_a_lowered_message_limit_applies_at_once(self):
        topic = create_topic("limited")
        change(topic, "max.message.bytes", "1000", AlterConfigOpType.SET)
        wait_until(lambda: topic_configs(topic)["max.message.bytes"].value == "1000", "the limit to be lowered")
        produce(topic, [(None, b"x" * 900)])
        with self.assertRaisesRegex(Exception, "MSG_SIZE_TOO_LARGE"):
            produce(topic, [(None, b"x" * 1_000)])


class Records(unittest.TestCase):
    def test_delete_records_up_to_the_end(self):
        topic = create_topic("emptied")
        produce(topic, [(None, b"x")] * 10)
        self.assertEqual(only(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark, 10)

    def test_delete_records_beyond_the_end_is_refused(self):
        topic = create_topic("beyond")
        produce(topic, [(None, b"x")] * 10)
        with self.assertRaisesRegex(KafkaException, "OFFSET_OUT_OF_RANGE"):
            only(admin.delete_records([TopicPartition(topic, 0, 11)]))

    def test_list_offsets_by_every_spec(self):
        topic = create_topic("offsets", retention_ms="-1")
        times_ms = [1_000, 9_000, 5_000]
        for time_ms in times_ms:
            produce(topic, [{"value": b"x", "timestamp": 1_700_000_000_000 + time_ms}])
        specs = {
            OffsetSpec.earliest(): 0,
            OffsetSpec.latest(): 3,
            OffsetSpec.max_timestamp(): 1,
            OffsetSpec.for_timestamp(1_700_000_000_000 + 4_000): 1,
        }
        for spec, offset in specs.items():
            listed = only(admin.list_offsets({TopicPartition(topic, 0): spec}))
            self.assertEqual(listed.offset, offset, spec)
