"""How many system calls the broker makes for a request.

The release binary runs under load with strace on all of its threads; what it counts is divided by the requests that
the broker's own metrics count meanwhile. strace makes the system slow, so that more appends meet in a group than
without it: with `alone`, where each request waits for the one before, no two ever do.

    python3 tests/bench/system_calls.py [--seconds 5]
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.broker import TESTS
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
from harness.strace import counted
from harness.waiting import wait_until

TOPIC = "system-calls"
FETCHED_BYTES = 1 << 20
BATCHES = 64
# The columns; what is rarer than that is summed up.
SHOWN = ["recvfrom", "sendto", "sendfile", "pread64", "pwritev", "fdatasync", "futex", "epoll_wait"]
DEADLINE_S = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    args = parser.parse_args()
    subprocess.run([TESTS / "harness" / "need", "strace"], check=True, stdout=subprocess.DEVNULL)
    print("| for one request | requests |", " | ".join(SHOWN), "| others | all |")
    print("|---|---|" + "---|" * (len(SHOWN) + 2))
    with Logway("system-calls") as broker:
        fill(broker)
        report(broker, "Produce, 2 KiB, synced, alone", "Produce", lambda: produce_alone(broker, args.seconds))
        for connections in (1, 128):
            load = f"Produce, 2 KiB, synced, 128 under way on {connections}"
            report(broker, load, "Produce", lambda count=connections: appends(broker, count, args.seconds))
        report(broker, "Fetch, 1 MiB, cached, alone", "Fetch", lambda: fetch_alone(broker, args.seconds))


def report(broker: Logway, load: str, api: str, run: Callable[[], None]):
    before = requests(broker, api)
    with counted_in(broker.process.pid) as calls:
        run()
    made = requests(broker, api) - before
    shown = [calls.pop(name, 0) for name in SHOWN]
    others = sum(calls.values())
    counts = [*shown, others, sum(shown) + others]
    print(f"| {load} | {made:,} |", " | ".join(f"{count / made:.2f}" for count in counts), "|", flush=True)


@contextmanager
def counted_in(pid: int):
    """Fills a dictionary with the calls of a process, by name, when the block has ended."""
    calls: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory) / "calls"
        command = ["strace", "-f", "-c", "-o", str(table), "-p", str(pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        attached = tracer.stderr.readline()
        if "attached" not in attached:
            raise SystemExit(f"strace: {attached}{tracer.stderr.read()}")
        yield calls
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=DEADLINE_S)
        calls |= counted(table)


def requests(broker: Logway, api: str) -> int:
    """How many requests of an API the broker has answered."""
    found = re.search(rf'^logway_request_seconds_count{{api="{api}"}} (\d+)', broker.metrics(), re.MULTILINE)
    return int(found[1]) if found else 0


def fill(broker: Logway):
    """Makes the topic, with what is to be fetched."""
    with Connection(broker.bootstrap) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, 1))
        batch = batch_v2([bytes(1000) for _ in range(900)], timestamp_ms=1_700_000_000_000)
        append = produce_v3(TOPIC, 0, batch)
        for _ in range(BATCHES):
            wait_until(lambda: is_stored(connection, append), "a batch to be stored", DEADLINE_S)


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


def appends(broker: Logway, connections: int, seconds: float):
    with tempfile.TemporaryDirectory() as output:
        command = [BINARY, "bench", "appends", "--connections", str(connections), "--brokers", broker.bootstrap]
        lengths = ["--rounds", "1", "--seconds", str(seconds), "--warm-up-seconds", "0", "--output", output]
        subprocess.run([*command, *lengths], check=True, capture_output=True)


if __name__ == "__main__":
    main()
