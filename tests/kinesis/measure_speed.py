"""PutRecords and GetRecords beside kinesalite, kinesis-mock, and the same records through Kafka's protocol.

    PYTHONPATH=tests tests/.work/venv/bin/python tests/kinesis/measure_speed.py --rounds 3 --seconds 3 --connections 2 8

A request has 500 records of 1 KiB, for a stream of one shard. It is made once and sent again and again (`replay.py`), over some
connections at a time, each of which waits for its answer. All servers are up all the time, and have their turns one after the other.
Logway syncs before it answers; the emulators keep everything in memory. `the file alone` writes what a request carries into a file of
the same directory, and syncs it, by one program that does nothing else: it bounds those that wait for the disk, but for what one
sync does for several requests.

Prints the medians of requests a second, and of the milliseconds of processor time that the server and its clients took for one.

`signed` is a broker that checks signatures. All requests have one; that of a request that is sent again is good for five minutes.
`--doors NAME …` leaves the others out. `--other PROGRAM` is another build of Logway, whose doors have their turns beside those of this
one. Servers and clients are in a network of their own, which needs root.
"""

import argparse
import base64
import http.client
import json
import multiprocessing
import os
import re
import socket
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import cbor
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from emulators import Kinesalite, KinesisMock, need_emulators
from replay import ANSWER_S, Repeated, Replay, repeat

from harness.broker import Broker
from harness.logway import Logway
from harness.network import WITHOUT, in_own_network, is_own
from harness.protocol import (
    FETCH,
    PRODUCE,
    batch_v2,
    data,
    fetch_v4,
    parse_address,
    produce_error_v3,
    produce_v3,
    request_header,
)
from harness.secured import SecuredLogway

