import contextlib
import os
import select
import struct
import time
import unittest

from attacked import MEBIBYTE, Attacked
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
    produce_error_v3,
    produce_v3,
    request_header,
)

KIND = KINDS[os.environ["AGAINST"]]


class Slow(Attacked):
    """Clients that stall or push, at a listener that asks nobody."""

    def setUp(self):
        broker = KIND("hostile-slow").start()
        self.addCleanup(broker.kill)
        self.watch(broker, broker.bootstrap)

    def test_two_hundred_connections_that_send_a_byte_at_a_time(self):
        request = request_header(PRODUCE, 3, 1) + produce_v3(TOPIC, 0, batch_v2([b"x" * 100_000], 0))
        sent = iter(struct.pack(">i", len(request)) + request)
        connections = self.connect(self.broker.bootstrap, 200)

        def one_byte_each():
            byte = bytes([next(sent)])
            for connection in connections:
                connection.socket.send(byte)

        self.attack(one_byte_each)

    def test_announced_megabytes_that_never_come(self):
        for connection in self.connect(self.broker.bootstrap, 30):
            connection.socket.sendall(struct.pack(">i", 10 * MEBIBYTE) + request_header(PRODUCE, 3, 1))
        self.attack(lambda: None)

    def test_fetchers_that_never_read(self):
        self.fill(64 * MEBIBYTE)
        for connection in self.connect(self.broker.bootstrap, 50):
            for _ in range(20):
                connection.send(FETCH, 4, fetch_v4("large", 0, 0, 50 * MEBIBYTE))
        self.attack(lambda: None)

    def test_askers_that_never_read(self):
        body = struct.pack(">i", -1)
        request = request_header(METADATA, 1, 1) + body
        flood = (struct.pack(">i", len(request)) + request) * 1_000
        connections = self.connect(self.broker.bootstrap, 50)
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
        connections = self.connect(self.broker.bootstrap, 50)

        def ask_again():
            for connection in connections:
                if not select.select([], [connection.socket], [], 0)[1]:
                    continue
                connection.send(CREATE_TOPICS, 5, body)
                while select.select([connection.socket], [], [], 0)[0] and connection.socket.recv(1 << 20):
                    pass

        self.attack(ask_again)

    def test_ten_thousand_idle_connections(self):
        self.connect(self.broker.bootstrap, 10_000)
        self.attack(lambda: None)

    def test_a_thousand_consumers_that_read_a_byte_a_second(self):
        self.fill(64 * MEBIBYTE)
        connections = self.connect(self.broker.bootstrap, 1_000)
        for connection in connections:
            connection.send(FETCH, 4, fetch_v4("large", 0, 0, 50 * MEBIBYTE))
        due = time.monotonic()

        def a_byte_each_when_due():
            nonlocal due
            if time.monotonic() < due:
                return
            due += 1
            for connection in connections:
                self.assertTrue(connection.socket.recv(1))

        self.attack(a_byte_each_when_due)

    def test_producers_that_push_ten_times_what_the_disk_takes(self):
        """Ten that never wait for an answer, each of which would keep the disk busy by itself."""
        create_topic(self.broker.bootstrap, "pushed")
        pushers = [Pusher(connection, "pushed") for connection in self.connect(self.broker.bootstrap, 10)]
        began = time.monotonic()
        # Who shares a disk with them waits for what it has to write for them.
        self.attack(lambda: [pusher.push() for pusher in pushers], polite_requests=200, p99_ms_max=2_000)
        elapsed_s = time.monotonic() - began
        acked = sum(pusher.acked for pusher in pushers)
        print(f"{acked * Pusher.VALUE_BYTES / elapsed_s / 1e6:.0f} MB/s were acknowledged to the pushers")
        self.assertGreater(acked, 0)

    def fill(self, size_bytes: int):
        """Puts at least so many bytes into the topic `large`."""
        create_topic(self.broker.bootstrap, "large")
        batch = batch_v2([b"x" * 500_000], 0)
        with Connection(self.broker.bootstrap) as connection:
            for _ in range(size_bytes // len(batch) + 1):
                connection.request(PRODUCE, 3, produce_v3("large", 0, batch))


class Pusher:
    """A producer that sends large records whenever its connection takes more of them."""

    VALUE_BYTES = 1_000_000

    def __init__(self, connection: Connection, topic: str):
        request = request_header(PRODUCE, 3, 1) + produce_v3(topic, 0, batch_v2([b"x" * self.VALUE_BYTES], 0))
        self._frame = memoryview(struct.pack(">i", len(request)) + request)
        self._socket = connection.socket
        self._socket.setblocking(False)
        self._sent_bytes = 0
        self._answers = b""
        self.acked = 0

    def push(self):
        """Sends what is taken of one record, and looks at the answers that have come."""
        with contextlib.suppress(BlockingIOError):
            self._sent_bytes += self._socket.send(self._frame[self._sent_bytes % len(self._frame) :])
        with contextlib.suppress(BlockingIOError):
            while more := self._socket.recv(1 << 16):
                self._answers += more
        self._count_answers()

    def _count_answers(self):
        while len(self._answers) >= 4:
            end = 4 + int.from_bytes(self._answers[:4])
            if len(self._answers) < end:
                break
            # Behind the length and the correlation id.
            error = produce_error_v3(self._answers[8:end])
            if error != 0:
                raise AssertionError(f"error code {error}")
            self._answers = self._answers[end:]
            self.acked += 1


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
