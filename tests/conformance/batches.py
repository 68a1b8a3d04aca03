"""Record batches, well formed and not, and what a log gives back.

The layout is that of the record batch, magic 2: https://kafka.apache.org/documentation/#recordbatch
"""

import gzip
import struct
from dataclasses import dataclass, field

from harness.protocol import crc32c, varint

# Of 2023: far from every limit that hangs on the clock.
LONG_AGO_MS = 1_700_000_000_000
HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_FROM = 21

NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64


@dataclass
class Record:
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    timestamp_delta: int = 0
    offset_delta: int | None = None

    def encode(self, position: int) -> bytes:
        delta = position if self.offset_delta is None else self.offset_delta
        body = b"\0" + varint(self.timestamp_delta) + varint(delta) + nullable(self.key) + nullable(self.value)
        body += varint(len(self.headers))
        for name, value in self.headers:
            body += nullable(name) + nullable(value)
        return varint(len(body)) + body


def nullable(raw: bytes | None) -> bytes:
    return varint(-1) if raw is None else varint(len(raw)) + raw


@dataclass
class Batch:
    """A batch of `count` records, or of those given; every field of its header can be made wrong."""

    count: int = 1
    records: list[Record] | None = None
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = LONG_AGO_MS
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    # What the header says, if not what there is.
    records_count: int | None = None
    length: int | None = None
    crc: int | None = None
    compression: int = NO_COMPRESSION
    body: bytes | None = None

    def encode(self) -> bytes:
        records = self.records
        if records is None:
            records = [Record(value=b"value %d" % position) for position in range(self.count)]
        body = self.body
        if body is None:
            body = compressed(b"".join(one.encode(at) for at, one in enumerate(records)), self.compression)
        count = len(records) if self.records_count is None else self.records_count
        last = len(records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        latest = self.base_timestamp + max((one.timestamp_delta for one in records), default=0)
        maximum = latest if self.max_timestamp is None else self.max_timestamp
        checked = struct.pack(
            ">hiqqqhii",
            self.attributes | self.compression,
            last,
            self.base_timestamp,
            maximum,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count,
        )
        checked += body
        crc = crc32c(checked) if self.crc is None else self.crc
        tail = struct.pack(">ibI", self.leader_epoch, self.magic, crc) + checked
        length = len(tail) if self.length is None else self.length
        return struct.pack(">qi", self.base_offset, length) + tail


def compressed(raw: bytes, codec: int) -> bytes:
    """Only what Python itself can; batches of other codecs are given by their `body`."""
    return gzip.compress(raw, mtime=0) if codec == GZIP else raw


def old_message(magic: int, value: bytes = b"old", key: bytes | None = None) -> bytes:
    """A message set of one message, in the format before batches: magic 0 or 1."""
    from zlib import crc32

    stamp = struct.pack(">q", LONG_AGO_MS) if magic == 1 else b""
    sized_key = struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    body = struct.pack(">bb", magic, 0) + stamp + sized_key + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def read_batches(raw: bytes | None) -> list[dict] | None:
    """What is in the records of a Fetch's answer: each batch's header, and its records as hexadecimal digits."""
    if raw is None:
        return None
    batches, position = [], 0
    while position + HEADER.size <= len(raw):
        fields = HEADER.unpack_from(raw, position)
        end = position + 12 + fields[1]
        checked = raw[position + CRC_FROM : end]
        batch = dict(
            zip(
                ("BaseOffset", "Length", "LeaderEpoch", "Magic", "Crc", "Attributes", "LastOffsetDelta")
                + ("BaseTimestamp", "MaxTimestamp", "ProducerId", "ProducerEpoch", "BaseSequence", "Count"),
                fields,
            )
        )
        is_whole = end <= len(raw)
        batch["Crc"] = "of a part" if not is_whole else "right" if crc32c(checked) == batch["Crc"] else "wrong"
        batch["Records"] = raw[position + HEADER.size : end].hex()
        batches.append(batch)
        position = end
    if position < len(raw):
        batches.append({"Rest": len(raw) - position})
    return batches
