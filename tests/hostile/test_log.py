import os
import resource
import signal
import struct
import subprocess
import time
import unittest

from harness.broker import fresh_directory
from harness.logway import BINARY
from harness.protocol import METADATA, Connection, metadata_v1


class OwnBroker(unittest.TestCase):
    def start(self, name, **options):
        listen = ["--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
        self.log = fresh_directory(name) / "log"
        command = [BINARY, "serve", "--data-dir", str(self.log.parent / "data"), *listen]
        with open(self.log, "wb") as log:
            broker = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, **options
            )
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)
        self.addCleanup(broker.stdout.close)
        self.address = broker.stdout.readline().split("kafka=")[1].split()[0]
        return broker


@unittest.skipIf(os.environ["AGAINST"] != "logway", "about Logway's own log")
class ForgedLines(OwnBroker):
    def test_what_clients_send_forges_no_lines_and_does_not_flood_the_log(self):
        broker = self.start("forged-lines")
        name = b"x\n2026-01-01T00:00:00Z ERROR forged\x1b[31m"
        # A Produce v3 without acks, which can only be refused by closing the connection.
        header = struct.pack(">hhih", 0, 3, 1, -1)
        partition = struct.pack(">iii", 1, 0, -1)
        body = struct.pack(">hhiih", -1, 0, 1_000, 1, len(name)) + name + partition
        for _ in range(200):
            with Connection(self.address, timeout_s=10) as hostile:
                hostile.socket.sendall(struct.pack(">i", len(header + body)) + header + body)
                self.assertEqual(hostile.socket.recv(1), b"")
        broker.send_signal(signal.SIGTERM)
        self.assertEqual(broker.wait(30), 0)
        log = self.log.read_text()
        self.assertNotIn("\x1b", log)
        self.assertFalse([line for line in log.splitlines() if line.startswith("2026-01-01")])
        closed = log.count("connection closed")
        self.assertTrue(1 <= closed <= 60, log)


@unittest.skipIf(os.environ["AGAINST"] != "logway", "about Logway's own log")
class OutOfFiles(OwnBroker):
    def test_a_broker_that_is_out_of_files_says_so_once_and_recovers(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
        self.start("out-of-files", preexec_fn=few)
        hogs = [Connection(self.address, timeout_s=10) for _ in range(120)]
        deadline = time.monotonic() + 10
        while "cannot accept" not in self.log.read_text():
            self.assertLess(time.monotonic(), deadline, "it is said")
        for hog in hogs:
            hog.close()
        with Connection(self.address, timeout_s=20) as polite:
            self.assertTrue(polite.request(METADATA, 1, metadata_v1([])))
        log = self.log.read_text()
        self.assertLessEqual(log.count("cannot accept"), 2, log)
        self.assertIn("ulimit -n", log)


@unittest.skipIf(os.environ["AGAINST"] != "logway", "about Logway's own signals")
class Signals(OwnBroker):
    def test_a_terminal_that_closes_ends_the_broker_in_good_order(self):
        # Whoever runs this may have been told to outlive its own terminal.
        heed = lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
        broker = self.start("hangup", preexec_fn=heed)
        broker.send_signal(signal.SIGHUP)
        self.assertEqual(broker.wait(30), 0)
        self.assertIn("SIGHUP", self.log.read_text())

    def test_a_broker_that_was_told_to_outlive_its_terminal_does(self):
        ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.check_outlives(self.start("nohup", preexec_fn=ignore), signal.SIGHUP)

    def test_signals_that_mean_nothing_here_end_nothing(self):
        self.check_outlives(self.start("user-signals"), signal.SIGUSR1, signal.SIGUSR2)

    def check_outlives(self, broker, *signals):
        for number in signals:
            broker.send_signal(number)
        with Connection(self.address, timeout_s=10) as polite:
            self.assertTrue(polite.request(METADATA, 1, metadata_v1([])))
        broker.send_signal(signal.SIGTERM)
        self.assertEqual(broker.wait(30), 0)
