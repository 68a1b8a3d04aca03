"""Makes a topic that is compacted to its end: all that is left of six records is the last one, a tombstone.

Its name goes to stdout. Apache Kafka keeps more of the records, as it never compacts the segment that is appended to; the
last one is at offset 5 there, too.
"""

import os
import secrets
import struct
import time

from harness.protocol import (
    CREATE_TOPICS,
    FETCH,
    PRODUCE,
    Connection,
    batch_of,
    create_topic_v2,
    fetch_v4,
    produce_outcome_v8,
    produce_v8,
    varint,
)
from harness.waiting import wait_until

CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "max.compaction.lag.ms": "1000",
}
KEYS = [b"k0", b"k1", b"k2"]
# With the default settings the cleaner looks every 15 s, and it has to look a few times.
DEADLINE_S = 60
# A batch's length, and its count of records, from its beginning.
LENGTH_AT, COUNT_AT = 8, 57


def put(connection: Connection, topic: str, key: bytes, value: bytes | None):
    field = lambda content: varint(-1) if content is None else varint(len(content)) + content
    body = b"\0" + varint(0) + varint(0) + field(key) + field(value) + varint(0)
    batch = batch_of(varint(len(body)) + body, 1, timestamp_ms=int(time.time() * 1_000))
    send = lambda: produce_outcome_v8(connection.request(PRODUCE, 8, produce_v8(topic, 0, batch)))[0] == 0
    # Kafka refuses the first requests to a new topic.
    wait_until(send, f"{topic} to take a record", DEADLINE_S)


def count_of(connection: Connection, topic: str) -> int:
    """How many records a fetch from the first offset on finds."""
    answer = connection.request(FETCH, 4, fetch_v4(topic, 0, 0, 1 << 20))
    # Throttle time, one topic, its name, one partition, its number, error, two offsets, no aborted transactions.
    position = 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 4
    (left,) = struct.unpack_from(">i", answer, position)
    position, count = position + 4, 0
    while left > 0:
        (length,) = struct.unpack_from(">i", answer, position + LENGTH_AT)
        count += struct.unpack_from(">i", answer, position + COUNT_AT)[0]
        position, left = position + 12 + length, left - 12 - length
    return count


def main():
    topic = f"compacted-{secrets.token_hex(4)}"
    with Connection(os.environ["BOOTSTRAP"]) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(topic, 1, CONFIG))
        for value in [b"value", None]:
            for key in KEYS:
                put(connection, topic, key, value)
        if os.environ.get("AGAINST") != "kafka":
            wait_until(lambda: count_of(connection, topic) == 1, f"{topic} to be compacted", DEADLINE_S)
    print(topic)


if __name__ == "__main__":
    main()
