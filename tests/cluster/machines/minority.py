"""What a node answers to somebody on its own side of a cut. Prints one line of JSON.

    python minority.py BOOTSTRAP TOPIC PARTITION TIMEOUT_MS

Each answer is [error code, seconds]; a connection without an answer within the deadline is an exception.
"""

import json
import struct
import sys
import time

from harness.protocol import CREATE_TOPICS, FETCH, METADATA, PRODUCE, Connection
from harness.protocol import batch_v2, create_topic_v2, fetch_v4, leaders_v1, metadata_v1, produce_error_v3, produce_v3

DEADLINE_S = 30
FETCH_BYTES = 1 << 20


def main(bootstrap: str, topic: str, partition: int, timeout_ms: int) -> dict:
    batch = batch_v2([b"of a minority"], int(time.time() * 1_000))

    def asked(api: int, version: int, body: bytes, error_of) -> list:
        """A connection for each, so that none waits for another."""
        began = time.monotonic()
        with Connection(bootstrap, DEADLINE_S) as connection:
            answer = error_of(connection.request(api, version, body))
            return [answer, round(time.monotonic() - began, 3)]

    return {
        "leader": asked(METADATA, 1, metadata_v1([topic]), lambda answer: leaders_v1(answer)[topic]),
        "fetch": asked(FETCH, 4, fetch_v4(topic, partition, 0, FETCH_BYTES), fetched),
        "produce": asked(PRODUCE, 3, produce_v3(topic, partition, batch, -1, timeout_ms), produce_error_v3),
        "create": asked(CREATE_TOPICS, 2, create_topic_v2("of-a-minority", 1, timeout_ms=timeout_ms), created_error),
    }


def fetched(answer: bytes) -> list[int]:
    """The error code of the only partition of a Fetch v4 answer, its high watermark, and how many bytes came."""
    (name_length,) = struct.unpack_from(">h", answer, 8)
    at = 8 + 2 + name_length + 4 + 4
    error, high_watermark, _, aborted = struct.unpack_from(">hqqi", answer, at)
    (length,) = struct.unpack_from(">i", answer, at + 22 + 16 * max(aborted, 0))
    return [error, high_watermark, length]


def created_error(answer: bytes) -> int:
    """The error code of the only topic of a CreateTopics v2 answer."""
    (name_length,) = struct.unpack_from(">h", answer, 8)
    return struct.unpack_from(">h", answer, 8 + 2 + name_length)[0]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
