"""Groups for the cases to look at: members, and brokers that know groups at all."""

import contextlib
import itertools
import subprocess
import unittest

from command import BOOTSTRAP, logway, logway_json, run, served_apis, wait_until

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 8, 9, 10, 11, 15, 16
DELETE_GROUPS = 42
GROUP_APIS = {OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS}

needs_groups = unittest.skipUnless(served_apis() >= GROUP_APIS, "the broker announces no consumer groups")
numbers = itertools.count()


def new_group(purpose: str) -> str:
    return f"cli-{purpose}-{next(numbers)}"


def described(group: str) -> dict:
    (description,) = logway_json("group", "describe", group)
    return description


def committed(group: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition."""
    partitions = described(group)["partitions"]
    return {(row["topic"], row["partition"]): row["committed_offset"] for row in partitions}


def is_stable(group: str, members: int) -> bool:
    done = run("group", "describe", group)
    text = done.stdout.decode()
    return "Stable" in text and f"MEMBERS      {members}\n" in text


@contextlib.contextmanager
def kcat_member(group: str, topic: str, members: int = 1):
    """A member that nobody here wrote, from when the group has that many until the end of the block."""
    command = ["kcat", "-b", BOOTSTRAP, "-q", "-u", "-G", group, topic, "-X", "auto.offset.reset=earliest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as member:
        try:
            wait_until(lambda: is_stable(group, members), f"{members} members of {group}")
            yield member
        finally:
            member.terminate()
            member.stdout.read()


def leave_behind(group: str, topic: str, *offsets: int):
    """Commits offsets for partitions from 0 on, as a group does that has been there before."""
    for partition, offset in enumerate(offsets):
        logway("group", "seek", group, "--to", str(offset), "--topic", f"{topic}:{partition}")
