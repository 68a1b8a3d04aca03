"""Producers, consumers and an admin client for the broker at $BOOTSTRAP, and the waits that the cases share."""

import os
import time
from functools import partial

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from harness import waiting
from client_cases.model import fresh

BOOTSTRAP = os.environ["BOOTSTRAP"]
DEADLINE_S = 20
wait_until = partial(waiting.wait_until, deadline_s=DEADLINE_S)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

admin = AdminClient({"bootstrap.servers": BOOTSTRAP})


def create_topic(purpose: str, partitions: int = 1, **configs: str) -> str:
    """A new topic named for its purpose; `retention_ms="1"` sets `retention.ms`."""
    name = fresh(purpose)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(DEADLINE_S)
    wait_until(lambda: description(name), f"{name} to be described")
    return name


def description(topic: str):
    """What DescribeTopics says of a topic; None if the broker does not know it (yet)."""
    try:
        return admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return None


def producer(**settings) -> Producer:
    return Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5, **dotted(settings)})


def produce(topic: str, records, partition: int = 0, **settings) -> list[Message]:
    """Sends (key, value) pairs or keyword dicts in order, waits for the acks, and returns the delivery reports."""
    sender, reports = producer(**settings), []

    def delivered(error, message):
        if error is not None:
            raise AssertionError(f"{topic}: {error}")
        reports.append(message)

    for record in records:
        arguments = record if isinstance(record, dict) else {"key": record[0], "value": record[1]}
        sender.produce(topic, partition=partition, on_delivery=delivered, **arguments)
        sender.poll(0)
    if sender.flush(DEADLINE_S) != 0:
        raise AssertionError(f"{topic}: not everything was acknowledged within {DEADLINE_S} s")
    return reports


def consumer(**settings) -> Consumer:
    """A consumer without group membership: it only ever assigns partitions to itself."""
    fixed = {"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False}
    return Consumer({**fixed, "enable.partition.eof": False, **dotted(settings)})


def consume(topic: str, count: int, partition: int = 0, offset: int = OFFSET_BEGINNING, **settings) -> list[Message]:
    """The first `count` records of a partition from `offset`."""
    receiver = consumer(**settings)
    try:
        receiver.assign([TopicPartition(topic, partition, offset)])
        return read(receiver, count)
    finally:
        receiver.close()


def read(receiver: Consumer, count: int) -> list[Message]:
    """Exactly `count` records from what is assigned; an error, or too few in time, fails the case."""
    messages, deadline = [], time.monotonic() + DEADLINE_S
    while len(messages) < count:
        for message in receiver.consume(count - len(messages), timeout=0.5):
            if message.error():
                raise AssertionError(str(message.error()))
            messages.append(message)
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(messages)} of {count} records within {DEADLINE_S} s")
    return messages


def dotted(settings: dict) -> dict:
    """`fetch_min_bytes=1` as the setting `fetch.min.bytes`."""
    return {key.replace("_", "."): value for key, value in settings.items()}
