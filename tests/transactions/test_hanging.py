"""Transactions that no coordinator knows any more are found and aborted (KIP-664), and others are left alone.

They are made by deleting the topic in which coordinators keep transactional ids while a transaction is open.
"""

import json
import unittest

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster
from harness.load import QUIET, create_topics
from harness.logway import Logway, logway
from harness.protocol import METADATA, Connection, leaders_v1, metadata_v1
from harness.waiting import wait_until
from test_copies import KIND, read_values

TOPIC, PARTITIONS = "orders", 3
STATE_TOPIC = "__transaction_state"
ANY_AGE = ("--older-than", "1ms")


class Tool:
    """`logway txn`, asked about one cluster."""

    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap

    def run(self, *arguments: str):
        return logway(*arguments, "-b", self.bootstrap)

    def data(self, *arguments: str):
        done = self.run(*arguments, "--format", "json")
        if done.returncode != 0:
            raise AssertionError(f"logway {' '.join(arguments)}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def hanging(self, *more: str) -> list[dict]:
        return self.data("txn", "find-hanging", *more)

    def abort(self, row: dict, *more: str):
        place = ("-p", str(row["partition"]), "-o", str(row["start_offset"]))
        return self.run("txn", "abort", row["topic"], *place, *more)


def write(producer: Producer, value: str):
    for number in range(PARTITIONS):
        producer.produce(TOPIC, value, partition=number)
    assert producer.flush(30) == 0


@unittest.skipUnless(KIND is Logway, "Logway's own command line is tried against Logway")
class Hanging(unittest.TestCase):
    def find_and_abort(self, bootstrap: str, replicas: int):
        tool = Tool(bootstrap)
        create_topics(bootstrap, NewTopic(TOPIC, PARTITIONS, replicas))
        write(Producer({"bootstrap.servers": bootstrap, **QUIET}), "before")
        writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "lost", **QUIET})
        writer.init_transactions(30)
        writer.begin_transaction()
        write(writer, "open")
        write(Producer({"bootstrap.servers": bootstrap, **QUIET}), "after")

        # The coordinator knows it: it does not hang, however old it is.
        self.assertEqual(tool.hanging(*ANY_AGE), [])
        refused = tool.abort({"topic": TOPIC, "partition": 0, "start_offset": 1})
        self.assertEqual((refused.returncode, b"does not hang" in refused.stderr), (1, True), refused.stderr)
        self.assertEqual(read_values(bootstrap, TOPIC, PARTITIONS, "read_committed"), ["before"] * PARTITIONS)

        self.assertEqual(tool.run("topic", "delete", STATE_TOPIC).returncode, 0)
        wait_until(lambda: len(tool.hanging(*ANY_AGE)) == PARTITIONS, "hanging transactions", 30)
        rows = sorted(tool.hanging(*ANY_AGE), key=lambda row: row["partition"])
        places = [(row["topic"], row["partition"], row["start_offset"]) for row in rows]
        self.assertEqual(places, [(TOPIC, number, 1) for number in range(PARTITIONS)])
        self.assertEqual({row["coordinator_epoch"] for row in rows}, {None})
        # Young ones are left out unless asked for, and so are other partitions.
        self.assertEqual(tool.hanging(), [])
        one = tool.hanging(*ANY_AGE, "--topic", TOPIC, "--partition", "1")
        self.assertEqual([row["partition"] for row in one], [1])
        text = tool.run("txn", "find-hanging", *ANY_AGE).stdout.decode()
        self.assertEqual([line.split()[:3] for line in text.splitlines()[1:]], [[TOPIC, str(n), "1"] for n in range(3)])

        elsewhere = tool.abort({**rows[0], "start_offset": 0})
        self.assertEqual((elsewhere.returncode, b"no transaction is open" in elsewhere.stderr), (1, True))
        for row in rows:
            done = tool.abort(row, "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout), {"status": "aborted", **row})
        self.assertEqual(tool.hanging(*ANY_AGE), [])
        self.assertEqual(tool.abort(rows[0]).returncode, 1)
        committed = read_values(bootstrap, TOPIC, PARTITIONS, "read_committed")
        self.assertEqual(sorted(committed), sorted(["before", "after"] * PARTITIONS))

    def test_on_one_broker(self):
        with KIND("hanging") as broker:
            self.find_and_abort(broker.bootstrap, 1)

    def test_over_a_cluster_whose_leaders_differ(self):
        with Cluster("hanging") as cluster:
            self.find_and_abort(cluster.bootstrap, 3)
            with Connection(cluster.node(1).bootstrap) as connection:
                leaders = leaders_v1(connection.request(METADATA, 1, metadata_v1([TOPIC])))[TOPIC]
            self.assertGreater(len(set(leaders)), 1, leaders)
