"""confluent-kafka, behind the calls that the shared cases make."""

from contextlib import suppress

from administration import *  # noqa: F403
from clients import BOOTSTRAP
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from refusal import as_refusal, refusals

from client_cases.model import DEADLINE_S, Record

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
STRATEGIES = {"range", "cooperative-sticky"}
SENDS_NULL_PAIRS = True
OFFSET_BEGINNING, OFFSET_END = -2, -1


class Producer:
    def __init__(self, codec="none", acks="all", idempotent=False, request_bytes_max=1_000_000, transactional_id=None):
        settings = {
            "bootstrap.servers": BOOTSTRAP,
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": idempotent,
            "message.max.bytes": request_bytes_max,
            "linger.ms": 5,
            "batch.num.messages": 1_000,
        }
        if not idempotent:
            # Only an idempotent producer keeps its order if a request is repeated while others are under way.
            settings["max.in.flight.requests.per.connection"] = 1
        if transactional_id:
            settings["transactional.id"] = transactional_id
        self.producer = ConfluentProducer(settings)
        self.offsets, self.error = [], None

    def send(self, topic: str, partition: int, record: Record):
        timestamp = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        while True:
            try:
                self.producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    on_delivery=self._delivered,
                    **timestamp,
                )
                break
            except BufferError:
                self.producer.poll(0.1)
        self.producer.poll(0)

    def _delivered(self, error, message):
        self.error = self.error or error
        self.offsets.append(message.offset())

    def flush(self) -> list[int]:
        if self.producer.flush(DEADLINE_S) != 0:
            raise AssertionError(f"not everything was acknowledged within {DEADLINE_S} s")
        if self.error:
            raise as_refusal(self.error)
        offsets, self.offsets = self.offsets, []
        return offsets

    def close(self):
        self.producer.flush(DEADLINE_S)


class TransactionalProducer(Producer):
    def __init__(self, transactional_id: str):
        super().__init__(idempotent=True, transactional_id=transactional_id)
        with refusals():
            self.producer.init_transactions(DEADLINE_S)

    def begin(self):
        with refusals():
            self.producer.begin_transaction()

    def send_offsets(self, consumer: "Consumer", offsets: dict[tuple[str, int], int]):
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        with refusals():
            group = consumer.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(wanted, group, DEADLINE_S)

    def commit(self):
        with refusals():
            self.producer.commit_transaction(DEADLINE_S)

    def abort(self):
        with refusals():
            self.producer.abort_transaction(DEADLINE_S)

    def close(self):
        """One that was fenced refuses even to flush."""
        with suppress(KafkaException):
            super().close()


class Consumer:
    def __init__(
        self, group=None, strategy="range", instance_id=None, reset="earliest", isolation="read_uncommitted",
        wait_ms_max=500,
    ):  # fmt: skip
        settings = {
            "bootstrap.servers": BOOTSTRAP,
            # It insists on a group, even if it is never joined.
            "group.id": group or "unused",
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "error" if reset == "none" else reset,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "fetch.wait.max.ms": wait_ms_max,
            "heartbeat.interval.ms": 500,
            "session.timeout.ms": 10_000,
        }
        if instance_id:
            settings["group.instance.id"] = instance_id
        self.consumer = ConfluentConsumer(settings)

    def assign(self, topic: str, offsets: dict[int, int]):
        self.assign_places({(topic, partition): offset for partition, offset in offsets.items()})

    def assign_places(self, offsets: dict[tuple[str, int], int]):
        self.consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])

    def subscribe(self, topic: str, gained, lost):
        def on_assign(_, assigned):
            gained({partition.partition for partition in assigned})

        def on_revoke(_, revoked):
            if revoked:
                self._commit_what_was_read()
                lost({partition.partition for partition in revoked})

        self.consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)

    def poll(self, seconds: float) -> list[Record]:
        with refusals():
            messages = self.consumer.consume(2_000, timeout=seconds)
        for message in messages:
            if message.error():
                raise as_refusal(message.error())
        return [as_record(message) for message in messages]

    def seek(self, topic: str, partition: int, offset: int):
        with refusals():
            self.consumer.seek(TopicPartition(topic, partition, offset))

    def seek_to_beginning(self, topic: str, partition: int):
        self.seek(topic, partition, OFFSET_BEGINNING)

    def seek_to_end(self, topic: str, partition: int):
        self.seek(topic, partition, OFFSET_END)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        with refusals():
            (found,) = self.consumer.offsets_for_times([TopicPartition(topic, partition, time_ms)], DEADLINE_S)
        return None if found.offset == OFFSET_END else found.offset

    def commit(self, offsets: dict[tuple[str, int], tuple[int, str]] | None = None):
        """The given offsets with their metadata, or else where it has read to."""
        if offsets is None:
            return self._commit_what_was_read()
        wanted = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in offsets.items()
        ]
        with refusals():
            for done in self.consumer.commit(offsets=wanted, asynchronous=False):
                if done.error:
                    raise as_refusal(done.error)

    def _commit_what_was_read(self):
        with refusals(but={KafkaError._NO_OFFSET}):
            self.consumer.commit(asynchronous=False)

    def committed(self, topic: str, partition: int) -> tuple[int, str] | None:
        with refusals():
            (found,) = self.consumer.committed([TopicPartition(topic, partition)], DEADLINE_S)
        return None if found.offset < 0 else (found.offset, found.metadata)

    def close(self):
        self.consumer.close()


def as_record(message) -> Record:
    headers = tuple(message.headers() or ())
    _, timestamp_ms = message.timestamp()
    return Record(message.value(), message.key(), headers, timestamp_ms, message.partition(), message.offset())
