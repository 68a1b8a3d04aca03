"""What clients do that mean harm: each is bounded, told and counted, and a neighbour is served meanwhile."""

import os
import resource
import socket
import struct
import zlib

from agents import Agent, AgentCase

from harness.ports import free_port
from harness.waiting import wait_until

DEADLINE_S = 60
MEBIBYTE = 1 << 20
GROWTH_BYTES_MAX = 192 * MEBIBYTE
# As many connections fill the listener's queue, and those beyond wait for a second each.
CONNECTIONS = 10_000 if os.environ.get("LONG") else 3_000


class Hostile(AgentCase):
    def setUp(self):
        super().setUp()
        self.ports = {kind: free_port() for kind in ("netcat", "syslogtcp", "avro", "thrift", "http", "deflate", "exec")}
        sources = "".join(
            f"[sources.{name}]\ntype = '{kind}'\nport = {self.ports[name]}\nchannels = ['c']\n{more}\n"
            for name, kind, more in [
                ("netcat", "netcat", "bind = '127.0.0.1'\nmaxConnections = 200"),
                ("syslogtcp", "syslogtcp", "host = '127.0.0.1'"),
                ("avro", "avro", "bind = '127.0.0.1'\nmaxBufferBytes = 16777216"),
                ("deflate", "avro", "bind = '127.0.0.1'\ncompression-type = 'deflate'\nmaxMessageBytes = 4194304"),
                ("thrift", "thrift", "bind = '127.0.0.1'\nmaxMessageBytes = 4194304"),
                ("http", "http", "bind = '127.0.0.1'\nmaxMessageBytes = 4194304"),
            ]
        )
        self.agent = Agent(
            self,
            self.directory,
            "agent",
            f"{sources}[channels.c]\ntype = 'memory'\ncapacity = 10000\n[sinks.k]\ntype = 'null'\nchannel = 'c'\n",
        ).start()
        self.rss_before = self.agent.rss_bytes()

    def connect(self, name: str) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.ports[name]), DEADLINE_S)
        self.addCleanup(client.close)
        return client

    def flood(self, client: socket.socket, piece: bytes, total: int) -> bool:
        """Sends so much; whether the other side has closed the connection before the end."""
        try:
            for _ in range(total // len(piece)):
                client.sendall(piece)
        except OSError:
            return True
        return False

    def assert_bounded(self):
        growth = self.agent.rss_bytes() - self.rss_before
        self.assertLess(growth, GROWTH_BYTES_MAX, f"grew by {growth >> 20} MiB")
        with self.connect("netcat") as polite:
            polite.sendall(b"hello\n")
            self.assertEqual(polite.recv(100), b"OK\n")

    def test_a_line_without_end(self):
        self.assertTrue(self.flood(self.connect("netcat"), b"x" * 65536, 1 << 30), "a line of 1 GiB was read")
        self.assertFalse(self.flood(self.connect("syslogtcp"), b"x" * 65536, 256 * MEBIBYTE))
        self.assert_bounded()
        self.assertGreaterEqual(self.agent.count("SOURCE.netcat", "EventReadFail"), 1)
        self.assertGreater(self.agent.count("SOURCE.syslogtcp", "EventReadFail"), 1000)

    def test_more_connections_than_are_taken(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CONNECTIONS
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 500), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        count = min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
        clients = [socket.create_connection(("127.0.0.1", self.ports["netcat"])) for _ in range(count)]
        refused = lambda: self.agent.count("SOURCE.netcat", "RefusedConnectionCount")
        wait_until(lambda: refused() == count - 200, f"{count - 200} connections to be refused", DEADLINE_S)
        self.assertEqual(self.agent.count("SOURCE.netcat", "OpenConnectionCount"), 200)
        for client in clients:
            client.close()
        wait_until(lambda: self.agent.count("SOURCE.netcat", "OpenConnectionCount") == 0, "them to be gone", DEADLINE_S)
        self.assert_bounded()

    def closes(self, client: socket.socket) -> bool:
        client.settimeout(DEADLINE_S)
        try:
            return client.recv(4096) == b""
        except ConnectionResetError:
            return True

    def test_messages_that_announce_or_hold_too_much(self):
        # Thrift: a frame of 2 GiB. Avro: a buffer of 4 GiB, and a million buffers.
        for name, head in [
            ("thrift", struct.pack(">I", 1 << 31)),
            ("avro", struct.pack(">III", 1, 1, 0xFFFFFFFF)),
            ("avro", struct.pack(">II", 1, 1_000_000)),
        ]:
            client = self.connect(name)
            client.sendall(head)
            self.assertTrue(self.closes(client), name)
        # Many that hold a little less than is allowed, together more than there is.
        holders = [self.connect("avro") for _ in range(8)]
        closed = [self.flood(one, struct.pack(">III", 1, 1, 60 * MEBIBYTE) + b"x" * (4 * MEBIBYTE), 4 * MEBIBYTE + 12) for one in holders]
        wait_until(lambda: self.agent.count("SOURCE.avro", "EventReadFail") >= 4, f"some to be closed {closed}", DEADLINE_S)
        self.assert_bounded()

    def test_a_deflate_bomb(self):
        packer = zlib.compressobj(9)
        head = struct.pack(">III", 1, 1, 4 * MEBIBYTE - 1)
        bomb = packer.compress(head + bytes(4 * MEBIBYTE)) + packer.compress(bytes(1 << 30)) + packer.flush(zlib.Z_SYNC_FLUSH)
        self.flood(self.connect("deflate"), bomb, len(bomb))
        wait_until(lambda: self.agent.count("SOURCE.deflate", "EventReadFail") >= 1, "it to be refused", DEADLINE_S)
        self.assert_bounded()

    def test_heads_and_bodies_without_end(self):
        client = self.connect("http")
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\n")
        self.assertTrue(self.flood(client, b"a: " + b"x" * 1000 + b"\r\n", 64 * MEBIBYTE), "64 MiB of headers were read")
        client = self.connect("http")
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        self.assertTrue(self.flood(client, b"10000\r\n" + b"x" * 65536 + b"\r\n", 256 * MEBIBYTE), "256 MiB were read")
        client = self.connect("http")
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nnone")
        self.assertIn(b"400 Bad Request", client.recv(4096))
        client = self.connect("http")
        client.sendall(b'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n[{"body":"a"}]')
        self.assertIn(b"200 OK", client.recv(4096))
        self.assert_bounded()
