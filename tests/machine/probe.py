"""A producer that sees each error, which client libraries hide behind their retries."""

import time

from harness.protocol import PRODUCE, Connection, batch_v2, produce_outcome_v8, produce_v8

KAFKA_STORAGE_ERROR = 56
DEADLINE_S = 30
INTERVAL_S = 0.01
# More than what may be left in the last block of a file.
VALUE_BYTES = 16 << 10
PIECE_BYTES = 500_000


class Probe:
    """Sends one record after the other to a partition, over one connection."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0):
        self._connection = Connection(bootstrap, DEADLINE_S)
        self._topic, self._partition = topic, partition

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.close()

    def send(self, timestamp_ms: int | None = None) -> tuple[int, int, str]:
        """The error code, the time that the broker gave the record, and its message."""
        return self._produce(self._request(VALUE_BYTES, timestamp_ms))

    def fill(self, size_bytes: int, timestamp_ms: int | None = None):
        """Appends so many bytes, in large pieces."""
        request = self._request(PIECE_BYTES, timestamp_ms)
        for _ in range(size_bytes // PIECE_BYTES + 1):
            error, _, message = self._produce(request)
            if error != 0:
                raise AssertionError(f"error {error}: {message}")

    def until_refused(self) -> str:
        """Goes on until the storage refuses a record; what it says."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            error, _, message = self.send()
            if error == KAFKA_STORAGE_ERROR:
                return message
            if error != 0:
                raise AssertionError(f"error {error}: {message}")
        raise AssertionError(f"{self._topic} still takes records after {DEADLINE_S} s")

    def until_taken(self) -> float:
        """Goes on until a record is taken again; how long that took, in seconds."""
        began = time.monotonic()
        while True:
            error, _, message = self.send()
            elapsed_s = time.monotonic() - began
            if error == 0:
                return elapsed_s
            if error != KAFKA_STORAGE_ERROR or elapsed_s > DEADLINE_S:
                raise AssertionError(f"after {elapsed_s:.1f} s error {error}: {message}")
            time.sleep(INTERVAL_S)

    def _request(self, value_bytes: int, timestamp_ms: int | None) -> bytes:
        now_ms = int(time.time() * 1_000)
        batch = batch_v2([b"x" * value_bytes], now_ms if timestamp_ms is None else timestamp_ms)
        return produce_v8(self._topic, self._partition, batch)

    def _produce(self, request: bytes) -> tuple[int, int, str]:
        return produce_outcome_v8(self._connection.request(PRODUCE, 8, request))
