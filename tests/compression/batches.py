"""Batches of every codec, as producers send them and a log holds them."""

import gzip
import struct
from dataclasses import dataclass

import cramjam
import lz4.frame
import zstandard

from harness.protocol import FETCH, PRODUCE, Connection, crc32c, fetch_v4, produce_outcome_v8, produce_v8, varint
from harness.waiting import wait_until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_COVERS_FROM = 21
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10

XERIAL = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"

# The most that a test unpacks.
PLAIN_BYTES_MAX = 64 << 20


def pack(codec: str, plain: bytes) -> bytes:
    """As librdkafka packs it: Snappy as one bare block."""
    return {
        "none": bytes,
        "gzip": lambda plain: gzip.compress(plain, 6),
        "snappy": lambda plain: bytes(cramjam.snappy.compress_raw(plain)),
        "lz4": lambda plain: lz4.frame.compress(plain, block_linked=False),
        "zstd": zstandard.ZstdCompressor().compress,
    }[codec](plain)


def unpack(codec: str, packed: bytes) -> bytes:
    if codec == "snappy" and packed.startswith(XERIAL):
        return unpack_framed(packed[len(XERIAL) :])
    return {
        "none": bytes,
        "gzip": gzip.decompress,
        "snappy": lambda packed: bytes(cramjam.snappy.decompress_raw(packed)),
        "lz4": lz4.frame.decompress,
        "zstd": lambda packed: zstandard.ZstdDecompressor().decompressobj().decompress(packed),
    }[codec](packed)


def unpack_framed(blocks: bytes) -> bytes:
    plain = b""
    while blocks:
        (length,) = struct.unpack_from(">i", blocks)
        plain += bytes(cramjam.snappy.decompress_raw(blocks[4 : 4 + length]))
        blocks = blocks[4 + length :]
    return plain


@dataclass
class Batch:
    """What the header of a batch says, and its records as they are when they are not packed."""

    base_offset: int = 0
    leader_epoch: int = -1
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = 0
    max_timestamp: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)
    count: int = 0
    plain: bytes = b""
    size: int = 0

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    def encode(self, codec: str, body: bytes | None = None) -> bytes:
        """The batch with a right CRC, and with `body` if it is packed already."""
        body = pack(codec, self.plain) if body is None else body
        attributes = self.attributes & ~7 | CODECS.index(codec)
        fields = [attributes, self.last_offset_delta, self.base_timestamp, self.max_timestamp, *self.producer]
        checked = struct.pack(">hiqqqhii", *fields, self.count) + body
        tail = struct.pack(">ibI", self.leader_epoch, 2, crc32c(checked)) + checked
        return struct.pack(">qi", self.base_offset, len(tail)) + tail


def read_batches(raw: bytes) -> list[Batch]:
    """The whole batches in the answer to a Fetch or in a segment; AssertionError if a CRC is wrong."""
    batches = []
    while len(raw) >= HEADER.size:
        base, length, epoch, magic, crc, attributes, delta, first, last, *producer, count = HEADER.unpack_from(raw)
        one, raw = raw[: 12 + length], raw[12 + length :]
        assert (magic, crc) == (2, crc32c(one[CRC_COVERS_FROM:])), f"the batch at {base} is damaged"
        plain = unpack(CODECS[attributes & 7], one[HEADER.size :])
        batches.append(Batch(base, epoch, attributes, delta, first, last, tuple(producer), count, plain, len(one)))
    return batches


# A topic has just been created: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER.
NOT_YET = (3, 5, 6)


def appended(bootstrap: str, topic: str, raw: bytes) -> tuple[int, int, str]:
    """What the broker says to a batch for partition 0: the error, the time of the append, the error's message."""
    outcome = (NOT_YET[0], -1, "")

    def is_known() -> bool:
        nonlocal outcome
        outcome = produce_outcome_v8(connection.request(PRODUCE, 8, produce_v8(topic, 0, raw)))
        return outcome[0] not in NOT_YET

    with Connection(bootstrap, timeout_s=120) as connection:
        wait_until(is_known, f"a leader of {topic}", 60)
    return outcome


def fetched(bootstrap: str, topic: str, offset: int = 0) -> list[Batch]:
    """All batches of partition 0 from an offset on, of which there must not be more than some MiB."""
    with Connection(bootstrap) as connection:
        answer = connection.request(FETCH, 4, fetch_v4(topic, 0, offset, 32 << 20))
    (name_length,) = struct.unpack_from(">h", answer, 8)
    at = 8 + 2 + name_length + 4
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    assert error == 0, f"error {error} from fetching {topic}"
    at += struct.calcsize(">ihqqi") + 16 * max(aborted, 0)
    (length,) = struct.unpack_from(">i", answer, at)
    return read_batches(answer[at + 4 : at + 4 + length])


def record(delta_ms: int, offset_delta: int, key, value, headers=(), attributes: int = 0) -> bytes:
    def part(raw: bytes | None) -> bytes:
        return varint(-1) if raw is None else varint(len(raw)) + raw

    head = bytes([attributes]) + varint(delta_ms) + varint(offset_delta)
    packed_headers = b"".join(part(name) + part(content) for name, content in headers)
    body = head + part(key) + part(value) + varint(len(headers)) + packed_headers
    return varint(len(body)) + body
