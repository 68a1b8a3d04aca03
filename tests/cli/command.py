"""Calls the logway command line and reads what it prints."""

import itertools
import json
import os
import struct
import subprocess
from functools import cache, partial

from harness import shapes, waiting
from harness.logway import BINARY
from harness.protocol import API_VERSIONS, Connection

BOOTSTRAP = os.environ["BOOTSTRAP"]
DEADLINE_S = 30
wait_until = partial(waiting.wait_until, deadline_s=DEADLINE_S)
numbers = itertools.count()


@cache
def served_apis() -> set[int]:
    """The keys of the APIs that the broker announces."""
    with Connection(BOOTSTRAP) as connection:
        response = connection.request(API_VERSIONS, 0, b"")
    (_error, count) = struct.unpack_from(">hi", response)
    return {struct.unpack_from(">h", response, 6 + 6 * index)[0] for index in range(count)}


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    environment = {**os.environ, "LOGWAY_BROKERS": BOOTSTRAP}
    command = [BINARY, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, env=environment)
    shapes.check(arguments, done.stdout)
    return done


def logway(*arguments: str, stdin: bytes = b"") -> bytes:
    """What a command prints on stdout; a nonzero exit code is an error that carries its stderr."""
    done = run(*arguments, stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(f"logway {' '.join(arguments)} exited with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def logway_json(*arguments: str, stdin: bytes = b""):
    """What a command prints with `--format json`, as one document."""
    return json.loads(logway(*arguments, "--format", "json", stdin=stdin))


def create_topic(purpose: str, *arguments: str) -> str:
    """A new topic named for its purpose, with one partition unless the arguments say otherwise."""
    name = f"cli-{purpose}-{next(numbers)}"
    logway("topic", "create", name, *(arguments or ("-p", "1")))
    return name


def produce(topic: str, lines: bytes, *arguments: str):
    logway("produce", topic, *arguments, stdin=lines)


def consume(topic: str, *arguments: str) -> bytes:
    """What there is from the first record (unless `-o` says otherwise) to the end."""
    offset = [] if "-o" in arguments else ["-o", "start"]
    return logway("consume", topic, "-e", *offset, *arguments)


def consume_json(topic: str, *arguments: str) -> list[dict]:
    return [json.loads(line) for line in consume(topic, "--format", "json", *arguments).splitlines()]


def numbered_lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))
