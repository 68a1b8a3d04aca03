"""Applications that read and write exactly once, while their processes and the nodes of their cluster are killed."""

import os
import random
import tempfile
import time
import unittest
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Message
from confluent_kafka.admin import NewTopic

from harness import topics
from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics
from harness.program import Program
from harness.seed import SEED
from harness.waiting import wait_until

# How often something is killed in each case.
KILLS = int(os.environ.get("KILLS", "4"))
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240
PARTITIONS = 4
MORE = 500
# Something is killed within so long after the output has grown again.
CALM_S_MAX = 1


class Application:
    """Some processes of a program, what they are given, and what they are to make of it."""

    name: ClassVar[str]
    # The topics that it reads and the one that it writes.
    sources: ClassVar[tuple[str, ...]]
    target: ClassVar[str]

    def __init__(self, bootstrap: str, programs: Sequence[Program]):
        self.bootstrap, self.programs, self.sent = bootstrap, programs, 0
        self._read, self._starts = [], {}

    def start(self):
        for program in self.programs:
            program.start()

    def send_more(self):
        self.send(range(self.sent, self.sent + MORE))
        self.sent += MORE

    def send(self, numbers: range):
        for source in self.sources:
            topics.produce(self.bootstrap, source, [self.record(source, number) for number in numbers])

    def record(self, source: str, number: int) -> dict:
        """The arguments of `Producer.produce`."""
        raise NotImplementedError

    def output(self, records: list[Message]) -> Counter:
        """How often the records of the target have what."""
        return Counter(record.value().decode() for record in records)

    def wanted(self) -> Counter:
        """The output of all that was sent, if it is processed at once."""
        raise NotImplementedError

    def check_output(self) -> tuple[Counter, Counter]:
        """What has come out and what is to; fails if there is more than that, or if a program has ended."""
        for program in self.programs:
            program.check()
        more = topics.read_isolated(self.bootstrap, self.target, PARTITIONS, "read_committed", self._starts)
        self._read += more
        self._starts |= {record.partition(): record.offset() + 1 for record in more}
        return self._compare(self._read)

    def _compare(self, records: list[Message]) -> tuple[Counter, Counter]:
        found, wanted = self.output(records), self.wanted()
        beyond = {what: count for what, count in found.items() if count > wanted[what]}
        assert not beyond, f"SEED={SEED}: {self.name} has more often than it should: {beyond}"
        return found, wanted

    def _await_output(self, is_enough, what: str):
        try:
            wait_until(lambda: is_enough(*self.check_output()), f"{what} of {self.name}", DEADLINE_S)
        except AssertionError as late:
            found, wanted = self.check_output()
            logs = "\n".join(program.log_end() for program in self.programs)
            raise AssertionError(f"SEED={SEED}: {late}: missing {wanted - found}; they say:\n{logs}") from late

    def await_more_output(self):
        """Waits until something has come out of what was sent last."""
        before = self.check_output()[0].total()
        self._await_output(lambda found, wanted: found.total() > before or found == wanted, "more output")

    def await_all_output(self):
        self._await_output(lambda found, wanted: found == wanted, "all output")
        found, wanted = self._compare(topics.read_isolated(self.bootstrap, self.target, PARTITIONS, "read_committed"))
        assert found == wanted, f"SEED={SEED}: {self.name}: read once more it lacks {wanted - found}"
        print(f"{self.name}: {found.total()} of {self.sent} sent, as it should be, with {KILLS} kills", flush=True)


def outlive_kills(case: unittest.TestCase, cluster: Cluster, make: Callable[[Path, str], Sequence[Application]]):
    """Kills nodes and programs at moments that chance chooses; in the end the output is as if nothing had been.

    `make` makes the applications, given a directory and the brokers. Their topics have a replica on each node.
    """
    print(f"SEED={SEED}", flush=True)
    chance = random.Random(SEED)
    scratch = case.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    case.enterContext(cluster)
    # From then on no node has to live for the others.
    wait_until_all_vote(cluster)
    applications = make(Path(scratch), cluster.bootstrap)
    names = [topic for application in applications for topic in (*application.sources, application.target)]
    create_topics(cluster.bootstrap, *(NewTopic(name, PARTITIONS, len(cluster.nodes)) for name in names))
    programs = [program for application in applications for program in application.programs]
    for program in programs:
        case.addCleanup(program.kill)
    for application in applications:
        application.start()
    for kill in range(KILLS):
        for application in applications:
            application.send_more()
            application.await_more_output()
        time.sleep(chance.random() * CALM_S_MAX)
        # What is on disks stays; each second time it is a node.
        killed = chance.choice(cluster.nodes if kill % 2 == 0 else programs)
        killed.kill()
        killed.start()
    for application in applications:
        application.send_more()
        application.await_all_output()
