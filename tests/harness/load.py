"""Numbered records whose bytes a seed tells: writers that remember what was acknowledged, readers that compare."""

import random
import struct
import threading
import time
import zlib

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.seed import SEED

DEADLINE_S = 60

# A writer sends so many records to each of its partitions, then waits this long: the broker is busy, and the client
# is not starved.
BURST_RECORDS = 50
BURST_INTERVAL_S = 0.005

# A new leader is on its way, or was just elected.
# The client says the last one itself, of a broker that is not shown any more.
PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    DESTROY_BROKER := -137,
)

QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 200}

HEAD = struct.Struct(">iq")
BODY_BYTES_MAX = 200
NOISE = random.Random(SEED).randbytes(64 << 10)


def value_of(partition: int, number: int) -> bytes:
    """What stands in a record: where it belongs, and bytes of a length and content of its own."""
    head = HEAD.pack(partition, number)
    chosen = zlib.crc32(head)
    start = chosen % (len(NOISE) - BODY_BYTES_MAX)
    return head + NOISE[start : start + chosen % BODY_BYTES_MAX]


def number_of(partition: int, value: bytes) -> int:
    """The number of a record; fails if a byte is not as it was written."""
    _, number = HEAD.unpack_from(value)
    if value != value_of(partition, number):
        raise AssertionError(f"SEED={SEED}: partition {partition} has {value.hex()} for number {number}")
    return number


class Writer:
    """Idempotent producers on threads of their own, which write 0, 1, 2, ... to each partition in turn.

    They go on over restarts of the broker: what was not acknowledged is sent again, with the same sequence numbers.
    `acked[partition]` lists (number, offset) in the order of the acknowledgements. With several producers each has
    partitions of its own. With `records_per_second` they write no more than that each; else as much as comes of it.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        producers: int = 1,
        burst_interval_s: float = BURST_INTERVAL_S,
        client: dict[str, object] | None = None,
        records_per_second: int | None = None,
    ):
        # When each record was acknowledged, and how long that took since it was handed to the client, in seconds.
        self.latencies: list[tuple[float, float]] = []
        self.acked = [[] for _ in range(partitions)]
        self.written = [0] * partitions
        self.errors = []
        # Who is asked at the end. Nodes may have come and gone meanwhile.
        self.bootstrap = bootstrap
        self._topic = topic
        self._burst_interval_s = burst_interval_s
        self._records_per_second = records_per_second
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": DEADLINE_S * 1_000,
            "queue.buffering.max.messages": 5_000,
            **QUIET,
            **(client or {}),
        }
        self._producers = [Producer(settings) for _ in range(producers)]
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(producer, range(first, partitions, producers)))
            for first, producer in enumerate(self._producers)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop()
        # One that lives on sends what it still has to whichever broker gets the address next.
        for producer in self._producers:
            producer.purge()
        self._producers.clear()

    def finish(self):
        """Stops writing and waits until everything written is acknowledged."""
        self._stop()
        for producer in self._producers:
            if producer.flush(DEADLINE_S) != 0:
                raise AssertionError(f"{len(producer)} records were never acknowledged; errors: {self.errors[:3]}")

    def acked_now(self) -> list[list[tuple[int, int]]]:
        """A copy of `acked` that does not grow."""
        return [list(partition) for partition in self.acked]

    def acked_count(self) -> int:
        return sum(map(len, self.acked))

    def wait_for_acks(self, count: int):
        """Waits until so many records are acknowledged in all."""
        deadline = time.monotonic() + DEADLINE_S
        while self.acked_count() < count:
            if self.errors or time.monotonic() > deadline:
                raise AssertionError(f"{self.acked_count()} of {count} records acknowledged; errors: {self.errors[:3]}")
            time.sleep(0.001)

    def p99_ms(self, since: float, until: float) -> float:
        """Of what was acknowledged between two moments of `time.monotonic`."""
        took = sorted(latency for at, latency in list(self.latencies) if since <= at < until)
        return took[len(took) * 99 // 100] * 1_000 if took else float("nan")

    def wait_for_more_acks(self, more: int):
        """Waits until so many records more than now are acknowledged."""
        self.wait_for_acks(self.acked_count() + more)

    def assert_all_there(self):
        """When it has finished: each record that was written is there once, in order, at the offset that was told."""
        if self.errors:
            raise AssertionError(f"{len(self.errors)} records failed: {self.errors[:3]}")
        found = read_all(self.bootstrap, self._topic, len(self.written))
        assert_kept(self.acked, found)
        if list(map(len, found)) != self.written:
            raise AssertionError(f"SEED={SEED}: {self.written} records were written, {list(map(len, found))} are there")

    def _stop(self):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, producer: Producer, partitions: range):
        if self._records_per_second:
            self._run_slowly(producer, partitions, len(partitions) / self._records_per_second)
        while not self._stopping.is_set():
            for _ in range(BURST_RECORDS):
                for partition in partitions:
                    self._write(producer, partition)
            producer.poll(self._burst_interval_s)

    def _run_slowly(self, producer: Producer, partitions: range, interval_s: float):
        due = time.monotonic()
        while not self._stopping.is_set():
            for partition in partitions:
                self._write(producer, partition)
            # What could not be written in time is not made up for.
            due = max(due, time.monotonic() - 1) + interval_s
            while (left_s := due - time.monotonic()) > 0:
                producer.poll(left_s)

    def _write(self, producer: Producer, partition: int):
        number = self.written[partition]

        def delivered(error, message):
            if error is None:
                self.acked[partition].append((number, message.offset()))
                self.latencies.append((time.monotonic(), message.latency()))
            else:
                self.errors.append(f"{self._topic}-{partition} number {number}: {error}")

        try:
            value = value_of(partition, number)
            producer.produce(self._topic, value, partition=partition, on_delivery=delivered)
            self.written[partition] += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)


def assert_kept(acked: list[list[tuple[int, int]]], found: list[list[int]]):
    """Each acknowledged number stands at the offset that the acknowledgement told, and nothing stands twice.

    A broker that has started again knows the offsets of a producer's last batch alone (as Kafka's snapshots have it). One before it
    that is sent again is acknowledged as a duplicate, without an offset.
    """
    for partition, numbers in enumerate(found):
        where = f"SEED={SEED}, partition {partition}"
        if numbers != list(range(len(numbers))):
            wrong = next(offset for offset, number in enumerate(numbers) if offset != number)
            raise AssertionError(f"{where}: number {numbers[wrong]} stands at offset {wrong}")
        for number, offset in acked[partition]:
            if offset not in (number, None) or number >= len(numbers):
                raise AssertionError(f"{where}: number {number} was acknowledged at {offset} of {len(numbers)}")


def admin_client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create_topics(bootstrap: str, *topics: NewTopic):
    admin = admin_client(bootstrap)
    for future in admin.create_topics(list(topics)).values():
        future.result(DEADLINE_S)


def read_all(bootstrap: str, topic: str, partitions: int) -> list[list[int]]:
    """The numbers in each partition, from its first offset to its end as it is now; a number's index is its offset."""
    with_ends = {partition: (0, None) for partition in range(partitions)}
    return list(read(bootstrap, topic, with_ends).values())


