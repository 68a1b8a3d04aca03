"""Loads under which what the broker does for a request is counted."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

from harness.logway import BENCH, Logway
from harness.protocol import (
    CREATE_TOPICS,
    FETCH,
    PRODUCE,
    Connection,
    batch_v2,
    create_topic_v2,
    fetch_v4,
    produce_error_v3,
    produce_v3,
)
from harness.waiting import wait_until

Calls = TypeVar("Calls")

TOPIC = "loads"
FETCHED_BYTES = 1 << 20
BATCHES = 64
DEADLINE_S = 30


@dataclass
class Load:
    name: str
    # The requests that are counted.
    api: str
    # Asks a broker for so many seconds; it has what `fill` leaves.
    run: Callable[[Logway, float], None]


@dataclass
class BenchLoad:
    """One work of `logway-bench`, with no warm-up."""

    name: str
    api: str
    arguments: list[str]

    def command(self, broker: Logway, seconds: float, output: str) -> list[str]:
        lengths = ["--rounds", "1", "--seconds", str(seconds)]
        no_warm_up = ["--warm-up-seconds", "0", "--warm-broker-seconds", "0"]
        to = ["--brokers", broker.bootstrap, "--yes", "--run-megabytes", "1000000", "--output", output]
        return [BENCH, *self.arguments, *lengths, *no_warm_up, *to]

    def run(self, broker: Logway, seconds: float):
        with tempfile.TemporaryDirectory() as output:
            ran = subprocess.run(self.command(broker, seconds, output), capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{self.name}: {ran.stderr}")


def fill(broker: Logway):
    """Makes the topic, with what is to be fetched."""
    with Connection(broker.bootstrap) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, 1))
        batch = batch_v2([bytes(1000) for _ in range(900)], timestamp_ms=1_700_000_000_000)
        append = produce_v3(TOPIC, 0, batch)
        for _ in range(BATCHES):
            wait_until(lambda: is_stored(connection, append), "a batch to be stored", DEADLINE_S)


def requests(metrics: str, api: str) -> int:
    """How many requests of an API a broker with these metrics has answered."""
    found = re.search(rf'^logway_request_seconds_count{{api="{api}"}} (\d+)', metrics, re.MULTILINE)
    return int(found[1]) if found else 0


def is_stored(connection: Connection, append: bytes) -> bool:
    return produce_error_v3(connection.request(PRODUCE, 3, append)) == 0


def produce_alone(broker: Logway, seconds: float):
    append = produce_v3(TOPIC, 0, batch_v2([bytes(2048)], timestamp_ms=1_700_000_000_000))
    with Connection(broker.bootstrap) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not is_stored(connection, append):
                raise SystemExit("an append failed")


def fetch_alone(broker: Logway, seconds: float):
    with Connection(broker.bootstrap) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            response = connection.request(FETCH, 4, fetch_v4(TOPIC, 0, 0, FETCHED_BYTES))
            if len(response) < FETCHED_BYTES // 2:
                raise SystemExit(f"a fetch of {FETCHED_BYTES} bytes got {len(response)}")


def appends(connections: int) -> BenchLoad:
    name = f"Produce, 2 KiB, synced, 128 under way on {connections}"
    return BenchLoad(name, "Produce", ["appends", "--no-reads", "--connections", str(connections)])


def batches(name: str, work: str, durability: str) -> BenchLoad:
    return BenchLoad(name, "Produce", ["produce", "--work", work, "--durability", durability])


ON_MANY = appends(128)
UNSYNCED = batches("Produce, 16 KiB, unsynced, 5 under way", "16 KiB batches", "unsynced")
SYNCED = batches("Produce, 16 KiB, synced, 5 under way", "16 KiB batches", "synced")

# Whose calls are counted.
COUNTED = [
    Load("Produce, 2 KiB, synced, alone", "Produce", produce_alone),
    appends(1),
    ON_MANY,
    UNSYNCED,
    batches("Produce, a record of 200 B, unsynced, 50 under way", "batch of 1", "unsynced"),
    Load("Fetch, 1 MiB, cached, alone", "Fetch", fetch_alone),
]

# Whose processor time is looked at.
PROFILED = [
    UNSYNCED,
    SYNCED,
    ON_MANY,
    BenchLoad("Fetch, 1 MiB, cached", "Fetch", ["fetch", "--preload-megabytes", "256"]),
]


def counted_loads(
    name: str, seconds: float, counting: Callable[[int], AbstractContextManager[Calls]]
) -> Iterator[tuple[str, int, Calls]]:
    """Each of COUNTED on a broker of that name: what it is called, how many requests it made, and what was counted in
    the broker's process meanwhile."""
    with Logway(name) as broker:
        fill(broker)
        for load in COUNTED:
            before = requests(broker.metrics(), load.api)
            with counting(broker.process.pid) as calls:
                load.run(broker, seconds)
            yield load.name, requests(broker.metrics(), load.api) - before, calls
