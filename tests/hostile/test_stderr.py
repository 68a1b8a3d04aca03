import os
import signal
import subprocess
import unittest

from harness.broker import fresh_directory
from harness.logway import BINARY
from harness.protocol import METADATA, Connection, metadata_v1


@unittest.skipIf(os.environ["AGAINST"] != "logway", "about Logway's own log")
class UnwritableLog(unittest.TestCase):
    def test_a_broker_whose_log_cannot_be_written_works_on(self):
        listen = ["--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
        command = [BINARY, "serve", "--data-dir", str(fresh_directory("stderr") / "data"), *listen]
        with open("/dev/full", "wb") as full:
            broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=full, text=True)
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)
        self.addCleanup(broker.stdout.close)
        address = broker.stdout.readline().split("kafka=")[1].split()[0]
        for _ in range(3):
            with Connection(address, timeout_s=10) as broken:
                # This is no request, which is worth a line in the log.
                broken.socket.sendall(b"\xff\xff\xff\xff")
                self.assertEqual(broken.socket.recv(1), b"")
            with Connection(address, timeout_s=10) as polite:
                self.assertTrue(polite.request(METADATA, 1, metadata_v1([])))
        broker.send_signal(signal.SIGTERM)
        self.assertEqual(broker.wait(30), 0)