RECORDS = 500
RECORD_BYTES = 1024
SHARD = "shardId-000000000000"
# Enough for GetRecords to have a whole request's records.
PUTS_BEFORE = 4
STREAM_S = 30
JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"
ANY_KEY = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
FILE = "the file alone"
# In JSON and in CBOR.
NONE_FAILED = re.compile(rb'FailedRecordCount(?:": *0[,}]|\x00)')
VALUES = [number.to_bytes(4, "big") * (RECORD_BYTES // 4) for number in range(RECORDS)]


@dataclass
class Door:
    """A way to put and get records: a server, the address, and how what is said there is encoded."""

    way: str
    server: Broker
    content_type: str | None = JSON
    key: dict[str, str] | None = None
    # Which one of Logway, if there are two.
    build: str = ""

    @property
    def name(self) -> str:
        return f"{self.way}{self.build}"

    @property
    def address(self) -> str:
        return self.server.kinesis if self.content_type else self.server.bootstrap

    def request(self, operation: str, content_type: str, document: dict) -> bytes:
        """A whole request of HTTP/1.1, signed."""
        body = json.dumps(document, default=in_base64).encode() if content_type == JSON else cbor.encode(document)
        headers = {"Content-Type": content_type, "X-Amz-Target": f"Kinesis_20131202.{operation}", "Host": self.address}
        asked = AWSRequest("POST", f"http://{self.address}/", headers=headers, data=body)
        key = self.key or ANY_KEY
        credentials = Credentials(key["AWS_ACCESS_KEY_ID"], key["AWS_SECRET_ACCESS_KEY"], key.get("AWS_SESSION_TOKEN"))
        SigV4Auth(credentials, "kinesis", "us-east-1").add_auth(asked)
        asked.headers["Content-Length"] = str(len(body))
        lines = [f"{name}: {value}\r\n" for name, value in asked.headers.items()]
        return "".join(["POST / HTTP/1.1\r\n", *lines, "\r\n"]).encode() + body

    def ask(self, operation: str, document: dict) -> dict:
        with socket.create_connection(parse_address(self.address), ANSWER_S) as connection:
            status, body = exchange(connection, self.request(operation, JSON, document))
        if status != 200:
            raise AssertionError(f"{self.name}: {operation}: {status} {body[:500]!r}")
        return json.loads(body) if body else {}

    def make_stream(self, stream: str):
        self.ask("CreateStream", {"StreamName": stream, "ShardCount": 1})
        deadline = time.monotonic() + STREAM_S
        summary = {}
        while summary.get("StreamStatus") != "ACTIVE":
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: {stream} is {summary.get('StreamStatus')} after {STREAM_S} s")
            summary = self.ask("DescribeStreamSummary", {"StreamName": stream})["StreamDescriptionSummary"]

    def put(self, stream: str) -> bytes:
        entries = [{"Data": value, "PartitionKey": str(number)} for number, value in enumerate(VALUES)]
        return self.request("PutRecords", self.content_type, {"StreamName": stream, "Records": entries})

    def get(self, stream: str) -> bytes:
        start = {"StreamName": stream, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = self.ask("GetShardIterator", start)["ShardIterator"]
        return self.request("GetRecords", self.content_type, {"ShardIterator": iterator, "Limit": RECORDS})


def in_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def exchange(connection: socket.socket, request: bytes) -> tuple[int, bytes]:
    connection.sendall(request)
    answer = http.client.HTTPResponse(connection, method="POST")
    answer.begin()
    return answer.status, answer.read()


def repeat_http(address: str, request: bytes, is_put: bool, ends: float) -> Repeated:
    """Sends a request until the time is over. Each answer has to have all that was asked for."""

    def once():
        status, room, start, end = replay.http(request)
        is_whole = NONE_FAILED.search(room, start, end) if is_put else end - start > RECORDS * RECORD_BYTES
        if status != 200 or not is_whole:
            raise AssertionError(f"{address}: {status} {bytes(room[start : min(end, start + 500)])!r}")

    with Replay(address) as replay:
        return repeat(once, ends)


def repeat_kafka(address: str, request: bytes, is_put: bool, ends: float) -> Repeated:
    """The same by Kafka's protocol."""

    def once():
        with replay.kafka(request) as answer:
            error = produce_error_v3(answer) if is_put else int(len(answer) < RECORDS * RECORD_BYTES)
            if error:
                raise AssertionError(f"{address}: error {error}, {len(answer)} bytes")

    with Replay(address) as replay:
        return repeat(once, ends)


def repeat_file(path: str, ends: float) -> Repeated:
    """Writes and syncs what a request carries."""
    records = b"".join(VALUES)
    with open(path, "wb", buffering=0) as file:

        def once():
            file.write(records)
            os.fdatasync(file.fileno())

        return repeat(once, ends)


@dataclass
class Figure:
    """Requests a second, and the milliseconds of processor time for one."""

    rate: float
    server_ms: float
    client_ms: float


def turn(server, work, arguments: tuple, connections: int, seconds: float) -> Figure:
    with multiprocessing.Pool(connections) as pool:
        pool.map(abs, range(connections))
        began, before_s = time.monotonic(), server.cpu_s() if server else 0.0
        done = pool.starmap(work, [(*arguments, began + seconds)] * connections)
        took_s, server_s = time.monotonic() - began, server.cpu_s() - before_s if server else 0.0
    count = sum(part.count for part in done)
    client_s = sum(part.cpu_s for part in done)
    return Figure(count / took_s, server_s * 1_000 / count, client_s * 1_000 / count)


class Measurement:
    """Turns of all doors, at a number of connections."""

    def __init__(self, doors: list[Door], file: Path):
        self.doors, self.file = doors, file
        self.figures: dict[tuple[str, int, str], list[Figure]] = {}
        self.streams = 0

    def note(self, name: str, connections: int, work: str, figure: Figure):
        self.figures.setdefault((name, connections, work), []).append(figure)

    def round(self, connections: int, seconds: float):
        batch = batch_v2(VALUES, 1_700_000_000_000)
        for door in self.doors:
            stream, self.streams = f"speed-{self.streams}", self.streams + 1
            # Of a door that makes no streams, another one of the same server does.
            maker = door if door.content_type else Door(door.way, door.server)
            maker.make_stream(stream)
            if door.content_type:
                work, put = repeat_http, door.put(stream)
            else:
                work, put = repeat_kafka, frame(PRODUCE, 3, produce_v3(stream, 0, batch))
            for _ in range(PUTS_BEFORE):
                work(door.address, put, True, time.monotonic() + 0.001)
            get = door.get(stream) if door.content_type else frame(FETCH, 4, fetch_v4(stream, 0, 0, RECORDS * (RECORD_BYTES + 30)))
            for name, request, is_put in (("put", put, True), ("get", get, False)):
                figure = turn(door.server, work, (door.address, request, is_put), connections, seconds)
                self.note(door.name, connections, name, figure)
            maker.ask("DeleteStream", {"StreamName": stream})
        self.note(FILE, connections, "put", turn(None, repeat_file, (str(self.file),), 1, seconds))
        self.file.unlink()

    def show(self, connections: int):
        print(f"\n{connections} connections\n")
        print("| | PutRecords, /s | MB/s | CPU, ms | client's | GetRecords, /s | MB/s | CPU, ms | client's |")
        print("|---|---|---|---|---|---|---|---|---|")
        for name in [*(door.name for door in self.doors), FILE]:
            cells = [self.cells(name, connections, work) for work in ("put", "get")]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)

    def cells(self, name: str, connections: int, work: str) -> str:
        figures = self.figures.get((name, connections, work))
        if not figures:
            return " | | |"
        rates = [figure.rate for figure in figures]
        rate = statistics.median(rates)
        server_ms, client_ms = (statistics.median(ms) for ms in zip(*((it.server_ms, it.client_ms) for it in figures)))
        megabytes = rate * RECORDS * RECORD_BYTES / 1e6
        return f"{rate:.0f} ({min(rates):.0f}-{max(rates):.0f}) | {megabytes:.1f} | {server_ms:.2f} | {client_ms:.2f}"


def frame(api_key: int, version: int, body: bytes) -> bytes:
    return data(request_header(api_key, version, 0) + body)


def doors_of(program: str | None, servers: ExitStack) -> list[Door]:
    """Those of a build of Logway, which is named if it is not the usual one."""
    build = f" ({Path(program).name})" if program else ""
    name, listen = "kinesis-speed-other" if program else "kinesis-speed", {"kinesis.listen": "127.0.0.1:0"}
    plain, signed = Logway(name, listen), SecuredLogway(f"{name}-signed", listen | {"kinesis.tls": "false"})
    for server in (plain, signed):
        server.binary = program or server.binary
        servers.enter_context(server)
    key = signed.access_key()
    return [
        Door("JSON", plain, build=build),
        Door("JSON, signed", signed, key=key, build=build),
        Door("CBOR", plain, CBOR, build=build),
        Door("CBOR, signed", signed, CBOR, key, build=build),
        Door("Kafka's protocol", plain, None, build=build),
    ]


def emulator_doors(servers: ExitStack) -> list[Door]:
    return [Door(kind.kind, servers.enter_context(kind("kinesis-speed"))) for kind in (Kinesalite, KinesisMock)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[2])
    parser.add_argument("--doors", nargs="+", metavar="NAME")
    parser.add_argument("--other", metavar="PROGRAM")
    options = parser.parse_args()
    need_emulators()
    in_own_network()
    if not is_own():
        raise SystemExit(WITHOUT)
    with ExitStack() as servers:
        doors = doors_of(None, servers)
        file = doors[0].server.directory / "alone"
        if options.other:
            others = doors_of(options.other, servers)
            doors = [door for pair in zip(doors, others) for door in pair]
        emulators = {Kinesalite.kind, KinesisMock.kind}
        if not options.doors or emulators.intersection(options.doors):
            doors += emulator_doors(servers)
        wanted = [door for door in doors if not options.doors or door.way in options.doors]
        measurement = Measurement(wanted, file)
        for connections in options.connections:
            for _ in range(options.rounds):
                measurement.round(connections, options.seconds)
            measurement.show(connections)


if __name__ == "__main__":
    main()
