"""A word count, exactly once, on three nodes: nodes and instances are killed meanwhile, and no word is counted twice or not at all.

    KILLS   how often something is killed (4)
    SEED    repeats what chance chose
"""

import os
import random
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import NewTopic

from harness import topics
from harness.apache_kafka import SMALL_JVM
from harness.broker import WORK
from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics
from harness.program import Program
from harness.seed import SEED
from harness.waiting import wait_until

KILLS = int(os.environ.get("KILLS", "4"))
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240
CLASS_PATH = f"{WORK}/streams/classes:{WORK}/streams/libs/*"
PARTITIONS = 4
LINES_BETWEEN = 500
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}


def lines(start: int) -> list[str]:
    """Line 10 is "word-1 word-3 all", and so on."""
    return [f"word-{number % 3} word-{number % 7} all" for number in range(start, start + LINES_BETWEEN)]


@unittest.skipUnless(os.environ.get("AGAINST", "logway") == "logway", "a cluster of ours")
class ExactlyOnce(unittest.TestCase):
    def count_on_three_nodes(self, protocol: str):
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
            Cluster(f"streams-{protocol}", settings=SETTINGS) as cluster,
        ):
            wait_until_all_vote(cluster)
            create_topics(cluster.bootstrap, *(NewTopic(topic, PARTITIONS, 3) for topic in ("lines", "counts")))
            programs = [instance(Path(scratch) / str(number), cluster.bootstrap, protocol) for number in range(2)]
            for program in programs:
                self.addCleanup(program.kill)
                program.start()
            sent = self.send(cluster.bootstrap, 0)
            self.await_counts(cluster.bootstrap, sent, programs)
            for kill in range(KILLS):
                sent += self.send(cluster.bootstrap, len(sent))
                # Of an instance the state directory stays, of a node the data; each second time it is a node.
                killed = chance.choice(cluster.nodes if kill % 2 == 0 else programs)
                killed.kill()
                killed.start()
            sent += self.send(cluster.bootstrap, len(sent))
            self.await_counts(cluster.bootstrap, sent, programs)

    def send(self, bootstrap: str, start: int) -> list[str]:
        sent = lines(start)
        topics.produce(bootstrap, "lines", [{"value": line, "partition": at % PARTITIONS} for at, line in enumerate(sent)])
        return sent

    def await_counts(self, bootstrap: str, sent: list[str], programs: list[Program]):
        wanted = Counter(word for line in sent for word in line.split(" "))

        def is_counted() -> bool:
            for program in programs:
                program.check()
            found = counted(bootstrap)
            beyond = {word: count for word, count in found.items() if count > wanted[word]}
            self.assertEqual(beyond, {}, f"SEED={SEED}: counted more often than they are there: {wanted}")
            return found == wanted

        try:
            wait_until(is_counted, "the counts", DEADLINE_S)
        except AssertionError as late:
            logs = "\n".join(program.log_end() for program in programs)
            raise AssertionError(f"SEED={SEED}: {late}: {counted(bootstrap)} is not {wanted}; they say:\n{logs}") from late

    def test_by_the_classic_protocol(self):
        self.count_on_three_nodes("classic")

    def test_by_the_streams_protocol(self):
        self.count_on_three_nodes("streams")


def instance(directory: Path, bootstrap: str, protocol: str) -> Program:
    directory.mkdir()
    arguments = [bootstrap, "exact-count", str(directory / "state"), "lines", "counts", protocol, "exactly_once_v2"]
    command = ["java", *SMALL_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", CLASS_PATH]
    return Program([*command, "io.logway.streams.WordCount", *arguments], directory / "log")


def counted(bootstrap: str) -> dict[str, int]:
    """The latest committed count of each word."""
    found = topics.read_isolated(bootstrap, "counts", PARTITIONS, "read_committed")
    return {record.key().decode(): int(record.value()) for record in found}
