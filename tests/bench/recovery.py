"""How soon a broker is ready after `kill -9`, and the memory that takes, by what it stores.

The broker makes `--partitions` partitions in topics of 500, and one more, `tail`, that gets `--tail-mib` of records
right before it is killed. What else is stored is the layout:

- `empty`: nothing.
- `large`: one partition of 100 segments, each made 1 GiB long after the kill, by a hole: 100 GiB to the broker, which
  opens none of them.
- `small`: 5 segments with a record each in every partition. The broker fills one partition, whose files then stand,
  after the kill, for those of all.

A broker is ready when it says so; *led* when every partition has a leader, and *served* when `--sampled` partitions
have taken a record and given it back: all from the start of the process. Memory is resident, then and at most. System
calls are those of the last start, which strace counts; the others run without it.

    python3 tests/bench/recovery.py [--partitions 20000] [--layout large] [--rounds 3]
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.broker import TESTS
from harness.logway import Logway
from harness.protocol import (
    CREATE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    Connection,
    batch_v2,
    create_topic_v2,
    fetch_v4,
    leaders_v1,
    metadata_v1,
    produce_error_v3,
    produce_v3,
)
from harness.stored import CHECKPOINT, store
from harness.strace import counted
from harness.waiting import wait_until

TOPIC_PARTITIONS = 500
LARGE_SEGMENTS, LARGE_SEGMENT_BYTES = 100, 1 << 30
SMALL_SEGMENTS = 5
NOW_MS = 1_700_000_000_000
DEADLINE_S = 600


class Measured(Logway):
    """A broker whose system calls can be counted. strace leaves it the child of this process, to be killed as any."""

    counts_to: Path | None = None

    def command(self) -> list[str]:
        tracer = ["strace", "-D", "-f", "-c", "-o", str(self.counts_to)] if self.counts_to else []
        return tracer + super().command()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--tail-mib", type=int, default=64, help="records that no sync has reached")
    parser.add_argument("--sampled", type=int, default=100, help="partitions that are written to and read")
    parser.add_argument("--rounds", type=int, default=3, help="kills")
    parser.add_argument("--layout", choices=LAYOUTS, help="one layout alone")
    args = parser.parse_args()
    subprocess.run([TESTS / "harness" / "need", "strace"], check=True, stdout=subprocess.DEVNULL)
    print(f"{args.partitions:,} partitions, {args.tail_mib} MiB unflushed")
    print("| layout | segments | ready | led | served | memory when ready | at most | system calls | by partition |")
    print("|---|---|---|---|---|---|---|---|---|")
    for layout in [args.layout] if args.layout else LAYOUTS:
        measure(layout, args)


def measure(layout: str, args: argparse.Namespace):
    """Prints the line of a layout."""
    with Measured(f"bench-recovery-{layout}") as broker:
        topics = make_topics(broker.bootstrap, args.partitions)
        fill, arrange = LAYOUTS[layout]
        fill(broker)
        starts = []
        for round in range(args.rounds):
            write_tail(broker.bootstrap, args.tail_mib)
            broker.kill()
            if round == 0:
                arrange(broker.data_dir, topics)
                # What was arranged here is no news that a sync of the broker should have to write.
                os.sync()
            starts.append(start(broker, topics, args.sampled))
        broker.kill()
        broker.counts_to = broker.directory / "calls"
        broker.start()
        segments = sum(1 for _ in broker.data_dir.glob("*/*.log"))
        # A stop in good order makes calls of its own. strace writes when the broker is gone.
        broker.kill()
        wait_until(lambda: "total" in broker.counts_to.read_text(), "what strace has counted", DEADLINE_S)
        calls = sum(counted(broker.counts_to).values())
    times = " | ".join(f"{min(values):.2f} to {max(values):.2f} s" for values in zip(*[times for times, _ in starts]))
    memory = " | ".join(f"{max(values) >> 20} MiB" for values in zip(*[memory for _, memory in starts]))
    print(f"| {layout} | {segments:,} | {times} | {memory} | {calls:,} | {calls / args.partitions:.1f} |", flush=True)


def start(broker: Logway, topics: list[str], sampled: int) -> tuple[list[float], list[int]]:
    """The seconds until it is ready, all partitions are led, and some were served; its memory, now and at most."""
    began = time.monotonic()
    broker.start()
    memory = [broker.rss_bytes(), broker.peak_rss_bytes()]
    with Connection(broker.bootstrap, DEADLINE_S) as connection:
        wait_until(lambda: all_led(connection, topics), "leaders", DEADLINE_S)
        led_s = time.monotonic() - began
        partitions = [(topic, id) for topic in topics for id in range(TOPIC_PARTITIONS)]
        for topic, id in partitions[:: max(1, len(partitions) // sampled)]:
            serve(connection, topic, id)
    return [broker.ready_s, led_s, time.monotonic() - began], memory


def all_led(connection: Connection, topics: list[str]) -> bool:
    found = leaders_v1(connection.request(METADATA, 1, metadata_v1(topics)))
    return all(leader >= 0 for leaders in found.values() for leader in leaders)


def serve(connection: Connection, topic: str, partition: int):
    """Has a partition take a record, and give back one."""
    append = produce_v3(topic, partition, batch_v2([b"after"], NOW_MS))
    error = produce_error_v3(connection.request(PRODUCE, 3, append))
    if error != 0:
        raise SystemExit(f"error {error} for an append to {topic}-{partition}")
    if b"after" not in connection.request(FETCH, 4, fetch_v4(topic, partition, 0, 1 << 20)):
        raise SystemExit(f"the record in {topic}-{partition} is not there")


def make_topics(bootstrap: str, partitions: int) -> list[str]:
    topics = [f"many-{number:03}" for number in range(partitions // TOPIC_PARTITIONS)]
    with Connection(bootstrap, DEADLINE_S) as connection:
        for topic in topics:
            connection.request(CREATE_TOPICS, 2, create_topic_v2(topic, TOPIC_PARTITIONS))
        unsynced = {"flush.messages": str((1 << 63) - 1)}
        connection.request(CREATE_TOPICS, 2, create_topic_v2("tail", 1, unsynced))
        wait_until(lambda: all_led(connection, [*topics, "tail"]), "the topics", DEADLINE_S)
    return topics


def write_tail(bootstrap: str, mib: int):
    append = produce_v3("tail", 0, batch_v2([bytes(1 << 10)] * 1_000, NOW_MS))
    with Connection(bootstrap, DEADLINE_S) as connection:
        for _ in range(mib):
            connection.request(PRODUCE, 3, append)


def fill_large(broker: Logway):
    with Connection(broker.bootstrap, DEADLINE_S) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2("large", 1, {"segment.bytes": str(1 << 20)}))
    store(broker, "large", LARGE_SEGMENTS + 1, bytes(600 << 10))


def lengthen(data_dir: Path, _topics: list[str]):
    """Makes the sealed segments as long as they would be by default."""
    for segment in sorted((data_dir / "large-0").glob("*.log"))[:LARGE_SEGMENTS]:
        os.truncate(segment, LARGE_SEGMENT_BYTES)


def fill_small(broker: Logway):
    # An index with room for one entry is full when there is a second batch.
    config = {"segment.index.bytes": "12", "index.interval.bytes": "0"}
    with Connection(broker.bootstrap, DEADLINE_S) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2("small", 1, config))
    store(broker, "small", SMALL_SEGMENTS, b"stored")


def multiply(data_dir: Path, topics: list[str]):
    """Gives every partition the segments of one. Those that are sealed never change, and can be the same file."""
    files = sorted(file for file in (data_dir / "small-0").iterdir() if file.name != "partition.metadata")
    active = max(file.stem for file in files if file.suffix == ".log")
    points = []
    for topic in topics:
        for id in range(TOPIC_PARTITIONS):
            points.append(f"{topic} {id} {SMALL_SEGMENTS}")
            for file in files:
                copy = data_dir / f"{topic}-{id}" / file.name
                copy.unlink(missing_ok=True)
                is_sealed = file.stem.isdigit() and file.stem != active
                os.link(file, copy) if is_sealed else shutil.copy(file, copy)
    checkpoint = data_dir / CHECKPOINT
    _version, _count, *kept = checkpoint.read_text().splitlines()
    lines = [line for line in kept if not line.startswith("many-")] + points
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


# What fills them, and what is done to the directory after the first kill.
LAYOUTS = {
    "empty": (lambda _broker: None, lambda _data_dir, _topics: None),
    "large": (fill_large, lengthen),
    "small": (fill_small, multiply),
}


if __name__ == "__main__":
    main()
