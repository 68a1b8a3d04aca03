"""Appends and reads that are broken off in the middle, and a broker that is killed: nothing lost, doubled or out of order."""

import itertools
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import grpc
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S, RECORDS, Appender, connect, leader_in_sync, read
from logway.log.v1 import log_pb2, log_pb2_grpc

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics
from harness.logway import Logway
from harness.waiting import wait_until

PER_APPEND = 20
SETTINGS = {"logservice.listen": "127.0.0.1:0"}


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(start, start + count)]


class Appends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("logservice", SETTINGS).start()
        cls.addClassCleanup(cls.broker.kill)

    def address(self) -> str:
        return self.broker.log_service

    def create(self, name: str, partitions: int = 1, config: dict | None = None):
        create_topics(self.broker.bootstrap, NewTopic(name, partitions, 1, config=config or {}))

    def values(self, log: str, partition: int = 0, **how) -> list[bytes]:
        return [record.value for record in read(self.address, log, partition, **how)]

    def test_kafka_clients_see_the_same_records(self):
        self.create("both")
        appender = Appender(self.address, "both")
        appender.append([b"a", b"b"], key=b"k")
        appender.finish()
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("both", 0, 0)])
        seen = [consumer.poll(DEADLINE_S) for _ in range(2)]
        consumer.close()
        self.assertEqual([(it.key(), it.value(), it.offset()) for it in seen], [(b"k", b"a", 0), (b"k", b"b", 1)])

    def test_reconnects_in_the_middle(self):
        self.create("broken")
        appender = Appender(self.address, "broken")
        breaks = 0
        for start in range(0, RECORDS, PER_APPEND):
            appender.append(numbers(PER_APPEND, start))
            if start % (RECORDS // 10) == RECORDS // 20:
                # In the middle: others are on their way.
                appender.wait_for_acks(10)
                appender.break_off()
                breaks += 1
        appender.finish()
        self.assertGreater(appender.streams, breaks, "it was broken off")
        self.assertEqual(len(appender.acked), RECORDS // PER_APPEND)
        self.assertEqual(self.values("broken", count=RECORDS, break_every=RECORDS // 7), numbers(RECORDS))
        self.assertEqual(len(self.values("broken")), RECORDS, "and no more")

    def test_many_partitions(self):
        self.create("many", 8)
        appender = Appender(self.address, "many")
        for number in range(800):
            appender.append([str(number).encode()], partition=number % 8)
            if number % 200 == 100:
                appender.break_off()
        appender.finish()
        for partition in range(8):
            self.assertEqual(self.values("many", partition), [str(it).encode() for it in range(partition, 800, 8)])

    def test_tail(self):
        self.create("tailed")
        tail = Path(__file__).with_name("tail.py")
        with subprocess.Popen([sys.executable, tail, self.address(), "tailed"], stdout=subprocess.PIPE, text=True) as tailing:
            self.addCleanup(tailing.kill)
            self.wait_for_readers(1)
            appender = Appender(self.address, "tailed")
            appender.append([b"one", b"two"])
            appender.finish()
            self.assertEqual([tailing.stdout.readline() for _ in range(2)], ["0 one\n", "1 two\n"])
            tailing.kill()

    def wait_for_readers(self, count: int):
        open_streams = f"logway_log_service_read_streams_open {count}\n"
        wait_until(lambda: open_streams in self.broker.metrics(), open_streams, DEADLINE_S)

    def test_a_message_beyond_the_bound(self):
        self.create("bounded")
        with connect(self.address()) as channel:
            service = log_pb2_grpc.LogServiceStub(channel)
            records = [log_pb2.NewRecord(value=b"x" * (17 << 20))]
            requests = [log_pb2.AppendRequest(open=log_pb2.OpenAppend()),
                        log_pb2.AppendRequest(append=log_pb2.Append(sequence=1, log="bounded", records=records))]
            with self.assertRaises(grpc.RpcError) as caught:
                list(service.Append(iter(requests)))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            # The connection goes on.
            self.assertEqual(len(service.Info(log_pb2.InfoRequest(log="bounded")).partitions), 1)

    def test_a_deadline(self):
        self.create("idle")
        with connect(self.address()) as channel:
            service = log_pb2_grpc.LogServiceStub(channel)
            began = time.monotonic()
            with self.assertRaises(grpc.RpcError) as caught:
                list(service.Read(log_pb2.ReadRequest(log="idle"), timeout=0.5))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
            self.assertLess(time.monotonic() - began, 10)


class Killed(unittest.TestCase):
    def append_while(self, appender: Appender, happens) -> int:
        """Appends until it has happened and some more was acknowledged; says how many records."""
        done, failed = threading.Event(), []

        def run():
            try:
                happens()
            except BaseException as error:
                failed.append(error)
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        count = 0
        while not done.is_set() or count < RECORDS:
            appender.append(numbers(PER_APPEND, count), partition=0)
            count += PER_APPEND
        appender.finish()
        thread.join()
        self.assertEqual(failed, [])
        return count

    def test_a_broker_that_is_killed(self):
        broker = Logway("logservice-killed", SETTINGS).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic("kept", 1, 1))
        appender = Appender(lambda: broker.log_service, "kept")
        read_values = []

        def follow():
            for record in read(lambda: broker.log_service, "kept", count=RECORDS):
                read_values.append(record.value)

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()

        def kill():
            for _ in range(3):
                appender.wait_for_acks(50)
                broker.kill()
                broker.start()

        count = self.append_while(appender, kill)
        self.assertGreaterEqual(appender.streams, 3)
        values = [record.value for record in read(lambda: broker.log_service, "kept")]
        self.assertEqual(values, numbers(count))
        reader.join(DEADLINE_S)
        self.assertEqual(read_values, numbers(RECORDS), "a reader over all of the kills")

    def test_the_leader_of_three_is_killed(self):
        """The client knows two nodes that lead nothing, and goes on with its session at one or the other."""
        with Cluster("logservice-cluster", settings=SETTINGS) as cluster:
            nodes = cluster.nodes
            wait_until_all_vote(cluster)
            create_topics(nodes[0].bootstrap, NewTopic("kept", 1, 3, config={"min.insync.replicas": "2"}))

            first = leader_in_sync(nodes, "kept")
            others = [node for number, node in enumerate(nodes, 1) if number != first]
            killed = nodes[first - 1]
            turns = itertools.cycle(others)
            appender = Appender(lambda: next(turns).log_service, "kept")

            def kill():
                appender.wait_for_acks(50)
                appender.break_off()
                appender.wait_for_acks(50)
                killed.kill()
                appender.break_off()
                appender.wait_for_acks(50)
                appender.break_off()
                appender.wait_for_acks(50)

            count = self.append_while(appender, kill)
            self.assertGreater(appender.streams, 3, "at each of the nodes")
            self.assertEqual(len(appender.acked), count // PER_APPEND)
            values = [record.value for record in read(lambda: others[1].log_service, "kept")]
            self.assertEqual(values, numbers(count))
