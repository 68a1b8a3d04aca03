"""Exactly once: each record is copied once, whatever is killed meanwhile, and no reader sees what was aborted."""

import collections
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from harness.brokers import KINDS
from harness.cluster import Cluster
from harness.load import QUIET, create_topics
from harness.logway import logway
from harness.seed import SEED
from harness.topics import read_isolated

KIND = KINDS[os.environ["AGAINST"]]
HERE = Path(__file__).parent
KILLS = int(os.environ.get("KILLS", "2"))
RECORDS = 400 * (KILLS + 1)
PARTITIONS = 2
DEADLINE_S = 60 + 20 * KILLS

JAVA = ["java", "-Xmx128m", "-cp", os.environ["LIBS"] + "/*", str(HERE / "Copier.java")]
LIBRDKAFKA = [sys.executable, str(HERE / "copier.py")]
FRANZ_GO, SARAMA = ([os.environ["GO_COPIER"], library] for library in ("franz-go", "sarama"))
TRANSACTIONAL_ID = "copier"


class Copying:
    """A copier, and what it says."""

    def __init__(self, command: list[str], bootstrap: str, seed: int):
        arguments = [bootstrap, TRANSACTIONAL_ID, "copiers", "source", "target", str(RECORDS), str(seed)]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.lines: list[str] = []
        self.has_news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.has_news:
                self.lines.append(line.strip())
                self.has_news.notify_all()

    def count(self, word: str) -> int:
        return sum(line.startswith(word) for line in self.lines)

    def wait_for(self, word: str, count: int):
        with self.has_news:
            if not self.has_news.wait_for(lambda: self.count(word) >= count or self.count("done"), DEADLINE_S):
                raise AssertionError(f"SEED={SEED}: not {count} times '{word}'; last: {self.lines[-5:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def fill(bootstrap: str):
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for number in range(RECORDS):
        producer.produce("source", key=str(number), value=str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def read_values(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[str]:
    return [record.value().decode() for record in read_isolated(bootstrap, topic, partitions, isolation)]


def read_target(bootstrap: str, isolation: str) -> list[int]:
    return [int(value) for value in read_values(bootstrap, "target", PARTITIONS, isolation)]


class Copies(unittest.TestCase):
    def copy(self, command: list[str], bootstrap: str, replicas: int, kill):
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        config = {"min.insync.replicas": "2"} if replicas > 1 else {}
        for topic in ("source", "target"):
            create_topics(bootstrap, NewTopic(topic, PARTITIONS, replicas, config=config))
        fill(bootstrap)
        with Copying(command, bootstrap, SEED) as copying:
            for _ in range(KILLS):
                copying.wait_for("committed", copying.count("committed") + chance.randrange(1, 5))
                time.sleep(chance.random() / 10)
                kill(chance)
            copying.wait_for("done", 1)
            print(f"{copying.count('committed')} commits, {copying.count('aborted')} aborts, {copying.count('anew')} begun anew")
        committed = read_target(bootstrap, "read_committed")
        counts = collections.Counter(committed)
        doubled = sorted(value for value, count in counts.items() if count > 1)
        lost = sorted(set(range(RECORDS)) - set(counts))
        self.assertEqual((doubled, lost), ([], []), f"SEED={SEED}")
        self.assertGreater(len(read_target(bootstrap, "read_uncommitted")), RECORDS, "something was aborted")

    def copy_on_one_broker(self, command: list[str]):
        settings = {"group.initial.rebalance.delay.ms": "0"}
        with KIND("transactions", settings) as broker:

            def kill(_chance):
                broker.kill()
                broker.start()

            self.copy(command, broker.bootstrap, 1, kill)

    def test_java_copies_while_its_broker_is_killed(self):
        self.copy_on_one_broker(JAVA)

    def test_librdkafka_copies_while_its_broker_is_killed(self):
        self.copy_on_one_broker(LIBRDKAFKA)

    def test_franz_go_copies_while_its_broker_is_killed(self):
        self.copy_on_one_broker(FRANZ_GO)

    def test_sarama_copies_while_its_broker_is_killed(self):
        self.copy_on_one_broker(SARAMA)

    def copy_on_a_cluster(self, command: list[str]):
        """Each second time the node is killed that coordinates the transaction, else any."""
        if os.environ["AGAINST"] != "logway":
            self.skipTest("a cluster of ours")
        settings = {"group.initial.rebalance.delay.ms": "0", "default.replication.factor": "3"}
        with Cluster("transactions", settings=settings) as cluster:
            of_coordinator = itertools.cycle([True, False])

            def kill(chance):
                number = coordinator(cluster.bootstrap) if next(of_coordinator) else chance.randrange(3) + 1
                node = cluster.node(number)
                node.kill()
                node.start()

            self.copy(command, cluster.bootstrap, 3, kill)

    def test_java_copies_while_nodes_of_a_cluster_are_killed(self):
        self.copy_on_a_cluster(JAVA)

    def test_librdkafka_copies_while_nodes_of_a_cluster_are_killed(self):
        self.copy_on_a_cluster(LIBRDKAFKA)

    def test_franz_go_copies_while_nodes_of_a_cluster_are_killed(self):
        self.copy_on_a_cluster(FRANZ_GO)

    def test_sarama_copies_while_nodes_of_a_cluster_are_killed(self):
        self.copy_on_a_cluster(SARAMA)


def coordinator(bootstrap: str) -> int:
    """The node that coordinates the copier's transactions."""
    done = logway("txn", "describe", TRANSACTIONAL_ID, "-b", bootstrap, "--format", "json")
    assert done.returncode == 0, done.stderr
    (described,) = json.loads(done.stdout)
    return described["coordinator"]


if __name__ == "__main__":
    unittest.main()
