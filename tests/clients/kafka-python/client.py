"""kafka-python, behind the calls that the shared cases make."""

from administration import *  # noqa: F403
from administration import BOOTSTRAP
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from refusal import refusals

from client_cases.model import DEADLINE_S, Record

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
STRATEGIES = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
# It refuses to send a record without key and value.
SENDS_NULL_PAIRS = False


class Producer:
    def __init__(self, codec="none", acks="all", idempotent=False, request_bytes_max=1_048_576, transactional_id=None):
        self.producer = KafkaProducer(
            bootstrap_servers=BOOTSTRAP,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=idempotent,
            transactional_id=transactional_id,
            # Only an idempotent producer keeps its order if a request is repeated while others are under way.
            max_in_flight_requests_per_connection=5 if idempotent else 1,
            max_request_size=request_bytes_max,
            linger_ms=5,
        )
        self.sent = []

    def send(self, topic: str, partition: int, record: Record):
        with refusals():
            self.sent.append(
                self.producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
            )

    def flush(self) -> list[int]:
        with refusals():
            self.producer.flush(DEADLINE_S)
            offsets = [future.get(DEADLINE_S).offset for future in self.sent]
        self.sent = []
        return offsets

    def close(self):
        self.producer.close(DEADLINE_S)


class TransactionalProducer(Producer):
    def __init__(self, transactional_id: str):
        super().__init__(idempotent=True, transactional_id=transactional_id)
        with refusals():
            self.producer.init_transactions()

    def begin(self):
        with refusals():
            self.producer.begin_transaction()

    def send_offsets(self, consumer: "Consumer", offsets: dict[tuple[str, int], int]):
        wanted = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        with refusals():
            self.producer.send_offsets_to_transaction(wanted, consumer.consumer.group_metadata())

    def commit(self):
        with refusals():
            self.producer.commit_transaction()

    def abort(self):
        with refusals():
            self.producer.abort_transaction()


class Consumer(ConsumerRebalanceListener):
    def __init__(
        self, group=None, strategy="range", instance_id=None, reset="earliest", isolation="read_uncommitted",
        wait_ms_max=500,
    ):  # fmt: skip
        self.consumer = KafkaConsumer(
            bootstrap_servers=BOOTSTRAP,
            group_id=group,
            group_instance_id=instance_id,
            partition_assignment_strategy=[STRATEGIES[strategy]],
            auto_offset_reset=reset,
            enable_auto_commit=False,
            isolation_level=isolation,
            fetch_max_wait_ms=wait_ms_max,
            heartbeat_interval_ms=500,
            session_timeout_ms=10_000,
            max_poll_records=2_000,
        )

    def assign(self, topic: str, offsets: dict[int, int]):
        self.assign_places({(topic, partition): offset for partition, offset in offsets.items()})

    def assign_places(self, offsets: dict[tuple[str, int], int]):
        self.consumer.assign([TopicPartition(*place) for place in offsets])
        for place, offset in offsets.items():
            self.seek(*place, offset)

    def subscribe(self, topic: str, gained, lost):
        self.gained, self.lost = gained, lost
        self.consumer.subscribe([topic], listener=self)

    def on_partitions_assigned(self, assigned):
        self.gained({partition.partition for partition in assigned})

    def on_partitions_revoked(self, revoked):
        # A commit would wait here for the thread that makes this call: what was read since the last one is read again.
        if revoked:
            self.lost({partition.partition for partition in revoked})

    def poll(self, seconds: float) -> list[Record]:
        with refusals():
            fetched = self.consumer.poll(int(seconds * 1_000))
        return [as_record(record) for records in fetched.values() for record in records]

    def seek(self, topic: str, partition: int, offset: int):
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def seek_to_beginning(self, topic: str, partition: int):
        self.consumer.seek_to_beginning(TopicPartition(topic, partition))

    def seek_to_end(self, topic: str, partition: int):
        self.consumer.seek_to_end(TopicPartition(topic, partition))

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        asked = TopicPartition(topic, partition)
        with refusals():
            found = self.consumer.offsets_for_times({asked: time_ms})[asked]
        return found and found.offset

    def commit(self, offsets: dict[tuple[str, int], tuple[int, str]] | None = None):
        """The given offsets with their metadata, or else where it has read to."""
        with refusals():
            self.consumer.commit(
                offsets and {TopicPartition(*place): OffsetAndMetadata(*offset, -1) for place, offset in offsets.items()}
            )

    def committed(self, topic: str, partition: int) -> tuple[int, str] | None:
        with refusals():
            found = self.consumer.committed(TopicPartition(topic, partition), metadata=True)
        return found and (found.offset, found.metadata)

    def close(self):
        self.consumer.close(autocommit=False)


def as_record(record) -> Record:
    headers = tuple(record.headers)
    return Record(record.value, record.key, headers, record.timestamp, record.partition, record.offset)
