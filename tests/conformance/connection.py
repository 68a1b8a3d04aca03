"""A connection that asks by Kafka's definitions, and says what came of it: an answer, silence, or its end."""

import socket
import struct
import time
from dataclasses import dataclass

from conformance.definitions import Protocol, unsigned_varint
from harness.protocol import parse_address

CLIENT_ID = "conformance"
# Longer than any wait that a request of the suite names.
PATIENCE_S = 15


@dataclass(frozen=True)
class User:
    """Who logs in by PLAIN before it asks."""

    name: str
    password: str


@dataclass
class Answer:
    """`outcome` is "answered", "closed", "no answer" or "unreadable"; only an answer has a body."""

    outcome: str
    body: dict
    took_ms: float

    def __getitem__(self, name: str):
        return self.body[name]


class Connection:
    """One connection to a broker; it is opened anew when the broker has closed it."""

    def __init__(
        self,
        bootstrap: str,
        protocol: Protocol,
        client_id: str | None = CLIENT_ID,
        patience_s: float = PATIENCE_S,
        user: User | None = None,
    ):
        self._bootstrap, self._protocol, self._client_id, self._user = bootstrap, protocol, client_id, user
        self._patience_s = patience_s
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def close(self):
        if self._socket:
            self._socket.close()
        self._socket = None

    def ask(self, api: str, version: int, values: dict, is_answered: bool = True) -> Answer:
        """Sends a request. Where no answer is due, the answer to a next request shows that there was none."""
        body = self._protocol.requests[api].encode(values, version)
        return self.ask_raw(api, version, body, is_answered)

    def ask_raw(self, api: str, version: int, body: bytes, is_answered: bool = True) -> Answer:
        """Sends a request whose body may be anything; a version that no definition has is not read."""
        request = self._protocol.requests[api]
        began = time.monotonic()
        try:
            self._send(request.api_key, version, version in request.flexible, body)
            sent = self._correlation_id
            if not is_answered:
                self._send(self._protocol.requests["ApiVersions"].api_key, 0, False, b"")
            frame = self._read_frame()
        except TimeoutError:
            self.close()
            return Answer("no answer", {}, elapsed_ms(began))
        except OSError:
            self.close()
            return Answer("closed", {}, elapsed_ms(began))
        took_ms = elapsed_ms(began)
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != sent:
            return Answer("no answer", {}, took_ms)
        if not is_answered:
            self._read_frame()
        return self._read(api, version, frame, took_ms)

    def _read(self, api: str, version: int, frame: bytes, took_ms: float) -> Answer:
        response = self._protocol.responses[api]
        # The answer to ApiVersions has an old header, so that whoever asks can read it (KIP-511).
        header = 5 if version in response.flexible and api != "ApiVersions" else 4
        # And one to a version that the broker does not have is of version 0.
        readable = version if version in response.versions or api != "ApiVersions" else 0
        try:
            return Answer("answered", response.decode(frame[header:], readable), took_ms)
        except (ValueError, UnicodeDecodeError) as failure:
            if api == "ApiVersions" and readable:
                return Answer("answered", response.decode(frame[4:], 0), took_ms)
            return Answer("unreadable", {"Reason": str(failure)}, took_ms)

    def _log_in(self, user: User):
        for api, version, values in (
            ("SaslHandshake", 1, {"Mechanism": "PLAIN"}),
            ("SaslAuthenticate", 0, {"AuthBytes": f"\0{user.name}\0{user.password}".encode()}),
        ):
            answer = self.ask(api, version, values)
            if answer.outcome != "answered" or answer["ErrorCode"]:
                raise ConnectionError(f"{user.name} cannot log in: {api}: {answer}")

    def _send(self, api_key: int, version: int, is_flexible: bool, body: bytes):
        if self._socket is None:
            self._socket = socket.create_connection(parse_address(self._bootstrap), self._patience_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._user:
                self._log_in(self._user)
        self._correlation_id += 1
        raw_id = None if self._client_id is None else self._client_id.encode()
        header = struct.pack(">hhih", api_key, version, self._correlation_id, -1 if raw_id is None else len(raw_id))
        header += raw_id or b""
        if is_flexible:
            header += unsigned_varint(0)
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def _read_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(length)

    def _read_exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionError("closed by the broker")
            parts += part
        return bytes(parts)


def elapsed_ms(began: float) -> float:
    return (time.monotonic() - began) * 1000
