"""Many transactional ids: the memory that they take, and how soon they answer after `kill -9`.

Each id asks for its producer id once (InitProducerId). Then each broker in turn is killed and started, `--rounds` times. A broker is
ready when every partition of `__transaction_state` has answered for one of its ids; that time counts from the start of the process.
After each restart every id asks again: it must get the producer id that it had, in the next epoch.

    python3 tests/bench/transactional_ids.py [--ids 100000] [--rounds 3] [--only logway]
"""

import argparse
import statistics
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.brokers import KINDS
from harness.offsets import COORDINATOR_BEGINS, java_hash
from harness.protocol import Connection, string

FIND_COORDINATOR, INIT_PRODUCER_ID = 10, 22
# The default of `transaction.state.log.num.partitions`, of both brokers.
COORDINATORS = 50
CONNECTIONS = 4
# Requests under way on one connection.
WINDOW = 16
DEADLINE_S = 300
CONCURRENT_TRANSACTIONS = 51
TIMEOUT_MS = 60_000

# A producer id and its epoch.
Producer = tuple[int, int]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ids", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="restarts")
    parser.add_argument("--only", choices=KINDS, help="one broker alone")
    args = parser.parse_args()
    print(f"{args.ids:,} transactional ids")
    print("| broker | memory idle | with all | at | ready, least to most | memory then |")
    print("|---|---|---|---|---|---|")
    for kind in [args.only] if args.only else KINDS:
        measure(kind, args)


def measure(kind: str, args: argparse.Namespace):
    """Prints the line of a broker."""
    ids = [f"producer-{number:06}" for number in range(args.ids)]
    with KINDS[kind]("bench-transactional-ids") as broker:
        await_ready(broker.bootstrap, ids[:1_000])
        idle = broker.rss_bytes()
        began = time.monotonic()
        known = init_all(broker.bootstrap, ids)
        rate = len(ids) / (time.monotonic() - began)
        loaded = broker.rss_bytes()
        seconds, memory = [], []
        for _ in range(args.rounds):
            broker.kill()
            began = time.monotonic()
            broker.start()
            asked = await_ready(broker.bootstrap, ids)
            seconds.append(time.monotonic() - began)
            memory.append(broker.rss_bytes())
            known |= asked
            after = init_all(broker.bootstrap, ids)
            for name, (producer, epoch) in known.items():
                assert after[name] == (producer, epoch + 1), f"{name} had {producer}, {epoch}, and has {after[name]}"
            known = after
        spread = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
        print(f"| {kind} | {mib(idle)} | {mib(loaded)} | {rate:,.0f} ids/s | {spread} | {mib(statistics.median(memory))} |", flush=True)


def await_ready(bootstrap: str, ids: list[str]) -> dict[str, Producer]:
    """One id of each partition of `__transaction_state` asks until it is answered. The first makes the topic."""
    of_partition = {java_hash(name) % COORDINATORS: name for name in ids}
    deadline = time.monotonic() + DEADLINE_S
    found = {}
    with Connection(bootstrap, DEADLINE_S) as connection:
        for name in of_partition.values():
            # For a transaction; the answer begins with how long it was held back.
            ask = lambda name=name: struct.unpack_from(">h", connection.request(FIND_COORDINATOR, 1, string(name) + b"\1"), 4)[0]
            until_begun(ask, deadline)
            until_begun(lambda name=name: found.update({name: initialized(connection.request(INIT_PRODUCER_ID, 1, init(name)))}) or found[name][0], deadline)
    return {name: (producer, epoch) for name, (_, producer, epoch) in found.items()}


def until_begun(ask, deadline: float):
    while (error := ask()) != 0:
        assert error in (*COORDINATOR_BEGINS, CONCURRENT_TRANSACTIONS) and time.monotonic() < deadline, error
        time.sleep(0.001)


def init_all(bootstrap: str, ids: list[str]) -> dict[str, Producer]:
    """Every id asks for its producer id."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = pool.map(lambda first: init_some(bootstrap, ids[first::CONNECTIONS]), range(CONNECTIONS))
        return {name: producer for part in parts for name, producer in part.items()}


def init_some(bootstrap: str, ids: list[str]) -> dict[str, Producer]:
    found, left = {}, ids
    while left:
        again = []
        with Connection(bootstrap, DEADLINE_S) as connection:
            waiting = []
            for name in [*left, *[None] * WINDOW]:
                if name is not None:
                    connection.send(INIT_PRODUCER_ID, 1, init(name))
                    waiting.append(name)
                if waiting and (name is None or len(waiting) == WINDOW):
                    asked = waiting.pop(0)
                    error, producer, epoch = initialized(connection.read_frame()[4:])
                    assert error in (0, CONCURRENT_TRANSACTIONS, *COORDINATOR_BEGINS), error
                    if error == 0:
                        found[asked] = (producer, epoch)
                    else:
                        again.append(asked)
        left = again
    return found


def init(name: str) -> bytes:
    """InitProducerId, version 1."""
    return string(name) + struct.pack(">i", TIMEOUT_MS)


def initialized(response: bytes) -> tuple[int, int, int]:
    """The error, the producer id and its epoch."""
    return struct.unpack_from(">hqh", response, 4)


def mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"


if __name__ == "__main__":
    main()
