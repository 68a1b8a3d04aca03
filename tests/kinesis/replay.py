"""Sends one request again and again, and takes next to nothing for that: the processors are the server's.

A response is read into memory that is there already, by few calls of the system, and looked at where it matters.
"""

import re
import socket
import struct
import time
from dataclasses import dataclass

from harness.protocol import parse_address

ANSWER_S = 60
# A response is not larger.
ROOM_BYTES = 4 << 20

HEAD_END = b"\r\n\r\n"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
CHUNKS_END = b"\r\n0\r\n\r\n"


class Replay:
    """A connection, each of whose requests waits for the response to the one before."""

    def __init__(self, address: str):
        self._socket = socket.create_connection(parse_address(address), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # With a timeout of Python's own a socket does not wait for all that is asked for.
        self._socket.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", ANSWER_S, 0))
        self._room = bytearray(ROOM_BYTES)
        self._view = memoryview(self._room)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._view.release()
        self._socket.close()

    def http(self, request: bytes) -> tuple[int, bytearray, int, int]:
        """The status, and where the body is: from here to there in what is given."""
        self._socket.sendall(request)
        there = start = 0
        while start < len(HEAD_END):
            there += self._some(there)
            start = self._room.find(HEAD_END, 0, there) + len(HEAD_END)
        status, length = STATUS.match(self._room), CONTENT_LENGTH.search(self._room, 0, start)
        if length:
            end = start + int(length[1])
            self._fill(there, end)
            return int(status[1]), self._room, start, end
        while self._room[there - len(CHUNKS_END) : there] != CHUNKS_END:
            there += self._some(there)
        return int(status[1]), self._room, start, there

    def kafka(self, frame: bytes) -> memoryview:
        """What follows the length and the correlation id."""
        self._socket.sendall(frame)
        self._fill(0, 8)
        (length,) = struct.unpack_from(">i", self._room)
        self._fill(8, 4 + length)
        return self._view[8 : 4 + length]

    def _some(self, there: int) -> int:
        count = self._socket.recv_into(self._view[there:])
        if count == 0:
            raise ConnectionError(f"closed by the server after {there} bytes of a response")
        return count

    def _fill(self, there: int, end: int):
        while there < end:
            count = self._socket.recv_into(self._view[there:end], 0, socket.MSG_WAITALL)
            if count == 0:
                raise ConnectionError(f"closed by the server after {there} of {end} bytes")
            there += count


@dataclass
class Repeated:
    """How often something was done, and the processor time of its client."""

    count: int
    cpu_s: float


def repeat(once, ends: float) -> Repeated:
    """Does something until the time is over."""
    count, before_s = 0, time.process_time()
    while time.monotonic() < ends:
        once()
        count += 1
    return Repeated(count, time.process_time() - before_s)
