"""One client that pushes far more than its quota, and what others feel of it.

The pusher offers `--offered` bytes a second on one connection, with at most 5 requests under way, and does not hold
itself back when it is told to wait: what it gets is what the broker lets it. Beside it, other clients send a small
record every 10 ms each, whether or not the last was answered; their latencies count from when a record was due.
They are measured alone, beside the pusher without a quota, and beside it with one, on each broker in turn.

    python3 tests/bench/quota.py [--quota 5000000] [--offered 100000000] [--seconds 30] [--others 4] [--rounds 1]
        [--only logway]
"""

import argparse
import multiprocessing
import os
import select
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.brokers import KINDS
from harness.protocol import (
    ALTER_CLIENT_QUOTAS,
    CREATE_TOPICS,
    PRODUCE,
    Connection,
    batch_v2,
    client_quota_v0,
    create_topic_v2,
    produce_error_v3,
    produce_v3,
)

PUSHED_TOPIC, OTHERS_TOPIC = "pushed", "others"
FRAME_BYTES = 100_000
IN_FLIGHT_MAX = 5
INTERVAL_S = 0.01
DEADLINE_S = 60
# For all processes to be up before the first record is due.
LEAD_S = 2

SITUATIONS = {"alone": None, "beside the pusher": "unbound", "beside the pusher, which has a quota": "bound"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quota", type=int, default=5_000_000, help="bytes a second")
    parser.add_argument("--offered", type=int, default=100_000_000, help="bytes a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--others", type=int, default=4, help="how many other clients there are")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, help="one broker alone")
    args = parser.parse_args()
    print(f"a quota of {args.quota / 1e6:g} MB/s, {args.offered / 1e6:g} MB/s offered, for {args.seconds} s")
    print("| broker | others | their p50 | p99 | most | the pusher's MB/s | in its seconds, least to most |")
    print("|---|---|---|---|---|---|---|")
    with ExitStack() as stack:
        brokers = [KINDS[kind]("bench-quota") for kind in ([args.only] if args.only else KINDS)]
        for broker in brokers:
            # Several gigabytes.
            stack.callback(shutil.rmtree, broker.directory)
            prepare(stack.enter_context(broker).bootstrap, args)
        for number in range(args.rounds):
            for situation, client_id in SITUATIONS.items():
                for broker in brokers if number % 2 == 0 else brokers[::-1]:
                    print(measure(broker, situation, client_id and f"{client_id}-{number}", args), flush=True)


def prepare(bootstrap: str, args: argparse.Namespace):
    with Connection(bootstrap, DEADLINE_S) as connection:
        for topic, partitions in {PUSHED_TOPIC: 1, OTHERS_TOPIC: args.others}.items():
            connection.request(CREATE_TOPICS, 2, create_topic_v2(topic, partitions))
            for partition in range(partitions):
                body = produce_v3(topic, partition, batch_v2([b"first"], 0))
                while produce_error_v3(connection.request(PRODUCE, 3, body)) != 0:
                    time.sleep(0.01)
        for number in range(args.rounds):
            quota = client_quota_v0(f"bound-{number}", "producer_byte_rate", args.quota)
            response = connection.request(ALTER_CLIENT_QUOTAS, 0, quota)
            assert response[8:10] == b"\0\0", response


def measure(broker, situation: str, client_id: str | None, args: argparse.Namespace) -> str:
    """One row of the table."""
    # What an earlier measurement has left to write would slow the disk in this one.
    os.sync()
    context = multiprocessing.get_context("spawn")
    begin = time.monotonic() + LEAD_S
    end = begin + args.seconds
    with context.Pool(args.others + 1) as pool:
        others = [pool.apply_async(send_small, (broker.bootstrap, id, begin, end)) for id in range(args.others)]
        pushed = pool.apply_async(push, (broker.bootstrap, client_id, args.offered, begin, end)) if client_id else None
        latencies_ms = sorted(latency * 1e3 for other in others for latency in other.get())
        rates = per_second(pushed.get(), args.seconds) if pushed else []
    p50, p99, most = (latencies_ms[(len(latencies_ms) - 1) * percent // 100] for percent in (50, 99, 100))
    times = f"{p50:.1f} ms | {p99:.1f} ms | {most:.1f} ms"
    got = f"{sum(rates) / args.seconds:.2f} | {min(rates):.1f} to {max(rates):.1f}" if rates else "|"
    return f"| {broker.kind} | {situation} | {times} | {got} |"


def per_second(acked_at_s: list[float], seconds: int) -> list[float]:
    """The megabytes acknowledged in each second."""
    counts = [0] * seconds
    for at_s in acked_at_s:
        counts[int(at_s)] += 1
    return [count * FRAME_BYTES / 1e6 for count in counts]


def push(bootstrap: str, client_id: str, offered: int, begin: float, end: float) -> list[float]:
    """Sends as fast as it is due and taken; when, in seconds from the beginning, each request was acknowledged."""
    body = produce_v3(PUSHED_TOPIC, 0, batch_v2([os.urandom(FRAME_BYTES)], 0))
    sent, acked_at_s = 0, []
    with Connection(bootstrap, DEADLINE_S, client_id) as connection:
        time.sleep(max(0, begin - time.monotonic()))
        while (now := time.monotonic()) < end:
            due = begin + sent * FRAME_BYTES / offered
            may_send = sent - len(acked_at_s) < IN_FLIGHT_MAX
            if may_send and due <= now:
                connection.send(PRODUCE, 3, body)
                sent += 1
                continue
            wait_s = (min(due, end) if may_send else end) - now
            if select.select([connection.socket], [], [], wait_s)[0]:
                error = produce_error_v3(connection.read_frame()[4:])
                if error != 0:
                    raise AssertionError(f"the pusher got error {error}")
                acked_at_s.append(min(time.monotonic(), end - 1e-6) - begin)
    return acked_at_s


def send_small(bootstrap: str, partition: int, begin: float, end: float) -> list[float]:
    """Sends a record every 10 ms; how long after it was due each was acknowledged, in seconds."""
    body = produce_v3(OTHERS_TOPIC, partition, batch_v2([b"x" * 100], 0))
    due = [begin + number * INTERVAL_S for number in range(int((end - begin) / INTERVAL_S))]
    sent, latencies = 0, []
    with Connection(bootstrap, DEADLINE_S, f"other-{partition}") as connection:
        while len(latencies) < len(due):
            wait_s = max(0, due[sent] - time.monotonic()) if sent < len(due) else DEADLINE_S
            if sent > len(latencies) and select.select([connection.socket], [], [], wait_s)[0]:
                error = produce_error_v3(connection.read_frame()[4:])
                if error != 0:
                    raise AssertionError(f"another client got error {error}")
                latencies.append(time.monotonic() - due[len(latencies)])
            elif sent < len(due):
                time.sleep(max(0, due[sent] - time.monotonic()))
                connection.send(PRODUCE, 3, body)
                sent += 1
            else:
                raise AssertionError(f"another client waited for {DEADLINE_S} s")
    return latencies


if __name__ == "__main__":
    main()
