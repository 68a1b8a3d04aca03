"""Many groups with many committed offsets: how soon they answer after a restart, and the memory that they take.

Each group has no member and commits, from outside, an offset for each partition of one topic. Then each broker in turn
is stopped and started, and killed and started, `--rounds` times. A broker is ready when every partition of
`__consumer_offsets` has answered for one of its groups; that time counts from the start of the process. After each
restart every offset is fetched and compared with what was committed.

    python3 tests/bench/group_offsets.py [--groups 10000] [--partitions 100] [--times 1] [--rounds 3] [--only logway]
"""

import argparse
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.brokers import KINDS
from harness.offsets import await_coordinator, await_offsets, commit_all, compare_all, one_of_each
from harness.protocol import CREATE_TOPICS, Connection, create_topic_v2

TOPIC = "read-by-many"
# The default of `offsets.topic.num.partitions`, of both brokers.
COORDINATORS = 50
CONNECTIONS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100, help="offsets of a group")
    parser.add_argument("--times", type=int, default=1, help="how often each offset is committed")
    parser.add_argument("--rounds", type=int, default=3, help="restarts of each sort")
    parser.add_argument("--only", choices=KINDS, help="one broker alone")
    args = parser.parse_args()
    print(f"{args.groups:,} groups, {args.groups * args.partitions:,} offsets, each committed {args.times} times")
    print("| broker | memory idle | loaded | at | of which | ready, least to most | memory then |")
    print("|---|---|---|---|---|---|---|")
    for kind in [args.only] if args.only else KINDS:
        measure(kind, args)


def measure(kind: str, args: argparse.Namespace):
    """Prints one line for each way to restart."""
    committed = {f"group-{number:05}": [] for number in range(args.groups)}
    with KINDS[kind]("bench-offsets") as broker:
        prepare(broker.bootstrap, args.partitions)
        idle = broker.rss_bytes()
        began = time.monotonic()
        for turn in range(args.times):
            for number, group in enumerate(committed):
                first = number * 1_000_000 + turn * 1_000
                committed[group] = list(range(first, first + args.partitions))
            on_all_connections(commit_all, broker.bootstrap, committed)
        rate = args.times * args.groups * args.partitions / (time.monotonic() - began)
        before = f"| {kind} | {mib(idle)} | {mib(broker.rss_bytes())} | {rate:,.0f} offsets/s"
        for name, end in {"stopped": broker.stop, "killed": broker.kill}.items():
            restarts = [restart(broker, end, committed) for _ in range(args.rounds)]
            seconds, memory = zip(*restarts)
            spread = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
            print(f"{before} | {name} | {spread} | {mib(statistics.median(memory))} |", flush=True)


def prepare(bootstrap: str, partitions: int):
    with Connection(bootstrap) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, partitions))
    await_coordinator(bootstrap, "group-00000")
    await_offsets(bootstrap, one_of_each([f"group-{number:05}" for number in range(1_000)], COORDINATORS))


def restart(broker, end, committed: dict[str, list[int]]) -> tuple[float, int]:
    """Ends the broker, starts it, and compares what it knows; the seconds until it was ready, and its memory then."""
    end()
    began = time.monotonic()
    broker.start()
    await_offsets(broker.bootstrap, one_of_each(list(committed), COORDINATORS))
    seconds = time.monotonic() - began
    memory = broker.rss_bytes()
    on_all_connections(compare_all, broker.bootstrap, committed)
    return seconds, memory


def on_all_connections(work, bootstrap: str, committed: dict[str, list[int]]):
    """Splits the groups over the connections."""
    groups = list(committed)
    parts = [{group: committed[group] for group in groups[start::CONNECTIONS]} for start in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(work, bootstrap, TOPIC, part) for part in parts]:
            done.result()


def mib(count_bytes: float) -> str:
    return f"{count_bytes / (1 << 20):,.0f} MiB"


if __name__ == "__main__":
    main()
