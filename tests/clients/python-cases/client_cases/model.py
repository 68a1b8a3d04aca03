"""What the cases and every client's adapter speak of."""

import os
import re
import secrets
import time
import urllib.request
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from harness import waiting

DEADLINE_S = 20
wait_until = partial(waiting.wait_until, deadline_s=DEADLINE_S)

# A record of this size makes a batch of exactly 1,048,588 bytes, the default max.message.bytes: the batch header takes
# 61 bytes, and a record without key and headers 11 more.
LARGEST_VALUE_BYTES = 1_048_588 - 61 - 11


class Code(IntEnum):
    """The error codes of Kafka's protocol that the cases provoke."""

    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    MESSAGE_TOO_LARGE = 10
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_ALREADY_EXISTS = 36
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_PRODUCER_EPOCH = 47
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    UNKNOWN_LEADER_EPOCH = 75
    ELECTION_NOT_NEEDED = 84
    PRODUCER_FENCED = 90


class Refused(Exception):
    """The broker's refusal, as the client told of it."""

    def __init__(self, code: int, message: str):
        super().__init__(f"{code} {message}")
        self.code, self.message = code, message


@dataclass(frozen=True)
class Record:
    """A record to send, or one that was read: then with its place."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = None

    @property
    def content(self) -> tuple:
        return self.key, self.value, self.headers


@dataclass
class GroupMember:
    """A member as DescribeGroups tells of it."""

    client_host: str
    instance_id: str | None
    partitions: set[tuple[str, int]] = field(default_factory=set)


@dataclass
class Group:
    """A group as DescribeGroups tells of it."""

    state: str
    protocol: str
    members: list[GroupMember]


def answered_fetches() -> int:
    """How many Fetch requests the broker has answered; 0 of one that does not say where its metrics are."""
    if "METRICS" not in os.environ:
        return 0
    with urllib.request.urlopen(os.environ["METRICS"], timeout=DEADLINE_S) as page:
        (count,) = re.findall(r'^logway_request_seconds_count\{api="Fetch"\} (\d+)$', page.read().decode(), re.MULTILINE)
    return int(count)


def fresh(purpose: str) -> str:
    """A name that nothing had before, so that a suite can run again on the same broker."""
    return f"{purpose}-{secrets.token_hex(4)}"


def read(consumer, count: int) -> list[Record]:
    """At least `count` records from what the consumer has been assigned; too few in time fail the case."""
    records, deadline = [], time.monotonic() + DEADLINE_S
    while len(records) < count:
        records += consumer.poll(0.5)
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(records)} of {count} records within {DEADLINE_S} s")
    return records
