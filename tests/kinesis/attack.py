"""Sends a Kinesis front door mutated requests, on several connections at a time, and judges each response.

    attack.py ADDRESS CORPUS SEED FIRST SESSIONS LANES open|guarded

CORPUS is a file that `corpus.recorded` was pickled to, with the access key. Prints what was answered as JSON, and ends with 1 if a
response was none, or let in who has a wrong signature. A session is given by the seed and its number.
"""

import collections
import json
import multiprocessing
import pickle
import socket
import struct
import sys
import threading
import traceback
import zlib
from pathlib import Path

import cbor
import http2
from mutate import Mutator, Sent

from harness.protocol import parse_address

# How long a response to a whole request may take. The machine may be busy.
PATIENCE_S = 30
# How long more is waited for where nobody knows whether a response is due.
SHORT_PATIENCE_S = 0.05
EVENT_STREAM = "application/vnd.amazon.eventstream"
STATUSES = {200, 400, 403, 404, 405, 408, 413, 414, 431, 500, 503}


class Wrong(Exception):
    """A response that is none."""


class Gone(Exception):
    """The connection was ended, or nothing more came."""


class Lane:
    """One connection after the other."""

    def __init__(self, address: str, mutator: Mutator, is_open: bool):
        self.address, self.mutator, self.is_open = parse_address(address), mutator, is_open
        self.tally = collections.Counter()
        self.wrong: list[str] = []

    def session(self, number: int):
        """Most sessions are of HTTP/1.1."""
        if self.mutator.chance.random() < 0.2:
            self.http2_session(number)
            return
        with self.connect() as connection, connection.makefile("rb") as answers:
            for place, sent in enumerate(self.mutator.session()):
                self.tally["HTTP/1.1 requests"] += 1
                connection.settimeout(PATIENCE_S)
                try:
                    connection.sendall(sent.raw)
                    if not sent.is_framed:
                        connection.shutdown(socket.SHUT_WR)
                        connection.settimeout(SHORT_PATIENCE_S)
                    if not self.take_answer(connection, answers, sent):
                        return
                except Gone:
                    self.tally["without an answer"] += 1
                    # Behind a response that came before its request was read, a server may end the connection.
                    if sent.is_framed and place == 0:
                        self.wrong.append(f"session {number}: no answer to {sent.raw[:2_000]!r}")
                    return
                except OSError:
                    self.tally["ended"] += 1
                    return
                except Wrong as wrong:
                    self.wrong.append(f"session {number}: {wrong} to {sent.raw[:2_000]!r}")
                    return

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, PATIENCE_S)
        # Closed with a reset: a million connections in TIME_WAIT would use all ports up.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.tally["connections"] += 1
        return connection

    def http2_session(self, number: int):
        """Sends a session, and reads frames until nothing comes for a while."""
        raw = self.mutator.http2_session()
        received, is_first = b"", True
        with self.connect() as connection:
            try:
                connection.sendall(raw)
                connection.settimeout(SHORT_PATIENCE_S)
                while part := connection.recv(1 << 16):
                    frames, received = http2.take_frames(received + part)
                    if is_first and frames and frames[0].kind != http2.SETTINGS:
                        raise ValueError(f"the first frame is of kind {frames[0].kind}")
                    is_first = is_first and not frames
                    self.tally["HTTP/2 answers"] += sum(frame.kind == http2.HEADERS for frame in frames)
            except OSError:
                self.tally["HTTP/2 connections that ended"] += 1
            except ValueError as wrong:
                self.wrong.append(f"session {number}: {wrong} to {raw[:2_000]!r}")
        self.tally["HTTP/2 requests"] += raw.count(b":authority")

    def take_answer(self, connection: socket.socket, answers, sent: Sent) -> bool:
        """Reads and judges one response; whether the connection can go on."""
        try:
            status, headers = read_head(answers)
            if headers.get("content-type") == EVENT_STREAM:
                self.tally["subscriptions"] += 1
                self.judge(status, headers, None, sent)
                if headers.get("transfer-encoding") != "chunked":
                    # Before HTTP/1.1 there are no chunks.
                    return False
                self.tally["events"] += check_events(answers, connection)
                return False
            body = b"" if sent.method == "HEAD" else read_body(answers, headers)
        except TimeoutError as late:
            raise Gone from late
        self.judge(status, headers, body, sent)
        return sent.is_framed and headers.get("connection") != "close"

    def judge(self, status: int, headers: dict[str, str], body: bytes | None, sent: Sent):
        error = headers.get("x-amzn-errortype", "")
        self.tally[f"{status} {error}".strip()] += 1
        if status not in STATUSES:
            raise Wrong(f"status {status}")
        if status == 200 and sent.is_forged and not self.is_open:
            raise Wrong("a forged request was let in")
        if body:
            try:
                document = parsed(headers.get("content-type", ""), body)
            except (ValueError, IndexError, KeyError) as fault:
                raise Wrong(f"{fault}: {headers} {body[:500]!r}") from fault
            if status >= 500:
                raise Wrong(f"status {status}: {document}")


