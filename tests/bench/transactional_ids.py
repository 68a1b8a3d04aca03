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

from group_offsets import mib

from harness.brokers import KINDS
from harness.offsets import COORDINATOR_BEGINS, one_of_each, pipelined
from harness.protocol import Connection, string

FIND_COORDINATOR, INIT_PRODUCER_ID = 10, 22
# The default of `transaction.state.log.num.partitions`, of both brokers.
COORDINATORS = 50
CONNECTIONS = 4
DEADLINE_S = 300
# With CONCURRENT_TRANSACTIONS.
PASSING = (*COORDINATOR_BEGINS, 51)
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
    deadline = time.monotonic() + DEADLINE_S
    found = {}
    with Connection(bootstrap, DEADLINE_S) as connection:
        for name in one_of_each(ids, COORDINATORS):
            # For a transaction; the answer begins with how long it was held back.
            find = string(name) + b"\1"
            until_begun(lambda find=find: struct.unpack_from(">h", connection.request(FIND_COORDINATOR, 1, find), 4), deadline)
            found[name] = until_begun(lambda name=name: initialized(connection.request(INIT_PRODUCER_ID, 1, init(name))), deadline)
    return {name: (producer, epoch) for name, (_, producer, epoch) in found.items()}


def until_begun(ask, deadline: float) -> tuple:
    """Asks until the answer begins with no error."""
    while (answer := ask())[0] != 0:
        assert answer[0] in PASSING and time.monotonic() < deadline, answer
        time.sleep(0.001)
    return answer


def init_all(bootstrap: str, ids: list[str]) -> dict[str, Producer]:
    """Every id asks for its producer id."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = pool.map(lambda first: init_some(bootstrap, ids[first::CONNECTIONS]), range(CONNECTIONS))
        return {name: producer for part in parts for name, producer in part.items()}


def init_some(bootstrap: str, ids: list[str]) -> dict[str, Producer]:
    found, left = {}, ids
    while left:
        again = []
        for name, response in pipelined(bootstrap, INIT_PRODUCER_ID, ((name, init(name)) for name in left), version=1):
            error, producer, epoch = initialized(response)
            if error == 0:
                found[name] = (producer, epoch)
            else:
                assert error in PASSING, error
                again.append(name)
        left = again
    return found


def init(name: str) -> bytes:
    """InitProducerId, version 1."""
    return string(name) + struct.pack(">i", TIMEOUT_MS)


def initialized(response: bytes) -> tuple[int, int, int]:
    """The error, the producer id and its epoch."""
    return struct.unpack_from(">hqh", response, 4)


if __name__ == "__main__":
    main()
