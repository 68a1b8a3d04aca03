"""Calls kcat and reads what it prints."""

import json
import os
import subprocess
import time

from harness.protocol import CREATE_TOPICS, Connection, create_topic_v2

BOOTSTRAP = os.environ["BOOTSTRAP"]
DEADLINE_S = 30


def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    """What kcat prints on stdout; a nonzero exit code is an error that carries its stderr."""
    done = run(*arguments, stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(f"kcat {' '.join(arguments)} exited with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    command = ["kcat", "-b", BOOTSTRAP, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S)


def produce(topic: str, *arguments: str, stdin: bytes = b""):
    kcat("-P", "-t", topic, *arguments, stdin=stdin)


def consume(topic: str, *arguments: str) -> bytes:
    """Everything from the first offset (unless `-o` says otherwise) to the end."""
    offset = [] if "-o" in arguments else ["-o", "beginning"]
    return kcat("-C", "-t", topic, "-e", "-q", *offset, *arguments)


def consume_json(topic: str, *arguments: str) -> list[dict]:
    """The records as kcat's -J describes them: offset, ts, key, payload, headers."""
    return [json.loads(line) for line in consume(topic, "-J", *arguments).splitlines()]


def create_topic(topic: str, partitions: int = 1):
    """Creates a topic by hand, since kcat itself only makes the broker create one with default settings.

    Returns when every partition answers for its offsets: Kafka refuses the first requests to a new topic, and
    a producer that is not idempotent and keeps many requests in flight loses its order by retrying them.
    """
    with Connection(BOOTSTRAP) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(topic, partitions))
    deadline = time.monotonic() + DEADLINE_S
    for partition in range(partitions):
        while run("-Q", "-t", f"{topic}:{partition}:-1").returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic}-{partition} has no leader after {DEADLINE_S} s")
