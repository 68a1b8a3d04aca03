"""aiokafka, behind the calls that the shared cases make."""

from administration import *  # noqa: F403
from administration import BOOTSTRAP, committed_offsets
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from loop import run

from client_cases.model import Record

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
STRATEGIES = {"range": RangePartitionAssignor}
# It takes a record without key and value for a batch of its own making only.
SENDS_NULL_PAIRS = False


class Producer:
    def __init__(self, codec="none", acks="all", idempotent=False, request_bytes_max=1_048_576, transactional_id=None):
        settings = {
            "bootstrap_servers": BOOTSTRAP,
            "compression_type": None if codec == "none" else codec,
            "acks": acks,
            "enable_idempotence": idempotent,
            "transactional_id": transactional_id,
            "max_request_size": request_bytes_max,
            "linger_ms": 5,
        }
        self.sent = []
        self.producer = run(started(AIOKafkaProducer, settings))

    def send(self, topic: str, partition: int, record: Record):
        """Keeps the record for `flush`: changing threads for each would cost more than to send it."""
        self.sent.append((topic, partition, record))

    def flush(self) -> list[int]:
        sent, self.sent = self.sent, []
        return run(self._send_all(sent))

    async def _send_all(self, sent) -> list[int]:
        futures = [
            await self.producer.send(
                topic, record.value, record.key, partition, record.timestamp_ms, list(record.headers)
            )
            for topic, partition, record in sent
        ]
        acknowledged = [await future for future in futures]
        # Without acknowledgements it knows of no offset.
        return [metadata and metadata.offset for metadata in acknowledged]

    def close(self):
        run(self.producer.stop())


class TransactionalProducer(Producer):
    """It asks for its producer id as it starts."""

    def __init__(self, transactional_id: str):
        super().__init__(idempotent=True, transactional_id=transactional_id)

    def begin(self):
        run(self.producer.begin_transaction())

    def send_offsets(self, consumer: "Consumer", offsets: dict[tuple[str, int], int]):
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        run(self.producer.send_offsets_to_transaction(wanted, consumer.group))

    def commit(self):
        run(self.producer.commit_transaction())

    def abort(self):
        run(self.producer.abort_transaction())


class Consumer(ConsumerRebalanceListener):
    def __init__(
        self, group=None, strategy="range", instance_id=None, reset="earliest", isolation="read_uncommitted",
        wait_ms_max=500,
    ):  # fmt: skip
        settings = {
            "bootstrap_servers": BOOTSTRAP,
            "group_id": group,
            "group_instance_id": instance_id,
            "partition_assignment_strategy": [STRATEGIES[strategy]],
            "auto_offset_reset": reset,
            "enable_auto_commit": False,
            "isolation_level": isolation,
            "fetch_max_wait_ms": wait_ms_max,
            "heartbeat_interval_ms": 500,
            "session_timeout_ms": 10_000,
        }
        self.group = group
        self.consumer = run(started(AIOKafkaConsumer, settings))

    def assign(self, topic: str, offsets: dict[int, int]):
        self.assign_places({(topic, partition): offset for partition, offset in offsets.items()})

    def assign_places(self, offsets: dict[tuple[str, int], int]):
        run(self._assign({TopicPartition(*place): offset for place, offset in offsets.items()}))

    async def _assign(self, offsets: dict[TopicPartition, int]):
        self.consumer.assign(list(offsets))
        for partition, offset in offsets.items():
            self.consumer.seek(partition, offset)

    def subscribe(self, topic: str, gained, lost):
        self.gained, self.lost = gained, lost
        run(self._subscribe(topic))

    async def _subscribe(self, topic: str):
        self.consumer.subscribe([topic], listener=self)

    async def on_partitions_assigned(self, assigned):
        self.gained({partition.partition for partition in assigned})

    async def on_partitions_revoked(self, revoked):
        if revoked:
            await self.consumer.commit()
            self.lost({partition.partition for partition in revoked})

    def poll(self, seconds: float) -> list[Record]:
        fetched = run(self.consumer.getmany(timeout_ms=int(seconds * 1_000)))
        return [as_record(record) for records in fetched.values() for record in records]

    def seek(self, topic: str, partition: int, offset: int):
        run(self._seek(TopicPartition(topic, partition), offset))

    async def _seek(self, partition: TopicPartition, offset: int):
        self.consumer.seek(partition, offset)

    def seek_to_beginning(self, topic: str, partition: int):
        run(self.consumer.seek_to_beginning(TopicPartition(topic, partition)))

    def seek_to_end(self, topic: str, partition: int):
        run(self.consumer.seek_to_end(TopicPartition(topic, partition)))

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        asked = TopicPartition(topic, partition)
        found = run(self.consumer.offsets_for_times({asked: time_ms}))[asked]
        return found and found.offset

    def commit(self, offsets: dict[tuple[str, int], tuple[int, str]] | None = None):
        """The given offsets with their metadata, or else where it has read to."""
        run(self._commit(offsets))

    async def _commit(self, offsets):
        if offsets is None:
            await self.consumer.commit()
        else:
            # It commits only for partitions that it is assigned.
            self.consumer.assign([TopicPartition(*place) for place in offsets])
            await self.consumer.commit(
                {TopicPartition(*place): OffsetAndMetadata(*offset) for place, offset in offsets.items()}
            )

    def committed(self, topic: str, partition: int) -> tuple[int, str] | None:
        """As its admin client fetches it, since the consumer leaves the metadata out."""
        return committed_offsets(self.group, [(topic, partition)]).get((topic, partition))

    def close(self):
        run(self.consumer.stop())


async def started(kind, settings: dict):
    """Its clients must be made within the loop that they run in."""
    made = kind(**settings)
    await made.start()
    return made


def as_record(record) -> Record:
    headers = tuple(record.headers)
    return Record(record.value, record.key, headers, record.timestamp, record.partition, record.offset)
