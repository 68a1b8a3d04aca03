"""`logway cluster` as operators use it."""

import json
import os
import subprocess

from harness import shapes
from harness.logway import BINARY

COMMAND_S = 120
# How fast logs are copied. A low one makes operations last, so that they are hit in the middle.
COPY_BOUND = "logway.replica.catch.up.max.bytes.per.second"


def spawn(bootstrap: str, *arguments: str) -> subprocess.Popen:
    """A command that runs while other things happen."""
    environment = {**os.environ, "LOGWAY_BROKERS": bootstrap}
    command = [BINARY, *arguments, "--format", "json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def ended(arguments: tuple[str, ...], process: subprocess.Popen):
    """What it has printed, as a document."""
    out, told = process.communicate(timeout=COMMAND_S)
    if process.returncode != 0:
        raise AssertionError(f"logway {' '.join(arguments)} ended with {process.returncode}: {told.decode()}")
    shapes.check((*arguments, "--format", "json"), out)
    return json.loads(out)


def logway(bootstrap: str, *arguments: str):
    return ended(arguments, spawn(bootstrap, *arguments))


def bound_copies(bootstrap: str, bytes_per_second: int):
    logway(bootstrap, "config", "set", "broker", "default", f"{COPY_BOUND}={bytes_per_second}")


def unbound_copies(bootstrap: str):
    logway(bootstrap, "config", "delete", "broker", "default", COPY_BOUND)
