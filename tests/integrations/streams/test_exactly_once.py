"""A word count and a windowed join, exactly once, beside each other on one node or three: nodes and instances are killed meanwhile,
and in the end the output is what the whole input gives at once.

    KILLS   how often something is killed in each case (4)
    SEED    repeats what chance chose
"""

import os
import unittest
from collections import Counter
from pathlib import Path

from harness.apache_kafka import SMALL_JVM
from harness.broker import WORK
from harness.cluster import Cluster
from harness.exactly_once import PARTITIONS, Application, outlive_kills
from harness.program import Program

CLASS_PATH = f"{WORK}/streams/classes:{WORK}/streams/libs/*"
INSTANCES = 2
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}


class Streams(Application):
    """Instances of a program of Kafka Streams."""

    program: str

    def __init__(self, scratch: Path, bootstrap: str, protocol: str):
        directories = [scratch / f"{self.name}-{number}" for number in range(INSTANCES)]
        super().__init__(bootstrap, [self.instance(directory, bootstrap, protocol) for directory in directories])

    def instance(self, directory: Path, bootstrap: str, protocol: str) -> Program:
        directory.mkdir()
        settings = [bootstrap, self.name, str(directory / "state"), protocol, "exactly_once_v2"]
        command = ["java", *SMALL_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", CLASS_PATH]
        command.append(f"io.logway.streams.{self.program}")
        return Program([*command, *settings, *self.sources, self.target], directory / "log")


class WordCount(Streams):
    """Its output is the latest count of each word."""

    name, program, sources, target = "exact-count", "WordCount", ("lines",), "counts"

    @staticmethod
    def line(number: int) -> str:
        """Line 10 is "word-1 word-3 all", and so on."""
        return f"word-{number % 3} word-{number % 7} all"

    def record(self, source: str, number: int) -> dict:
        return {"value": self.line(number), "partition": number % PARTITIONS}

    def output(self, records: list) -> Counter:
        return Counter({record.key().decode(): int(record.value()) for record in records})

    def wanted(self) -> Counter:
        return Counter(word for number in range(self.sent) for word in self.line(number).split(" "))


class WindowedJoin(Streams):
    """Its output is each pair once. Of each side one record a second has one of five keys: so a record has the same key as those
    five seconds before and after it."""

    name, program, sources, target = "exact-join", "WindowedJoin", ("lefts", "rights"), "pairs"
    KEYS = 5
    WINDOW_MS = 6_000

    def time_ms(self, source: str, number: int) -> int:
        return 1_790_000_000_000 + 1_000 * number + (500 if source == "rights" else 0)

    def record(self, source: str, number: int) -> dict:
        key = number % self.KEYS
        time_ms = self.time_ms(source, number)
        return {"key": str(key), "value": str(number), "partition": key % PARTITIONS, "timestamp": time_ms}

    def wanted(self) -> Counter:
        near = self.WINDOW_MS // 1_000 + 1
        pairs = ((left, right) for left in range(self.sent) for right in range(max(0, left - near), min(self.sent, left + near + 1)))
        return Counter(f"{left} {right}" for left, right in pairs if self.is_pair(left, right))

    def is_pair(self, left: int, right: int) -> bool:
        apart_ms = abs(self.time_ms("lefts", left) - self.time_ms("rights", right))
        return left % self.KEYS == right % self.KEYS and apart_ms <= self.WINDOW_MS


@unittest.skipUnless(os.environ.get("AGAINST", "logway") == "logway", "a cluster of ours")
class ExactlyOnce(unittest.TestCase):
    def run_on(self, nodes: int, protocol: str):
        replicas = {"default.replication.factor": str(nodes), "min.insync.replicas": str((nodes + 1) // 2)}
        cluster = Cluster(f"streams-{protocol}-{nodes}", nodes, {**SETTINGS, **replicas})
        kinds = (WordCount, WindowedJoin)
        outlive_kills(self, cluster, lambda scratch, bootstrap: [kind(scratch, bootstrap, protocol) for kind in kinds])

    def test_classic_on_one_node(self):
        self.run_on(1, "classic")

    def test_classic_on_three_nodes(self):
        self.run_on(3, "classic")

    def test_streams_on_one_node(self):
        self.run_on(1, "streams")

    def test_streams_on_three_nodes(self):
        self.run_on(3, "streams")
