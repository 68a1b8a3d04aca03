"""Loads under which what the broker does for a request is counted."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.logway import BINARY, Logway
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

TOPIC = "loads"
FETCHED_BYTES = 1 << 20
BATCHES = 64
DEADLINE_S = 30


@dataclass
class Load:
    name: str
    # The requests that are counted.
    api: str
    # Asks a broker that was filled for so many seconds.
    run: Callable[[Logway, float], None]


def fill(broker: Logway):
    """Makes the topic, with what is to be fetched."""
    with Connection(broker.bootstrap) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, 1))
        batch = batch_v2([bytes(1000) for _ in range(900)], timestamp_ms=1_700_000_000_000)
        append = produce_v3(TOPIC, 0, batch)
        for _ in range(BATCHES):
            wait_until(lambda: is_stored(connection, append), "a batch to be stored", DEADLINE_S)


def requests(broker: Logway, api: str) -> int:
    """How many requests of an API the broker has answered."""
    found = re.search(rf'^logway_request_seconds_count{{api="{api}"}} (\d+)', broker.metrics(), re.MULTILINE)
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


def bench(*arguments: str) -> Callable[[Logway, float], None]:
    """A load of `logway bench`, and of nothing else that it would do before and behind it."""

    def run(broker: Logway, seconds: float):
        with tempfile.TemporaryDirectory() as output:
            command = [BINARY, "bench", *arguments, "--brokers", broker.bootstrap, "--output", output]
            lengths = ["--rounds", "1", "--seconds", str(seconds)]
            no_warm_up = ["--warm-up-seconds", "0", "--warm-broker-seconds", "0"]
            subprocess.run([*command, *lengths, *no_warm_up], check=True, capture_output=True)

    return run


LOADS = [
    Load("Produce, 2 KiB, synced, alone", "Produce", produce_alone),
    Load(
        "Produce, 2 KiB, synced, 128 under way on 1",
        "Produce",
        bench("appends", "--no-reads", "--connections", "1"),
    ),
    Load(
        "Produce, 2 KiB, synced, 128 under way on 128",
        "Produce",
        bench("appends", "--no-reads", "--connections", "128"),
    ),
    Load(
        "Produce, 16 KiB, unsynced, 5 under way",
        "Produce",
        bench("produce", "--durability", "unsynced", "--work", "16 KiB batches"),
    ),
    Load(
        "Produce, a record of 200 B, unsynced, 50 under way",
        "Produce",
        bench("produce", "--durability", "unsynced", "--work", "batch of 1"),
    ),
    Load("Fetch, 1 MiB, cached, alone", "Fetch", fetch_alone),
]