def read(bootstrap: str, topic: str, ranges: dict[int, tuple[int, int | None]]) -> dict[int, list[int]]:
    """The numbers from one offset to before another, by partition; no other offset means the end as it is now.

    Fails if an offset is left out or a byte is wrong.
    """
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **QUIET})
    found = {partition: [] for partition in ranges}
    try:
        wanted = {
            partition: (end_offset(reader, TopicPartition(topic, partition)) if end is None else end) - start
            for partition, (start, end) in ranges.items()
        }
        reader.assign([TopicPartition(topic, partition, start) for partition, (start, _) in ranges.items()])
        deadline = time.monotonic() + DEADLINE_S
        while any(len(found[partition]) < wanted[partition] for partition in ranges):
            messages = reader.consume(10_000, timeout=0.05)
            if messages:
                # A million records take a busy machine more than a minute. It is silence that has a bound.
                deadline = time.monotonic() + DEADLINE_S
            for message in messages:
                if message.error():
                    raise AssertionError(str(message.error()))
                partition = message.partition()
                if len(found[partition]) == wanted[partition]:
                    continue
                due = ranges[partition][0] + len(found[partition])
                if message.offset() != due:
                    raise AssertionError(f"offset {message.offset()} of {topic}-{partition} where {due} was due")
                found[partition].append(number_of(partition, message.value()))
            if time.monotonic() > deadline:
                got = {partition: len(numbers) for partition, numbers in found.items()}
                raise AssertionError(f"read {got} of {wanted} records of {topic}, and none in {DEADLINE_S} s")
    finally:
        reader.close()
    return found


def end_offset(reader: Consumer, partition: TopicPartition) -> int:
    """Asks again while the broker says that it is not, or not yet, the partition's leader, or does not know the end yet."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return reader.get_watermark_offsets(partition, DEADLINE_S)[1]
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
