"""Committed offsets over raw connections: thousands of groups in seconds, which no client library does."""

import struct
import time

from harness.protocol import Connection, array, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10

DEADLINE_S = 300
# Requests under way on one connection.
WINDOW = 16
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
COORDINATOR_BEGINS = (14, 15, 16)


class OffsetsFailed(Exception):
    """The broker refused a request, or what it keeps is not what was committed."""


def await_coordinator(bootstrap: str, group: str):
    """Asks for the group's coordinator until there is one, and lets `__consumer_offsets` be made with that."""
    deadline = time.monotonic() + DEADLINE_S
    with Connection(bootstrap, DEADLINE_S) as connection:
        while (error := struct.unpack_from(">h", connection.request(FIND_COORDINATOR, 0, string(group)))[0]) != 0:
            if error not in COORDINATOR_BEGINS or time.monotonic() > deadline:
                raise OffsetsFailed(f"error {error} for the coordinator of {group}")
            time.sleep(0.01)


def commit_all(bootstrap: str, topic: str, offsets_of_groups: dict[str, list[int]]):
    """Commits each group's offsets of partitions 0, 1, ..., from outside: the groups have no members."""

    def refused(response: bytes) -> bool:
        codes = response[4 + len(string(topic)) + 4 :]
        return any(codes[4::6]) or any(codes[5::6])

    requests = ((group, commit_v2(group, topic, offsets)) for group, offsets in offsets_of_groups.items())
    for group, response in pipelined(bootstrap, OFFSET_COMMIT, requests):
        if refused(response):
            raise OffsetsFailed(f"a commit of {group} was refused: {response.hex()}")


def compare_all(bootstrap: str, topic: str, offsets_of_groups: dict[str, list[int]]):
    """Fetches the offsets of all groups, and fails at the first that differs from what is given."""
    requests = ((group, fetch_v2(group)) for group in offsets_of_groups)
    for group, response in pipelined(bootstrap, OFFSET_FETCH, requests):
        found, error = fetched(response)
        wanted = {(topic, partition): offset for partition, offset in enumerate(offsets_of_groups[group])}
        if error != 0 or found != wanted:
            raise OffsetsFailed(f"error {error}; {group} has {found}, and {wanted} was committed")


def await_offsets(bootstrap: str, groups: list[str]):
    """Asks for the offsets of each group until there is an answer, however long its coordinator still loads."""
    deadline = time.monotonic() + DEADLINE_S
    with Connection(bootstrap, DEADLINE_S) as connection:
        for group in groups:
            while (error := fetched(connection.request(OFFSET_FETCH, 2, fetch_v2(group)))[1]) != 0:
                if error not in COORDINATOR_BEGINS or time.monotonic() > deadline:
                    raise OffsetsFailed(f"error {error} for the offsets of {group}")
                time.sleep(0.001)


def one_of_each(names: list[str], coordinators: int) -> list[str]:
    """One group, or transactional id, for each partition of its coordinators' topic; there are `coordinators` of them."""
    return list({java_hash(name) % coordinators: name for name in names}.values())


def java_hash(text: str) -> int:
    """`Math.abs(text.hashCode())`, by which groups are spread."""
    hashed = 0
    for unit in text:
        hashed = (hashed * 31 + ord(unit)) & 0xFFFFFFFF
    return min(hashed, (1 << 32) - hashed)


def pipelined(bootstrap: str, api_key: int, requests, version: int = 2):
    """Sends each (name, body), some at a time, and yields (name, response) in their order."""
    with Connection(bootstrap, DEADLINE_S) as connection:
        waiting = []
        for name, body in requests:
            connection.send(api_key, version, body)
            waiting.append(name)
            if len(waiting) == WINDOW:
                yield waiting.pop(0), connection.read_frame()[4:]
        for name in waiting:
            yield name, connection.read_frame()[4:]


def commit_v2(group: str, topic: str, offsets: list[int]) -> bytes:
    partitions = [struct.pack(">iqh", partition, offset, 0) for partition, offset in enumerate(offsets)]
    return string(group) + struct.pack(">ihq", -1, 0, -1) + array([string(topic) + array(partitions)])


def fetch_v2(group: str) -> bytes:
    """All offsets of a group."""
    return string(group) + struct.pack(">i", -1)


def fetched(response: bytes) -> tuple[dict[tuple[str, int], int], int]:
    """The offset of each (topic, partition), and the error code."""
    offsets, at = {}, 4
    for _ in range(*struct.unpack_from(">i", response)):
        (length,) = struct.unpack_from(">h", response, at)
        topic, at = response[at + 2 : at + 2 + length].decode(), at + 2 + length
        (count,) = struct.unpack_from(">i", response, at)
        at += 4
        for _ in range(count):
            partition, offset, metadata_length = struct.unpack_from(">iqh", response, at)
            offsets[topic, partition] = offset
            at += 14 + max(metadata_length, 0) + 2
    return offsets, struct.unpack_from(">h", response, at)[0]
