"""Topics of Apache Kafka appear in the broker under test, and the other way round; offsets and settings follow."""

import os
import tempfile
import unittest
from pathlib import Path

from confluent_kafka import Message

from harness import topics
from harness.apache_kafka import SMALL_JVM, ApacheKafka, java, need_kafka
from harness.brokers import KINDS
from harness.program import Program
from harness.waiting import wait_until

RECORDS = 1_000
ENDS = {0: RECORDS // 2, 1: RECORDS // 2}
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240

# A cluster's name is the prefix of what is copied from it.
FLOWS = {"kafka->tested.enabled": "true", "tested->kafka.enabled": "true"}
SETTINGS = FLOWS | {
    "clusters": "kafka, tested",
    "topics": "mirrored-.*",
    "groups": "mirrored-.*",
    "refresh.topics.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "sync.topic.configs.interval.seconds": "5",
    "emit.checkpoints.interval.seconds": "2",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "2",
    # Every record's offset is noted, so that the end is translated exactly. What lies before need not be: of the notes
    # that were made before its task began, MirrorMaker keeps the latest only.
    "offset.lag.max": "0",
    "tasks.max": "1",
    "kafka.plugin.discovery": "service_load",
    "tested.plugin.discovery": "service_load",
}
INTERNAL_TOPICS = ["", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "offset.storage."]
INTERNAL_TOPICS += ["config.storage.", "status.storage."]


def records(topic: str) -> list[dict]:
    """Keyed and unkeyed ones, with a header that occurs twice and with tombstones."""
    return [
        {
            "partition": number % 2,
            "key": f"key {number}" if number % 3 else None,
            "value": f"{topic} {number}" if number % 10 else None,
            "headers": [("trace", str(number).encode()), ("trace", None)],
            "timestamp": 1_700_000_000_000 + number,
        }
        for number in range(RECORDS)
    ]


def contents(messages: list[Message]) -> dict[int, list[tuple]]:
    """All that a copy must share with its original, by partition."""
    partitions: dict[int, list[tuple]] = {}
    for message in messages:
        content = (message.offset(), message.key(), message.value(), message.headers(), message.timestamp())
        partitions.setdefault(message.partition(), []).append(content)
    return partitions


class Mirror(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.kafka = cls.enterClassContext(ApacheKafka("mirrored-from"))
        cls.tested = cls.enterClassContext(KINDS[os.environ["AGAINST"]]("mirrored-to"))
        for broker, topic in ((cls.kafka, "mirrored-out"), (cls.tested, "mirrored-back")):
            topics.create_topic(broker.bootstrap, topic, 2, retention_ms="-1", segment_bytes="1048576")
            topics.produce(broker.bootstrap, topic, records(topic))
        topics.commit(cls.kafka.bootstrap, "mirrored-readers", "mirrored-out", ENDS)

        brokers = {"kafka.bootstrap.servers": cls.kafka.bootstrap, "tested.bootstrap.servers": cls.tested.bootstrap}
        settings = SETTINGS | brokers | {f"{topic}replication.factor": "1" for topic in INTERNAL_TOPICS}
        properties = scratch / "mirror.properties"
        properties.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        command = java(need_kafka(), "org.apache.kafka.connect.mirror.MirrorMaker", [str(properties)], *SMALL_JVM)
        cls.mirror = cls.enterClassContext(Program(command, scratch / "mirror.log"))

    def await_copy(self, what: str, condition):
        def holds() -> bool:
            self.mirror.check()
            return condition()

        try:
            wait_until(holds, what, DEADLINE_S)
        except AssertionError as late:
            raise AssertionError(f"{late}; MirrorMaker says:\n{self.mirror.log_end()}") from late

    def check_copied(self, source, topic: str, target, copy: str):
        def is_copied() -> bool:
            return sum(topics.end_offsets(target.bootstrap, copy).values()) >= RECORDS

        self.await_copy(f"{RECORDS} records of {copy}", is_copied)
        original = contents(topics.read_to_end(source.bootstrap, topic))
        self.assertEqual(contents(topics.read_to_end(target.bootstrap, copy)), original)

    def test_records_into_the_broker(self):
        self.check_copied(self.kafka, "mirrored-out", self.tested, "kafka.mirrored-out")

    def test_records_out_of_the_broker(self):
        self.check_copied(self.tested, "mirrored-back", self.kafka, "tested.mirrored-back")

    def test_topic_settings_follow(self):
        self.check_settings(self.tested, "kafka.mirrored-out")
        self.check_settings(self.kafka, "tested.mirrored-back")

    def check_settings(self, target, copy: str):
        self.await_copy(copy, lambda: topics.partitions_of(target.bootstrap, copy) == [0, 1])
        configs = topics.configs_of(target.bootstrap, copy)
        self.assertEqual((configs["retention.ms"], configs["segment.bytes"]), ("-1", "1048576"))

    def test_offset_syncs_are_kept_at_the_source(self):
        self.check_syncs(self.kafka, "mm2-offset-syncs.tested.internal")
        self.check_syncs(self.tested, "mm2-offset-syncs.kafka.internal")

    def check_syncs(self, source, topic: str):
        self.await_copy(topic, lambda: sum(topics.end_offsets(source.bootstrap, topic).values()) > 0)
        self.assertEqual(topics.configs_of(source.bootstrap, topic)["cleanup.policy"], "compact")

    def test_committed_offsets_are_translated(self):
        def is_translated() -> bool:
            found = topics.committed(self.tested.bootstrap, "mirrored-readers", "kafka.mirrored-out")
            return found == ENDS

        self.await_copy("the group's offsets", is_translated)
        self.assertGreater(sum(topics.end_offsets(self.tested.bootstrap, "kafka.checkpoints.internal").values()), 0)
