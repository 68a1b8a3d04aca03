"""Kafka's own `TransactionalMessageCopier`, several at a time: each copies a partition while nodes and copiers are killed, and each
record is copied once."""

import collections
import os
import random
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic

from harness.apache_kafka import SMALL_JVM, java
from harness.broker import fresh_directory
from harness.cluster import Cluster
from harness.load import create_topics
from harness.program import Program
from harness.seed import SEED
from harness.topics import produce, read_isolated
from harness.waiting import wait_until

KILLS = int(os.environ.get("KILLS", "2"))
COPIERS = 4
RECORDS = COPIERS * 400 * (KILLS + 1)
# Small ones, so that they are at it for a while.
TRANSACTION_RECORDS = 10
DEADLINE_S = 120 + 20 * KILLS
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "default.replication.factor": "3", "min.insync.replicas": "2"}


class Copier(Program):
    """It ends when its partition is copied to the end."""

    def __init__(self, directory: Path, bootstrap: str, number: int):
        arguments = [
            "--broker-list", bootstrap, "--input-topic", "source", "--input-partition", str(number), "--output-topic", "target",
            "--consumer-group", "copiers", "--transactional-id", f"copier-{number}", "--transaction-size", str(TRANSACTION_RECORDS),
            "--transaction-timeout", "20000", "--enable-random-aborts", "--use-group-metadata",
        ]  # fmt: skip
        program = "org.apache.kafka.tools.TransactionalMessageCopier"
        super().__init__(java(os.environ["LIBS"], program, arguments, *SMALL_JVM), directory / f"copier-{number}.log")

    def is_done(self) -> bool:
        code = self.process.poll()
        assert code in (None, 0), f"a copier has ended with {code}:\n{self.log_end()}"
        return code == 0


class MessageCopiers(unittest.TestCase):
    def test_concurrent_copiers_copy_each_record_once(self):
        if os.environ["AGAINST"] != "logway":
            self.skipTest("a cluster of ours")
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        with Cluster("message-copiers", settings=SETTINGS) as cluster:
            create_topics(cluster.bootstrap, *(NewTopic(topic, COPIERS, 3) for topic in ("source", "target")))
            values = [str(number) for number in range(RECORDS)]
            produce(cluster.bootstrap, "source", [{"value": value, "partition": at % COPIERS} for at, value in enumerate(values)])
            directory = fresh_directory("message-copiers-programs")
            copiers = [Copier(directory, cluster.bootstrap, number) for number in range(COPIERS)]
            for copier in copiers:
                self.addCleanup(copier.kill)
                copier.start()
            copied = lambda: [record.value().decode() for record in read_isolated(cluster.bootstrap, "target", COPIERS, "read_committed")]
            for kill in range(KILLS):
                enough = RECORDS * (kill + chance.random()) / (KILLS + 1)
                wait_until(lambda enough=enough: len(copied()) >= enough, f"{enough:.0f} copies", DEADLINE_S)
                working = [copier for copier in copiers if not copier.is_done()]
                # Each second time it is a node.
                victim = chance.choice(cluster.nodes if kill % 2 == 0 or not working else working)
                victim.kill()
                victim.start()
            wait_until(lambda: all(copier.is_done() for copier in copiers), "all to be copied", DEADLINE_S)
            counts = collections.Counter(copied())
            self.assertEqual({value: count for value, count in counts.items() if count > 1}, {}, f"SEED={SEED}: doubled")
            self.assertEqual(set(values) - set(counts), set(), f"SEED={SEED}: lost")
            print(f"{RECORDS} records copied once by {COPIERS} copiers with {KILLS} kills")
