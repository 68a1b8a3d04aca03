"""Topics as a suite's own eyes see them, through librdkafka: made, written, read to their end."""

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from harness.waiting import wait_until

DEADLINE_S = 60
COORDINATOR_BEGINS = [
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
]


def admin(bootstrap: str) -> AdminClient:
    """To be held as long as its answers are waited for: they end with it."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(bootstrap: str, topic: str, partitions: int, **configs: str):
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(topic, partitions, replication_factor=1, config=settings)
    client = admin(bootstrap)
    client.create_topics([new])[topic].result(DEADLINE_S)


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    """A topic's partitions; none if it does not exist."""
    client = admin(bootstrap)
    described = client.list_topics(timeout=DEADLINE_S).topics.get(topic)
    return sorted(described.partitions) if described else []


def configs_of(bootstrap: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = admin(bootstrap)
    entries = client.describe_configs([resource])[resource].result(DEADLINE_S)
    return {name: entry.value for name, entry in entries.items()}


def produce(bootstrap: str, topic: str, records: list[dict]):
    """Sends records, each given by the arguments of `Producer.produce`, and waits for every acknowledgement."""
    failures = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for record in records:
        producer.produce(topic, **record, on_delivery=lambda error, _: error and failures.append(error))
        producer.poll(0)
    left = producer.flush(DEADLINE_S)
    if failures or left:
        raise AssertionError(f"{len(failures)} records of {topic} failed, {left} unanswered: {failures[:1]}")


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Each partition's next offset."""
    consumer = reader(bootstrap, "nobody")
    try:
        return {
            id: consumer.get_watermark_offsets(TopicPartition(topic, id), timeout=DEADLINE_S)[1]
            for id in partitions_of(bootstrap, topic)
        }
    finally:
        consumer.close()


def read_to_end(bootstrap: str, topic: str) -> list[Message]:
    """Every record that the topic has now; none if it does not exist."""
    ends = {id: end for id, end in end_offsets(bootstrap, topic).items() if end > 0}
    consumer, records = reader(bootstrap, "nobody"), []
    try:
        consumer.assign([TopicPartition(topic, id, OFFSET_BEGINNING) for id in ends])
        deadline = time.monotonic() + DEADLINE_S
        while any(position.offset < ends[position.partition] for position in consumer.position(consumer.assignment())):
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(records)} records of {topic} in {DEADLINE_S} s, but its ends are {ends}")
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            records.append(message)
        return records
    finally:
        consumer.close()


def read_isolated(bootstrap: str, topic: str, partitions: int, isolation: str, starts: dict[int, int] | None = None) -> list[Message]:
    """Every record up to the end of each partition, which is the last stable offset for `read_committed`.

    `starts` are the first offsets to read, by partition, where they are not 0.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{isolation}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
        }
    )
    records, ended, deadline = [], set(), time.monotonic() + DEADLINE_S
    try:
        consumer.assign([TopicPartition(topic, number, (starts or {}).get(number, 0)) for number in range(partitions)])
        while len(ended) < partitions:
            if time.monotonic() > deadline:
                raise AssertionError(f"{isolation} readers of {topic} do not come to the end")
            record = consumer.poll(1)
            if record is None:
                continue
            if record.error() is None:
                records.append(record)
            elif record.error().code() == KafkaError._PARTITION_EOF:
                ended.add(record.partition())
        return records
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]):
    """Commits a group's offsets from outside the group; waits for a coordinator that is just beginning."""
    consumer = reader(bootstrap, group)
    partitions = [TopicPartition(topic, id, offset) for id, offset in offsets.items()]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=partitions, asynchronous=False)
            return True
        except KafkaException as failure:
            if failure.args[0].code() not in COORDINATOR_BEGINS:
                raise
            return False

    try:
        wait_until(is_committed, f"{group}'s commit", DEADLINE_S)
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """A group's committed offsets of a topic; partitions without one are left out."""
    consumer = reader(bootstrap, group)
    try:
        partitions = [TopicPartition(topic, id) for id in partitions_of(bootstrap, topic)]
        found = consumer.committed(partitions, timeout=DEADLINE_S) if partitions else []
        return {partition.partition: partition.offset for partition in found if partition.offset >= 0}
    finally:
        consumer.close()


def reader(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
