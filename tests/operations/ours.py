"""`logway cluster` as operators use it."""

import json
import os
import subprocess

from harness import shapes
from harness.load import DEADLINE_S
from harness.logway import BINARY
from harness.waiting import wait_until

COMMAND_S = 120


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


def status(bootstrap: str) -> dict:
    """Also of a cluster that is not healthy, for which the command fails."""
    out, told = spawn(bootstrap, "cluster", "status").communicate(timeout=COMMAND_S)
    if not out:
        raise AssertionError(told.decode())
    return json.loads(out)


def wait_until_all_vote(cluster, count: int = 3):
    """Until then one node that is killed may be the only one that votes."""
    voters = lambda: [node["id"] for node in status(cluster.bootstrap)["nodes"] if node["voter"]]
    wait_until(lambda: len(voters()) == count, f"{count} voters", deadline_s=DEADLINE_S)