def read_head(answers) -> tuple[int, dict[str, str]]:
    first = answers.readline(1_000)
    if not first:
        raise Gone
    version, _, rest = first.decode("latin-1").partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
        raise Wrong(f"{first!r}")
    headers = {}
    while (line := answers.readline(16_384)) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if rest.startswith("100"):
        return read_head(answers)
    return int(rest[:3]), headers


def read_body(answers, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        return b"".join(iter(lambda: read_chunk(answers), b""))
    length = int(headers.get("content-length", 0))
    body = answers.read(length)
    if len(body) != length:
        raise Wrong(f"{len(body)} of {length} bytes")
    return body


def read_chunk(answers) -> bytes:
    line = answers.readline(100)
    if not line:
        raise Gone
    size = int(line, 16)
    part = answers.read(size + 2)
    if len(part) != size + 2 or part[size:] != b"\r\n":
        raise Wrong(f"a chunk of {size} bytes is {part[:100]!r}")
    return part[:size]


def check_events(answers, connection: socket.socket) -> int:
    """Reads what a subscription has at once, and goes away; how many events there were."""
    received, count = b"", 0
    while count < 10:
        try:
            received += read_chunk(answers)
        except TimeoutError:
            return count
        # The first one comes at once; another one may be seconds away.
        connection.settimeout(SHORT_PATIENCE_S)
        while len(received) >= 12 and len(received) >= (total := struct.unpack_from(">I", received)[0]):
            head_crc, whole_crc = struct.unpack_from(">I", received, 8)[0], struct.unpack_from(">I", received, total - 4)[0]
            if zlib.crc32(received[:8]) != head_crc or zlib.crc32(received[: total - 4]) != whole_crc:
                raise Wrong(f"a frame of the event stream: {received[:200]!r}")
            received = received[total:]
            count += 1
    return count


def parsed(content_type: str, body: bytes):
    match content_type:
        case "application/x-amz-json-1.1" | "application/x-amz-json-1.0" | "application/json":
            return json.loads(body)
        case "application/x-amz-cbor-1.1" | "application/cbor":
            return cbor.decode(body)
        case "text/xml" | "":
            if not body.startswith(b"<"):
                raise ValueError("is no XML")
            return body.decode()
    raise ValueError("unknown type")


def run_lanes(address: str, corpus: Path, seed: int, numbers: range, lanes: int, is_open: bool):
    requests, key = pickle.loads(corpus.read_bytes())
    total, wrong = collections.Counter(), []
    waiting, lock = iter(numbers), threading.Lock()

    def run():
        # Each session has its own chance, so that one of them can be repeated.
        while True:
            with lock:
                number = next(waiting, None)
            if number is None or len(wrong) > 20:
                return
            lane = Lane(address, Mutator(requests, key, address, seed << 32 | number), is_open)
            try:
                lane.session(number)
            except Exception:
                lane.wrong.append(f"session {number}: {traceback.format_exc()}")
            with lock:
                total.update(lane.tally)
                wrong.extend(lane.wrong)

    threads = [threading.Thread(target=run) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total, wrong


def main(address: str, corpus: str, seed: str, first: str, sessions: str, lanes: str, is_open: str) -> int:
    processes = 2
    ranges = [range(int(first) + part, int(first) + int(sessions), processes) for part in range(processes)]
    arguments = [(address, Path(corpus), int(seed), numbers, int(lanes), is_open == "open") for numbers in ranges]
    with multiprocessing.Pool(processes) as pool:
        results = pool.starmap(run_lanes, arguments)
    wrong = [it for _, found in results for it in found]
    print(json.dumps(sum((total for total, _ in results), collections.Counter()).most_common()), flush=True)
    print("".join(f"wrong: {it}\n" for it in wrong[:20]), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
