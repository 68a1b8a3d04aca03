"""Reads from followers, each node a process: which one serves, and what a reader hears of one that is too stale."""

import re
import unittest

import grpc
from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S, Appender, connect, leader_in_sync, read
from logway.log.v1 import log_pb2, log_pb2_grpc

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics
from harness.waiting import wait_until

LOG = "near"
COUNT = 500
STALENESS_MAX_MS = 2_000
# Longer than any case takes.
BEARS_ALL_MS = 600_000


def bytes_out(node) -> int:
    found = re.search(rf'^logway_topic_bytes_out_total{{topic="{LOG}"}} (\d+)$', node.metrics(), re.MULTILINE)
    return int(found[1]) if found else 0


def request(count: int, **how) -> log_pb2.ReadRequest:
    how = {"source": log_pb2.FOLLOWER, "staleness_max_ms": BEARS_ALL_MS, "offset": 0, **how}
    return log_pb2.ReadRequest(log=LOG, records_max=count, **how)


class Followers(unittest.TestCase):
    def setUp(self):
        # A leader that hangs is not replaced while a case looks.
        settings = {"logservice.listen": "127.0.0.1:0", "broker.session.timeout.ms": "60000"}
        self.cluster = self.enterContext(Cluster("logservice-followers", settings=settings, racks=True))
        self.nodes = self.cluster.nodes
        wait_until_all_vote(self.cluster)
        create_topics(self.nodes[0].bootstrap, NewTopic(LOG, 1, 3, config={"min.insync.replicas": "2"}))
        self.leader = leader_in_sync(self.nodes, LOG)
        self.followers = [number for number in (1, 2, 3) if number != self.leader]
        appender = Appender(lambda: self.cluster.node(self.followers[0]).log_service, LOG)
        for number in range(COUNT):
            appender.append([str(number).encode()])
        appender.finish()

    def read(self, number: int, asked: log_pb2.ReadRequest) -> list[int]:
        """The offsets that a node serves, for a reader that ends."""
        with connect(self.cluster.node(number).log_service) as channel:
            call = log_pb2_grpc.LogServiceStub(channel).Read(asked, timeout=DEADLINE_S)
            return [record.offset for reply in call for record in reply.records]

    def served_by(self, number: int, asked: log_pb2.ReadRequest) -> list[int]:
        before = [bytes_out(node) for node in self.nodes]
        self.assertEqual(self.read(number, asked), list(range(COUNT)))
        grown = [bytes_out(node) > was for node, was in zip(self.nodes, before, strict=True)]
        return [number for number, it in enumerate(grown, 1) if it]

    def test_a_follower_serves_and_the_leader_is_left_alone(self):
        for number in self.followers:
            self.assertEqual(self.served_by(number, request(COUNT)), [number], "its own replica")
        served = self.served_by(self.leader, request(COUNT))
        self.assertEqual(len(served), 1)
        self.assertIn(served[0], self.followers)
        for number in (1, 2, 3):
            nearest = request(COUNT, source=log_pb2.NEAREST, rack=f"rack-{number}")
            self.assertEqual(self.served_by(self.followers[0], nearest), [number])

    def test_what_followers_have_is_read_while_the_leader_is_dead(self):
        self.cluster.node(self.leader).kill()
        for number in self.followers:
            node = self.cluster.node(number)
            # It goes on over the election.
            records = read(lambda node=node: node.log_service, LOG, count=COUNT, source=log_pb2.FOLLOWER,
                           staleness_max_ms=BEARS_ALL_MS)
            self.assertEqual([record.offset for record in records], list(range(COUNT)))

    def test_a_reader_that_waits_at_a_follower_hears_that_it_is_too_stale(self):
        with connect(self.cluster.node(self.followers[0]).log_service) as channel:
            service = log_pb2_grpc.LogServiceStub(channel)
            # Followers know that they have all when they have been told, about twice a second.
            def begun():
                call = service.Read(request(0, staleness_max_ms=STALENESS_MAX_MS), timeout=DEADLINE_S)
                try:
                    return call if next(call).next_offset == COUNT else None
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                    return None
            waiting = []
            wait_until(lambda: waiting.append(begun()) or waiting[-1], "a follower that serves", DEADLINE_S)
            self.cluster.node(self.leader).pause()
            try:
                with self.assertRaises(grpc.RpcError) as caught:
                    for reply in waiting[-1]:
                        self.assertEqual(len(reply.records), 0)
            finally:
                self.cluster.node(self.leader).resume()
            details = dict(caught.exception.trailing_metadata())["grpc-status-details-bin"]
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE, caught.exception)
            for word in (b"TOO_STALE", LOG.encode(), b"remedy", b"staleness_max_ms"):
                self.assertIn(word, details)
            self.assertIn(f"{STALENESS_MAX_MS} ms are allowed", caught.exception.details())
