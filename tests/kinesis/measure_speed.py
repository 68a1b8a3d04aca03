"""PutRecords and GetRecords beside kinesalite, kinesis-mock, and the same records through Kafka's protocol.

    PYTHONPATH=tests tests/.work/venv/bin/python tests/kinesis/measure_speed.py --rounds 3 --seconds 3

A request has 500 records of 1 KiB, for a stream of one shard. It is made once and sent again and again, over some connections at a
time, each of which waits for its answer. So clients cost next to nothing. All servers are up all the time, and have their turns one
after the other. Logway syncs before it answers; the emulators keep everything in memory. Prints the medians of requests a second
and of the milliseconds of processor time that the server took for one.

`signed` is a broker that checks signatures. All requests have one; that of a request that is sent again is good for five minutes.
Servers and clients are in a network of their own, which needs root.
"""

import argparse
import base64
import http.client
import json
import multiprocessing
import socket
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass

import cbor
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from emulators import Kinesalite, KinesisMock, need_emulators

from harness.logway import Logway
from harness.network import WITHOUT, in_own_network, is_own
from harness.protocol import FETCH, PRODUCE, Connection, batch_v2, fetch_v4, parse_address, produce_error_v3, produce_v3
from harness.secured import SecuredLogway

RECORDS = 500
RECORD_BYTES = 1024
SHARD = "shardId-000000000000"
# Enough for GetRecords to have a whole request's records.
PUTS_BEFORE = 4
ANSWER_S = 60
STREAM_S = 30
JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"
ANY_KEY = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
VALUES = [number.to_bytes(4, "big") * (RECORD_BYTES // 4) for number in range(RECORDS)]


@dataclass
class Door:
    """A way to put and get records: a server, the address, and how what is said there is encoded."""

    name: str
    server: object
    content_type: str | None = JSON
    key: dict[str, str] | None = None

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


def repeat_http(address: str, request: bytes, content_type: str, ends: float) -> int:
    """Sends a request until the time is over; how often it was answered, with all that it asked for."""
    count, put_all = 0, b'"FailedRecordCount":0'
    with socket.create_connection(parse_address(address), ANSWER_S) as connection:
        while time.monotonic() < ends:
            status, body = exchange(connection, request)
            is_whole = len(body) > RECORDS * RECORD_BYTES or content_type == CBOR or put_all in body
            if status != 200 or not is_whole:
                raise AssertionError(f"{address}: {status} {body[:500]!r}")
            count += 1
    return count


def repeat_kafka(address: str, stream: str, batch: bytes | None, ends: float) -> int:
    """The same by Kafka's protocol; without a batch, it is read."""
    count = 0
    with Connection(address, ANSWER_S) as connection:
        request = produce_v3(stream, 0, batch) if batch else fetch_v4(stream, 0, 0, RECORDS * (RECORD_BYTES + 30))
        while time.monotonic() < ends:
            answer = connection.request(PRODUCE if batch else FETCH, 3 if batch else 4, request)
            error = produce_error_v3(answer) if batch else int(len(answer) < RECORDS * RECORD_BYTES)
            if error:
                raise AssertionError(f"{address}: error {error}, {len(answer)} bytes")
            count += 1
    return count


def turn(door: Door, repeat, arguments: tuple, connections: int, seconds: float) -> tuple[float, float]:
    """Requests a second, and milliseconds of the server's processor time for one."""
    with multiprocessing.Pool(connections) as pool:
        pool.map(abs, range(connections))
        began, before_s = time.monotonic(), door.server.cpu_s()
        counts = pool.starmap(repeat, [(*arguments, began + seconds)] * connections)
        count = sum(counts)
        return count / (time.monotonic() - began), (door.server.cpu_s() - before_s) * 1_000 / count


def measure(doors: list[Door], rounds: int, connections: int, seconds: float) -> dict[tuple[str, str], list[tuple[float, float]]]:
    figures = {}
    batch = batch_v2(VALUES, 1_700_000_000_000)
    for number in range(rounds):
        for place, door in enumerate(doors):
            stream = f"speed-{place}-{number}"
            maker = door if door.content_type else doors[0]
            maker.make_stream(stream)
            if door.content_type:
                put = (repeat_http, (door.address, door.put(stream), door.content_type))
            else:
                put = (repeat_kafka, (door.address, stream, batch))
            repeat, arguments = put
            for _ in range(PUTS_BEFORE):
                repeat(*arguments, time.monotonic() + 0.001)
            works = {"put": put}
            if door.content_type:
                works["get"] = (repeat_http, (door.address, door.get(stream), door.content_type))
            else:
                works["get"] = (repeat_kafka, (door.address, stream, None))
            for work, (repeat, arguments) in works.items():
                figures.setdefault((door.name, work), []).append(turn(door, repeat, arguments, connections, seconds))
            maker.ask("DeleteStream", {"StreamName": stream})
    return figures


def show(doors: list[Door], figures: dict):
    print("| | PutRecords, /s | MB/s | CPU, ms | GetRecords, /s | MB/s | CPU, ms |")
    print("|---|---|---|---|---|---|---|")
    for door in doors:
        cells = []
        for work in ("put", "get"):
            rates, costs = zip(*figures[door.name, work])
            rate = statistics.median(rates)
            cells += [f"{rate:.0f} ({min(rates):.0f}-{max(rates):.0f})", f"{rate * RECORDS * RECORD_BYTES / 1e6:.1f}"]
            cells.append(f"{statistics.median(costs):.2f}")
        print(f"| {door.name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--without-emulators", action="store_true")
    options = parser.parse_args()
    need_emulators()
    in_own_network()
    if not is_own():
        raise SystemExit(WITHOUT)
    listen = {"kinesis.listen": "127.0.0.1:0"}
    with ExitStack() as servers:
        plain = servers.enter_context(Logway("kinesis-speed", listen))
        signed = servers.enter_context(SecuredLogway("kinesis-speed-signed", listen | {"kinesis.tls": "false"}))
        key = signed.access_key()
        doors = [
            Door("JSON", plain),
            Door("JSON, signed", signed, key=key),
            Door("CBOR", plain, CBOR),
            Door("CBOR, signed", signed, CBOR, key),
            Door("Kafka's protocol", plain, None),
        ]
        if not options.without_emulators:
            started = [servers.enter_context(emulator("kinesis-speed")) for emulator in (Kinesalite, KinesisMock)]
            doors += [Door(server.kind, server) for server in started]
        show(doors, measure(doors, options.rounds, options.connections, options.seconds))


if __name__ == "__main__":
    main()
