"""Akutan's logspec on a cluster, asked at a node that does not lead: a leader that is dead, and one whose disk is full."""

import unittest

import grpc
from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S, connect, leader_in_sync
from logspec import log_pb2 as spec_pb2
from logspec import log_pb2_grpc as spec_pb2_grpc
from logway.log.v1 import log_pb2, log_pb2_grpc

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics
from harness.volume import MEBIBYTE, Volume
from harness.waiting import wait_until

SETTINGS = {"logservice.listen": "127.0.0.1:0", "logservice.logspec.listen": "127.0.0.1:0=spec"}
DISK_BYTES = 96 * MEBIBYTE


def request(sequence: int, *proposals: bytes) -> spec_pb2.AppendRequest:
    return spec_pb2.AppendRequest(sequence=sequence, proposals=proposals)


class LogspecOfFollowers(unittest.TestCase):
    def start(self, name: str, replicas: int, data_dirs=None) -> Cluster:
        cluster = self.enterContext(Cluster(name, settings=SETTINGS, data_dirs=data_dirs))
        wait_until_all_vote(cluster)
        create_topics(cluster.nodes[0].bootstrap, NewTopic("spec", 1, replicas))
        return cluster

    def service_at(self, node) -> spec_pb2_grpc.LogStub:
        return spec_pb2_grpc.LogStub(self.enterContext(connect(node.logspec)))

    def append(self, service, *proposals: bytes) -> spec_pb2.AppendReply:
        """The one reply to the one request of a stream, which ends well whatever the reply is."""
        replies = list(service.Append(iter([request(1, *proposals)]), timeout=DEADLINE_S))
        self.assertEqual(len(replies), 1)
        return replies[0]

    def until_ok(self, service, *proposals: bytes) -> list[int]:
        """Appends until that succeeds, as a client does."""
        replies = []

        def is_ok() -> bool:
            try:
                replies.append(self.append(service, *proposals))
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error)
                return False
            return replies[-1].HasField("ok")

        wait_until(is_ok, "an append that succeeds", DEADLINE_S)
        return list(replies[-1].ok.indexes)

    def until_redirected(self, service, watching):
        """Watches until nobody leads. Before the cluster knows that, the leader cannot be reached, which ends a watch."""
        watches = [watching]

        def is_redirected() -> bool:
            try:
                self.assertEqual([reply.WhichOneof("Reply") for reply in watches.pop()], ["redirect"])
                return True
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error)
                watches.append(service.InfoStream(spec_pb2.InfoRequest(), timeout=DEADLINE_S))
                return False

        wait_until(is_redirected, "a redirect", DEADLINE_S)

    def test_redirect_where_nobody_leads(self):
        cluster = self.start("logservice-redirect", 1)
        with connect(cluster.nodes[0].log_service) as channel:
            info = log_pb2_grpc.LogServiceStub(channel).Info
            placed = lambda: info(log_pb2.InfoRequest(log="spec")).partitions[0]
            wait_until(lambda: placed().HasField("leader"), "a leader", DEADLINE_S)
            leader = placed().leader
        asked = next(node for number, node in enumerate(cluster.nodes, 1) if number != leader)
        service = self.service_at(asked)
        self.assertEqual(self.until_ok(service, b"a", b"b"), [1, 2])
        watching = service.InfoStream(spec_pb2.InfoRequest(), timeout=DEADLINE_S)
        self.assertEqual(next(watching).ok.lastIndex, 2)

        # Its one replica is gone with it, and two of three nodes agree that nobody leads.
        cluster.node(leader).kill()
        self.until_redirected(service, watching)
        replies = {
            "Info": service.Info(spec_pb2.InfoRequest(), timeout=DEADLINE_S),
            "Discard": service.Discard(spec_pb2.DiscardRequest(firstIndex=2), timeout=DEADLINE_S),
            "Append": self.append(service, b"c"),
            "an empty Append": self.append(service),
        }
        for name, reply in replies.items():
            self.assertEqual((reply.WhichOneof("Reply"), reply.redirect.host), ("redirect", ""), name)
        for reply in (service.Read(spec_pb2.ReadRequest(nextIndex=it), timeout=DEADLINE_S) for it in (1, 3)):
            self.assertEqual([it.WhichOneof("Reply") for it in reply], ["redirect"])

        cluster.node(leader).start()
        self.assertEqual(self.until_ok(service, b"d"), [3])
        info = service.Info(spec_pb2.InfoRequest(), timeout=DEADLINE_S)
        self.assertEqual((info.ok.firstIndex, info.ok.lastIndex), (1, 3), "nothing was discarded, nor appended")

    def test_full_where_the_leader_has_no_room(self):
        disks = [Volume(self, f"logservice-full-disk-{number}", DISK_BYTES) for number in (1, 2, 3)]
        cluster = self.start("logservice-full", 3, [disk.path / "data" for disk in disks])
        leader = leader_in_sync(cluster.nodes, "spec")
        disk = disks[leader - 1]
        asked = next(node for number, node in enumerate(cluster.nodes, 1) if number != leader)
        service = self.service_at(asked)
        self.assertEqual(self.until_ok(service, b"a"), [1])
        disk.fill()
        # The broker believes for a moment what it has measured.
        replies = []
        wait_until(lambda: replies.append(self.append(service, b"b")) or replies[-1].full, "a full disk", DEADLINE_S)
        appended = [index for reply in replies[:-1] for index in reply.ok.indexes]
        self.assertEqual(appended, list(range(2, len(replies) + 1)))
        # Of a stream with several requests it is the last reply.
        replies = list(service.Append((request(it, b"c") for it in range(1, 4)), timeout=DEADLINE_S))
        self.assertEqual([it.WhichOneof("Reply") for it in replies], ["full"])
        # It can be read, and shrinks, meanwhile.
        call = service.Read(spec_pb2.ReadRequest(nextIndex=1), timeout=DEADLINE_S)
        first = next(call).ok.entries[0]
        call.cancel()
        self.assertEqual((first.index, first.data), (1, b"a"))
        self.assertTrue(service.Discard(spec_pb2.DiscardRequest(firstIndex=2), timeout=DEADLINE_S).HasField("ok"))
        disk.make_room()
        self.assertEqual(self.until_ok(service, b"d"), [len(appended) + 2], "what was refused is not there")
