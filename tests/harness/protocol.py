"""A raw Kafka connection and the few requests that the suites write by hand.

Only versions before the flexible encoding are used, so a message is the plain concatenation of its fields:
https://kafka.apache.org/protocol (request header v1, response header v0, record batch v2).
"""

import socket
import struct

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, ALTER_CLIENT_QUOTAS = 0, 1, 2, 3, 18, 19, 49
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36

CLIENT_ID = "logway-tests"


def parse_address(text: str) -> tuple[str, int]:
    """Splits `HOST:PORT`."""
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Connection:
    """One client connection that sends whatever it is told to, well formed or not."""

    def __init__(self, bootstrap: str, timeout_s: float = 10, client_id: str = CLIENT_ID):
        self._client_id = client_id
        self.socket = socket.create_connection(parse_address(bootstrap), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send_frame(self, payload: bytes):
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def read_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(length)

    def send(self, api_key: int, version: int, body: bytes):
        self._correlation_id += 1
        self.send_frame(request_header(api_key, version, self._correlation_id, self._client_id) + body)

    def request(self, api_key: int, version: int, body: bytes) -> bytes:
        """Sends a request, waits for its response and returns the response's body."""
        self.send(api_key, version, body)
        response = self.read_frame()
        (correlation_id,) = struct.unpack_from(">i", response)
        if correlation_id != self._correlation_id:
            raise ValueError(f"response {correlation_id} where {self._correlation_id} was due")
        return response[4:]

    def choose_mechanism(self, mechanism: str):
        """Says by what the client is going to say who it is."""
        self._expect_success(self.request(SASL_HANDSHAKE, 1, string(mechanism)), mechanism)

    def log_in(self, user: str, password: str):
        """Says who the client is, by PLAIN."""
        self.choose_mechanism("PLAIN")
        token = f"\0{user}\0{password}".encode()
        self._expect_success(self.request(SASL_AUTHENTICATE, 0, data(token)), user)

    @staticmethod
    def _expect_success(answer: bytes, what: str):
        (error,) = struct.unpack_from(">h", answer)
        if error != 0:
            raise AssertionError(f"{what}: error code {error}")

    def is_closed_by_peer(self, timeout_s: float = 10) -> bool:
        """Waits for the broker to close the connection; false when it stays open and silent."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def _read_exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                raise ConnectionError(f"closed by the broker after {len(parts)} of {count} bytes")
            parts += part
        return bytes(parts)


def request_header(api_key: int, version: int, correlation_id: int, client_id: str = CLIENT_ID) -> bytes:
    return struct.pack(">hhi", api_key, version, correlation_id) + string(client_id)


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def data(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def metadata_v1(topics: list[str]) -> bytes:
    return array([string(topic) for topic in topics])


def partitions_v1(response: bytes) -> dict[str, dict[int, tuple[int, list[int]]]]:
    """Leader (-1 for none) and replicas in sync of the partitions of each topic in a Metadata v1 response."""
    fields = Fields(response)
    for _ in range(fields.int32()):
        fields.int32()
        fields.string()
        fields.int32()
        fields.string()
    fields.int32()
    topics = {}
    for _ in range(fields.int32()):
        fields.position += 2
        topic = fields.string()
        fields.position += 1
        topics[topic] = {}
        for _ in range(fields.int32()):
            fields.position += 2
            partition, leader = fields.int32(), fields.int32()
            _, in_sync = ([fields.int32() for _ in range(fields.int32())] for _ in ("replicas", "in sync"))
            topics[topic][partition] = leader, in_sync
    return topics


def leaders_v1(response: bytes) -> dict[str, list[int]]:
    """The leaders of the partitions of each topic in a Metadata v1 response, -1 for none; in their order."""
    topics = partitions_v1(response)
    return {topic: [leader for _, (leader, _) in sorted(partitions.items())] for topic, partitions in topics.items()}


class Fields:
    """The fields of a response, one after the other."""

    def __init__(self, response: bytes):
        self._response = response
        self.position = 0

    def int32(self) -> int:
        self.position += 4
        return struct.unpack_from(">i", self._response, self.position - 4)[0]

    def string(self) -> str | None:
        (length,) = struct.unpack_from(">h", self._response, self.position)
        start = self.position + 2
        self.position = start + max(length, 0)
        return None if length < 0 else self._response[start : self.position].decode()


def create_topic_v2(
    topic: str, partitions: int, config: dict[str, str] | None = None, timeout_ms: int = 10_000
) -> bytes:
    settings = array([string(name) + string(value) for name, value in (config or {}).items()])
    one = string(topic) + struct.pack(">ih", partitions, 1) + array([]) + settings
    return array([one]) + struct.pack(">i?", timeout_ms, False)


def create_topics_v5(topics: list[str], validate_only: bool) -> bytes:
    """Topics of one partition. The answer has all their settings; the empty tagged fields of its header come first."""

    def compact(text: str) -> bytes:
        assert len(text) < 127
        return bytes([len(text) + 1]) + text.encode()

    no_tags, no_items = b"\0", b"\1"
    one = [compact(topic) + struct.pack(">ih", 1, 1) + no_items + no_items + no_tags for topic in topics]
    count = unsigned_varint(len(topics) + 1)
    return no_tags + count + b"".join(one) + struct.pack(">i?", 10_000, validate_only) + no_tags


def unsigned_varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + unsigned_varint(rest) if rest else bytes([low])


def produce_v3(topic: str, partition: int, batch: bytes, acks: int = -1, timeout_ms: int = 30_000) -> bytes:
    one_partition = struct.pack(">i", partition) + data(batch)
    one_topic = string(topic) + array([one_partition])
    return string(None) + struct.pack(">hi", acks, timeout_ms) + array([one_topic])


# A request of version 8 is one of version 3; its answer can say more.
produce_v8 = produce_v3


def produce_error_v3(response: bytes) -> int:
    """The error code of the only partition in a Produce v3 response."""
    return produced_v3(response)[0]


def produced_v3(response: bytes) -> tuple[int, int]:
    """The error code and the base offset of the only partition in a Produce v3 response."""
    (name_length,) = struct.unpack_from(">h", response, 4)
    return struct.unpack_from(">hq", response, 4 + 2 + name_length + 4 + 4)


def produce_outcome_v8(response: bytes) -> tuple[int, int, str]:
    """The error code, the time of the append (-1 but for LogAppendTime) and the error message of the only partition."""
    (name_length,) = struct.unpack_from(">h", response, 4)
    partition = 4 + 2 + name_length + 4 + 4
    error, _, log_append_time_ms, _, record_errors = struct.unpack_from(">hqqqi", response, partition)
    at = partition + struct.calcsize(">hqqqi")
    for _ in range(record_errors):
        # The record's number and what is wrong with it, which the message of the partition names, too.
        (length,) = struct.unpack_from(">h", response, at + 4)
        at += 4 + 2 + max(length, 0)
    (length,) = struct.unpack_from(">h", response, at)
    return error, log_append_time_ms, response[at + 2 : at + 2 + max(length, 0)].decode()


def client_quota_v0(client_id: str, quota: str, per_second: float) -> bytes:
    """An AlterClientQuotas request that sets one quota of one client id."""
    entity = array([string("client-id") + string(client_id)])
    return array([entity + array([string(quota) + struct.pack(">d?", per_second, False)])]) + b"\0"


def fetch_v4(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    one_partition = struct.pack(">iqi", partition, offset, max_bytes)
    one_topic = string(topic) + array([one_partition])
    return struct.pack(">iiiib", -1, 500, 1, max_bytes, 0) + array([one_topic])


def fetch_v11(topic: str, partition: int, offset: int, max_bytes: int, rack: str = "") -> bytes:
    """The first version that followers serve (KIP-392), without a session and without a wait."""
    one_partition = struct.pack(">iiqqi", partition, -1, offset, -1, max_bytes)
    one_topic = string(topic) + array([one_partition])
    head = struct.pack(">iiiibii", -1, 0, 1, max_bytes, 0, 0, -1)
    return head + array([one_topic]) + array([]) + string(rack)


def batch_v2(values: list[bytes], timestamp_ms: int) -> bytes:
    """An uncompressed record batch at base offset 0, without keys, headers or producer id."""
    records = b"".join(record(delta, value) for delta, value in enumerate(values))
    return batch_of(records, len(values), timestamp_ms=timestamp_ms)


def batch_of(records: bytes, count: int, attributes: int = 0, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    """A batch with a right CRC, whatever is in it."""
    header = struct.pack(">hiqqqhii", attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    checked = header + records
    tail = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(tail)) + tail


def record(delta: int, value: bytes) -> bytes:
    """A record without a key and headers, at the batch's timestamp."""
    body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Zigzag variable-length encoding, as in Protocol Buffers' sint64."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def crc32c(raw: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in raw:
        crc = CRC32C_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc32c_table() -> list[int]:
    table = []
    for entry in range(256):
        for _ in range(8):
            entry = (entry >> 1) ^ 0x82F63B78 if entry & 1 else entry >> 1
        table.append(entry)
    return table


CRC32C_TABLE = crc32c_table()
