import contextlib
import os
import resource
import select
import struct
import unittest

from polite import TOPIC, PoliteProducer, create_topic

from harness.brokers import KINDS
from harness.protocol import (
    CREATE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    Connection,
    batch_v2,
    create_topics_v5,
    fetch_v4,
    produce_v3,
    request_header,
)

KIND = KINDS[os.environ["AGAINST"]]
P99_MS_MAX = 250
POLITE_REQUESTS = 500
MEBIBYTE = 1 << 20


class Slow(unittest.TestCase):
    """Attackers beside a polite producer: its latency and the broker's memory stay within bounds."""

    @classmethod
    def setUpClass(cls):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def setUp(self):
        self.broker = KIND("hostile-slow").start()
        self.addCleanup(self.broker.kill)
        create_topic(self.broker.bootstrap, TOPIC)
        self.polite = self.enterContext(PoliteProducer(self.broker.bootstrap))
        self.polite.wait_for_acks(POLITE_REQUESTS)
        self.rss_bytes_before = self.rss_bytes_most = self.broker.rss_bytes()

    def connect(self, count: int) -> list[Connection]:
        stack = self.enterContext(contextlib.ExitStack())
        return [stack.enter_context(Connection(self.broker.bootstrap)) for _ in range(count)]

    def attack(self, step):
        """Repeats a step of the attack until the polite producer has been served often enough, then judges."""
        goal = self.polite.acked() + POLITE_REQUESTS
        while self.polite.acked() < goal:
            step()
            self.polite.wait_for_acks(1)
            self.rss_bytes_most = max(self.rss_bytes_most, self.broker.rss_bytes())
        p99_ms = self.polite.finish().p99_ms
        growth_bytes = self.rss_bytes_most - self.rss_bytes_before
        print(
            f"{self.id().split('.')[-1]}: polite p99 {p99_ms:.1f} ms, resident memory +{growth_bytes // MEBIBYTE} MiB"
        )
        self.assertLess(p99_ms, P99_MS_MAX)
        self.assertLess(growth_bytes, KIND.rss_growth_bytes_max)

    def test_two_hundred_connections_that_send_a_byte_at_a_time(self):
        request = request_header(PRODUCE, 3, 1) + produce_v3(TOPIC, 0, batch_v2([b"x" * 100_000], 0))
        sent = iter(struct.pack(">i", len(request)) + request)
        connections = self.connect(200)

        def one_byte_each():
            byte = bytes([next(sent)])
            for connection in connections:
                connection.socket.send(byte)

        self.attack(one_byte_each)

    def test_announced_megabytes_that_never_come(self):
        for connection in self.connect(30):
            connection.socket.sendall(struct.pack(">i", 10 * MEBIBYTE) + request_header(PRODUCE, 3, 1))
        self.attack(lambda: None)

    def test_fetchers_that_never_read(self):
        self.fill(64 * MEBIBYTE)
        for connection in self.connect(50):
            for _ in range(20):
                connection.send(FETCH, 4, fetch_v4("large", 0, 0, 50 * MEBIBYTE))
        self.attack(lambda: None)

    def test_askers_that_never_read(self):
        body = struct.pack(">i", -1)
        request = request_header(METADATA, 1, 1) + body
        flood = (struct.pack(">i", len(request)) + request) * 1_000
        connections = self.connect(50)
        for connection in connections:
            connection.socket.setblocking(False)

        def send_what_is_taken():
            for connection in connections:
                with contextlib.suppress(BlockingIOError):
                    connection.socket.send(flood)

        self.attack(send_what_is_taken)

    def test_small_requests_with_large_answers(self):
        """Each asks for what would be created; the answer has all the settings of each of the topics."""
        body = create_topics_v5([f"t{number}" for number in range(1_000)], validate_only=True)
        connections = self.connect(50)

        def ask_again():
            for connection in connections:
                if not select.select([], [connection.socket], [], 0)[1]:
                    continue
                connection.send(CREATE_TOPICS, 5, body)
                while select.select([connection.socket], [], [], 0)[0] and connection.socket.recv(1 << 20):
                    pass

        self.attack(ask_again)

    def test_two_thousand_idle_connections(self):
        self.connect(2_000)
        self.attack(lambda: None)

    def fill(self, size_bytes: int):
        """Puts at least so many bytes into the topic `large`."""
        create_topic(self.broker.bootstrap, "large")
        batch = batch_v2([b"x" * 500_000], 0)
        with Connection(self.broker.bootstrap) as connection:
            for _ in range(size_bytes // len(batch) + 1):
                connection.request(PRODUCE, 3, produce_v3("large", 0, batch))


class Limit(unittest.TestCase):
    def test_connections_beyond_the_limit_are_closed_and_the_others_stay(self):
        with KIND("hostile-limit", {KIND.connection_limit: "50"}) as broker, contextlib.ExitStack() as stack:
            create_topic(broker.bootstrap, TOPIC)
            polite = stack.enter_context(PoliteProducer(broker.bootstrap))
            connections = [stack.enter_context(Connection(broker.bootstrap)) for _ in range(49)]
            for _ in range(10):
                with Connection(broker.bootstrap) as beyond:
                    self.assertTrue(beyond.is_closed_by_peer())
            for connection in connections:
                connection.request(METADATA, 1, struct.pack(">i", 0))
            polite.wait_for_acks(50)
            for connection in connections:
                connection.close()
            self.assertTrue(self.is_served_again(broker))

    def is_served_again(self, broker) -> bool:
        """Whether a new connection gets through; the broker may take a moment to notice those that left."""
        for _ in range(100):
            with contextlib.suppress(ConnectionError), Connection(broker.bootstrap) as connection:
                connection.request(METADATA, 1, struct.pack(">i", 0))
                return True
        return False
