"""What 100,000 ACLs cost Produce and Fetch: the broker's processor time for a request, beside a broker without any.

    PYTHONPATH=tests:tests/security tests/.work/venv/bin/python tests/security/measure_acls.py --rounds 10

Both brokers are up all the time and have their turns one after the other. The client has logged in and is no super user:
what it may do is said by one ACL of its topic, or, on the broker without ACLs, by allow.everyone.if.no.acl.found. Each
request writes or reads one small batch. Prints the medians, and the median of the pairs' ratios.
"""

import argparse
import statistics
import struct
import time
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from secure import PASSWORD, SecureLogway

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

TOPIC, USER = "measured", "alice"
AT_ONCE = 1_000
# Not durable, so that the disk is not in it.
FAST = {"log.flush.interval.messages": "9223372036854775807"}


def cpu_us(broker) -> float:
    """The processor time of all threads of a broker, in microseconds. Its threads live as long as it does."""
    tasks = Path(f"/proc/{broker.process.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1000


def add_acls(broker, count: int):
    """Of as many topics, every tenth by a prefix, for a hundred users."""
    client = AdminClient({"bootstrap.servers": broker.addresses["PLAINTEXT"]})
    made = 0
    while made < count:
        bindings = [
            AclBinding(ResourceType.TOPIC, f"topic-{number}",
                       ResourcePatternType.PREFIXED if number % 10 == 0 else ResourcePatternType.LITERAL,
                       f"User:user-{number % 100}", "*", AclOperation.READ, AclPermissionType.ALLOW)
            for number in range(made, min(made + AT_ONCE, count))
        ]
        for created in client.create_acls(bindings, request_timeout=60).values():
            created.result()
        made += len(bindings)


def log_in(broker) -> Connection:
    connection = Connection(broker.addresses["SASL_PLAINTEXT"], 60)
    connection.log_in(USER, PASSWORD)
    return connection


def turn(broker, connection: Connection, kind: str, requests: int) -> float:
    """The processor time of a request, in microseconds."""
    produce = produce_v3(TOPIC, 0, batch_v2([b"x" * 100], int(time.time() * 1000)))
    api, version, body = {"Produce": (PRODUCE, 3, produce), "Fetch": (FETCH, 4, fetch_v4(TOPIC, 0, 0, 1))}[kind]
    before = cpu_us(broker)
    for _ in range(requests):
        answer = connection.request(api, version, body)
        # Behind the throttle time, the topic's name and the partition's number.
        error = produce_error_v3(answer) if kind == "Produce" else struct.unpack_from(">h", answer, 18 + len(TOPIC) + 4)[0]
        if error != 0:
            raise AssertionError(f"{kind}: error code {error}")
    return (cpu_us(broker) - before) / requests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--requests", type=int, default=10_000, help="in each turn")
    parser.add_argument("--acls", type=int, default=100_000)
    options = parser.parse_args()
    open_to_all = FAST | {"allow.everyone.if.no.acl.found": "true"}
    with SecureLogway("measure-no-acls", open_to_all) as without, SecureLogway("measure-acls", FAST) as with_acls:
        for broker in (without, with_acls):
            broker.add_user(USER)
            with Connection(broker.addresses["PLAINTEXT"]) as connection:
                connection.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, 1))
        rss = with_acls.rss_bytes()
        began = time.monotonic()
        add_acls(with_acls, options.acls)
        with_acls.allow(USER, "--topic", TOPIC, "--operation", "write", "--operation", "read")
        print(f"{options.acls} ACLs made in {time.monotonic() - began:.1f} s, resident memory "
              f"+{(with_acls.rss_bytes() - rss) >> 20} MiB", flush=True)
        connections = {broker: log_in(broker) for broker in (without, with_acls)}
        print("| | without ACLs, us of CPU | with, us | ratio of pairs |")
        print("|---|---|---|---|")
        for kind in ("Produce", "Fetch"):
            figures = {broker: [] for broker in connections}
            # The first round does not count.
            for _ in range(options.rounds + 1):
                for broker, connection in connections.items():
                    figures[broker].append(turn(broker, connection, kind, options.requests))
            one, other = (figures[broker][1:] for broker in (without, with_acls))
            ratio = statistics.median(b / a for a, b in zip(one, other, strict=True))
            print(f"| {kind} | {statistics.median(one):.2f} | {statistics.median(other):.2f} | {ratio:.3f} |", flush=True)
        for connection in connections.values():
            connection.close()


if __name__ == "__main__":
    main()
