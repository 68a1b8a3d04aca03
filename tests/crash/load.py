"""A writer that remembers what was acknowledged, and a reader that tells what is there."""

import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

DEADLINE_S = 60

# The writer sends so many records to each partition, then waits this long: the broker is busy, and the client is
# not starved.
BURST_RECORDS = 50
BURST_INTERVAL_S = 0.005

QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 200}


class Writer:
    """An idempotent producer on a thread of its own, which writes 0, 1, 2, ... to each partition in turn.

    It goes on over restarts of the broker: what was not acknowledged is sent again, with the same sequence numbers.
    `acked[partition]` lists (number, offset) in the order of the acknowledgements.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int):
        self.acked = [[] for _ in range(partitions)]
        self.written = [0] * partitions
        self.errors = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": DEADLINE_S * 1_000,
                "queue.buffering.max.messages": 5_000,
                **QUIET,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join()

    def finish(self):
        """Stops writing and waits until everything written is acknowledged."""
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(DEADLINE_S) != 0:
            raise AssertionError(f"{len(self._producer)} records were never acknowledged")

    def acked_count(self) -> int:
        return sum(map(len, self.acked))

    def wait_for_acks(self, count: int):
        """Waits until so many records are acknowledged in all."""
        deadline = time.monotonic() + DEADLINE_S
        while self.acked_count() < count:
            if self.errors or time.monotonic() > deadline:
                raise AssertionError(f"{self.acked_count()} of {count} records acknowledged; errors: {self.errors[:3]}")
            time.sleep(0.001)

    def _run(self):
        while not self._stopping.is_set():
            for _ in range(BURST_RECORDS):
                for partition in range(len(self.written)):
                    self._write(partition)
            self._producer.poll(BURST_INTERVAL_S)

    def _write(self, partition: int):
        number = self.written[partition]

        def delivered(error, message):
            if error is None:
                self.acked[partition].append((number, message.offset()))
            else:
                self.errors.append(f"{self._topic}-{partition} number {number}: {error}")

        try:
            self._producer.produce(self._topic, b"%-100d" % number, partition=partition, on_delivery=delivered)
            self.written[partition] += 1
            self._producer.poll(0)
        except BufferError:
            self._producer.poll(0.05)


def admin_client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create_topics(bootstrap: str, *topics: NewTopic):
    admin = admin_client(bootstrap)
    for future in admin.create_topics(list(topics)).values():
        future.result(DEADLINE_S)


def read_all(bootstrap: str, topic: str, partitions: int) -> list[list[int]]:
    """The numbers in each partition, from its first offset to its end as it is now; a number's index is its offset."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **QUIET})
    found = [[] for _ in range(partitions)]
    try:
        ends = [end_offset(reader, TopicPartition(topic, id)) for id in range(partitions)]
        reader.assign([TopicPartition(topic, id, 0) for id in range(partitions)])
        deadline = time.monotonic() + DEADLINE_S
        while any(len(found[id]) < ends[id] for id in range(partitions)):
            for message in reader.consume(10_000, timeout=0.2):
                if message.error():
                    raise AssertionError(str(message.error()))
                if message.offset() != len(found[message.partition()]):
                    raise AssertionError(f"offset {message.offset()} where {len(found[message.partition()])} was due")
                found[message.partition()].append(int(message.value()))
            if time.monotonic() > deadline:
                raise AssertionError(f"read {list(map(len, found))} of {ends} records in {DEADLINE_S} s")
    finally:
        reader.close()
    return found


def end_offset(reader: Consumer, partition: TopicPartition) -> int:
    """Asks again while the broker says that it is not, or not yet, the partition's leader."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return reader.get_watermark_offsets(partition, DEADLINE_S)[1]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
