import os
import signal
import struct
import unittest

from harness.brokers import KINDS
from harness.protocol import METADATA, Connection, metadata_v1

KIND = KINDS[os.environ["AGAINST"]]
STOP_DEADLINE_S = 30


def assert_served(broker):
    with Connection(broker.bootstrap) as polite:
        polite.request(METADATA, 1, metadata_v1([]))


@unittest.skipIf(KIND.kind != "logway", "about Logway's own log")
class Log(unittest.TestCase):
    def start(self, name: str, under: list[str] | None = None):
        broker = KIND(name, under=under).start()
        self.addCleanup(broker.kill)
        return broker

    def test_what_clients_send_forges_no_lines_and_does_not_flood_the_log(self):
        broker = self.start("forged-lines")
        name = b"x\n2026-01-01T00:00:00Z ERROR forged\x1b[31m"
        # A Produce v3 without acks, which can only be refused by closing the connection.
        header = struct.pack(">hhih", 0, 3, 1, -1)
        partition = struct.pack(">iii", 1, 0, -1)
        body = struct.pack(">hhiih", -1, 0, 1_000, 1, len(name)) + name + partition
        for _ in range(200):
            with Connection(broker.bootstrap) as hostile:
                hostile.send_frame(header + body)
                self.assertEqual(hostile.socket.recv(1), b"")
        self.assertEqual(broker.stop(), 0)
        log = broker.log_since_start()
        self.assertNotIn("\x1b", log)
        self.assertFalse([line for line in log.splitlines() if line.startswith("2026-01-01")])
        closed = log.count("connection closed")
        self.assertTrue(1 <= closed <= 60, log)

    def test_a_broker_whose_log_cannot_be_written_works_on(self):
        broker = self.start("unwritable-log", under=["sh", "-c", 'exec "$@" 2>/dev/full', "sh"])
        for _ in range(3):
            with Connection(broker.bootstrap) as broken:
                # This is no request, which is worth a line in the log.
                broken.socket.sendall(b"\xff\xff\xff\xff")
                self.assertEqual(broken.socket.recv(1), b"")
            assert_served(broker)
        self.assertEqual(broker.stop(), 0)

    def test_a_terminal_that_closes_ends_the_broker_in_good_order(self):
        # Whoever runs this may have been told to outlive its own terminal.
        broker = self.start("hangup", under=["env", "--default-signal=HUP"])
        broker.process.send_signal(signal.SIGHUP)
        self.assertEqual(broker.process.wait(STOP_DEADLINE_S), 0)
        self.assertIn("SIGHUP", broker.log_since_start())

    def test_a_broker_that_was_told_to_outlive_its_terminal_does(self):
        self.check_outlives(self.start("nohup", under=["env", "--ignore-signal=HUP"]), signal.SIGHUP)

    def test_signals_that_mean_nothing_here_end_nothing(self):
        self.check_outlives(self.start("user-signals"), signal.SIGUSR1, signal.SIGUSR2)

    def check_outlives(self, broker, *signals):
        for number in signals:
            broker.process.send_signal(number)
        assert_served(broker)
        self.assertEqual(broker.stop(), 0)
