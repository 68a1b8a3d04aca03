"""kcat as a member of a group, and what the broker keeps of the group."""

import re
import struct
import subprocess
import tempfile
from pathlib import Path

from kcat import BOOTSTRAP

from harness.protocol import Connection, array, string
from harness.waiting import wait_until

OFFSET_FETCH = 9
DEADLINE_S = 20
# Eager: `% Group g rebalanced (memberid m): assigned: t [0], t [1]`; cooperative: `% Group g rebalanced: incremental
# assignment of 2 partition(s) (memberid m, COOPERATIVE rebalance protocol): t [0], t [1]`.
REBALANCE = re.compile(r"^% Group \S+ rebalanced.*?(assign|revoke)(?:ed|d|ment)?\b.*?: ([^:]*)$", re.MULTILINE)
PARTITION = re.compile(r"\[(\d+)\]")


class Member:
    """`kcat -G`; it commits of its own accord, every so often and when it ends."""

    def __init__(self, group: str, topic: str, *settings: str):
        self.directory = tempfile.TemporaryDirectory()
        self.out, self.err = (Path(self.directory.name, name) for name in ("out", "err"))
        fixed = ["auto.offset.reset=earliest", "heartbeat.interval.ms=500", "session.timeout.ms=10000"]
        flags = [word for setting in (*fixed, *settings) for word in ("-X", setting)]
        command = ["kcat", "-b", BOOTSTRAP, "-G", group, "-u", "-f", "%p %o %k\n", *flags, topic]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def records(self) -> list[tuple[int, int, int]]:
        """Partition, offset and number (the key) of each record that was printed."""
        whole = self.out.read_text().rpartition("\n")[0]
        return [tuple(map(int, line.split())) for line in whole.splitlines()]

    def rebalances(self) -> list[tuple[str, set[int]]]:
        """`assign` or `revoke` with the partitions, in their order; those without any are left out."""
        told = REBALANCE.findall(self.err.read_text().rpartition("\n")[0])
        return [(kind, {int(number) for number in PARTITION.findall(places)}) for kind, places in told if "[" in places]

    def assigned(self) -> set[int]:
        has = set()
        for kind, partitions in self.rebalances():
            has = has | partitions if kind == "assign" else has - partitions
        return has

    def lost(self) -> set[int]:
        return set().union(*(partitions for kind, partitions in self.rebalances() if kind == "revoke"))

    def wait_until(self, condition, what: str, deadline_s: float = DEADLINE_S):
        def holds():
            if self.process.poll() is not None:
                raise AssertionError(f"kcat ended with {self.process.returncode}: {self.err.read_text()}")
            return condition()

        wait_until(holds, f"a member to have {what}", deadline_s)

    def wait_for_partitions(self, count: int):
        self.wait_until(lambda: len(self.assigned()) == count, f"{count} partitions")

    def leave(self):
        """Ends it as Ctrl-C does; what it printed stays readable."""
        if self.process.poll() is None:
            self.process.terminate()
        if self.process.wait(DEADLINE_S) != 0:
            raise AssertionError(f"kcat ended with {self.process.returncode}: {self.err.read_text()}")

    def close(self):
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.directory.cleanup()


def committed(group: str, topic: str, partitions: int) -> list[int]:
    """The committed offsets by OffsetFetch v2, which kcat has no option for; -1 where there is none."""
    indexes = array([struct.pack(">i", partition) for partition in range(partitions)])
    with Connection(BOOTSTRAP) as connection:
        response = connection.request(OFFSET_FETCH, 2, string(group) + array([string(topic) + indexes]))
    offsets, at = {}, 4 + 2 + len(topic.encode()) + 4
    for _ in range(partitions):
        partition, offset, metadata_bytes = struct.unpack_from(">iqh", response, at)
        offsets[partition] = offset
        # After the metadata, the partition's error code.
        at += struct.calcsize(">iqh") + max(metadata_bytes, 0) + 2
    return [offsets[partition] for partition in range(partitions)]
