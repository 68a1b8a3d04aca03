"""Members of a consumer group (KIP-848) that join and leave one by one while records flow.

It shows that every record is read, that a partition has one owner at a time, and that in the end the committed offsets are
the ends of the logs. It tells for how long a partition was not read that did not move, which depends on the machine.

    RECORDS   how many records flow (50,000)
    MEMBERS   how many consumers there are, each of which leaves once and is replaced (10)
"""

import os
import threading
import time
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ["BOOTSTRAP"]
RECORDS = int(os.environ.get("RECORDS", "50000"))
MEMBERS = int(os.environ.get("MEMBERS", "10"))
PARTITIONS = 2 * MEMBERS
DEADLINE_S = 60 + RECORDS / 1_000


class Member(threading.Thread):
    """Reads and commits until it is told to stop, and then leaves."""

    def __init__(self, group: str, topic: str, world: "World"):
        super().__init__(daemon=True)
        self.topic, self.world, self.stopping = topic, world, threading.Event()
        self.owned: set[int] = set()
        self.failure: Exception | None = None
        self.consumer = Consumer(
            {
                "bootstrap.servers": BOOTSTRAP,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )

    def run(self):
        try:
            self.consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked)
            while not self.stopping.is_set():
                messages = [message for message in self.consumer.consume(500, 0.1) if message.error() is None]
                for message in messages:
                    self.world.read(message.partition(), message.offset())
                if messages:
                    self.consumer.commit(asynchronous=True)
        except Exception as failure:  # noqa: BLE001
            self.failure = failure
        finally:
            self.consumer.close()

    def assigned(self, _consumer, partitions: list[TopicPartition]):
        for one in partitions:
            self.owned.add(one.partition)
            self.world.assigned(one.partition, self)

    def revoked(self, consumer, partitions: list[TopicPartition]):
        positions = [one for one in consumer.position(partitions) if one.offset >= 0]
        if positions:
            consumer.commit(offsets=positions, asynchronous=False)
        for one in partitions:
            self.owned.discard(one.partition)
            self.world.revoked(one.partition, self)


class World:
    """Who owns each partition, what was read of it, and when."""

    def __init__(self):
        self.lock = threading.Lock()
        self.seen: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.last_read: dict[int, float] = {}
        self.pauses_s: list[float] = []
        self.owners: dict[int, Member] = {}
        # Partitions that were given to somebody before their owner had given them up.
        self.owned_twice: list[int] = []

    def read(self, partition: int, offset: int):
        now = time.monotonic()
        with self.lock:
            self.seen[partition].add(offset)
            if partition in self.last_read:
                self.pauses_s.append(now - self.last_read[partition])
            self.last_read[partition] = now

    def assigned(self, partition: int, member: Member):
        """The next pause of the partition is one of its move."""
        with self.lock:
            if partition in self.owners:
                self.owned_twice.append(partition)
            self.owners[partition] = member
            self.last_read.pop(partition, None)

    def revoked(self, partition: int, member: Member):
        with self.lock:
            if self.owners.get(partition) is member:
                del self.owners[partition]
            self.last_read.pop(partition, None)

    def count(self) -> int:
        with self.lock:
            return sum(len(offsets) for offsets in self.seen)


def produce(topic: str, rate: float):
    """Sends the records to all partitions in turn, at a rate."""
    producer, began = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5}), time.monotonic()
    for number in range(RECORDS):
        producer.produce(topic, value=b"x" * 100, partition=number % PARTITIONS)
        producer.poll(0)
        ahead = number / rate - (time.monotonic() - began)
        if ahead > 0.01:
            time.sleep(ahead)
    if producer.flush(30):
        raise AssertionError("not all records were acknowledged")


def main():
    topic, group = f"rolling-{uuid.uuid4()}", f"rolling-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    world, members = World(), []

    def add():
        member = Member(group, topic, world)
        members.append(member)
        member.start()
        return member

    for _ in range(MEMBERS):
        add()
    wait_for(lambda: sum(len(one.owned) for one in members) == PARTITIONS, "all partitions to be assigned")
    # The members change for as long as records flow.
    seconds = max(RECORDS / 10_000, 2.0 * MEMBERS)
    producing = threading.Thread(target=produce, args=(topic, RECORDS / seconds), daemon=True)
    producing.start()
    for leaving in members[:MEMBERS]:
        leaving.stopping.set()
        leaving.join(30)
        add()
        time.sleep(seconds / MEMBERS / 2)
    producing.join(DEADLINE_S)
    wait_for(lambda: world.count() == RECORDS, f"all records to be read: {world.count()} of {RECORDS}")
    for member in members[MEMBERS:]:
        member.stopping.set()
    for member in members:
        member.join(30)
        if member.failure:
            raise member.failure
    check_committed(group, topic)
    if world.owned_twice:
        raise AssertionError(f"partitions with two owners at a time: {world.owned_twice}")
    pauses = sorted(world.pauses_s)
    print(
        f"ok librdkafka: {MEMBERS} members were replaced while {RECORDS} records flowed for {seconds:.0f} s; a partition that did not move "
        f"was not read for {pauses[-1] * 1000:.0f} ms at most (p99 {pauses[len(pauses) * 99 // 100] * 1000:.0f} ms)"
    )


def check_committed(group: str, topic: str):
    reader = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": group})
    asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    committed = {one.partition: one.offset for one in reader.committed(asked, timeout=20)}
    for number in range(PARTITIONS):
        _, end = reader.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
        if committed[number] != end:
            raise AssertionError(f"{topic}-{number}: {committed[number]} is committed, and the log ends at {end}")
    reader.close()


def wait_for(condition, what: str):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {DEADLINE_S:.0f} s for {what}")
        time.sleep(0.05)


main()
