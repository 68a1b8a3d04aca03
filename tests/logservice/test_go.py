"""The same by grpc-go, in a program of its own."""

import subprocess
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S

from harness.load import create_topics
from harness.logway import Logway

COUNT = 12_000


class Go(unittest.TestCase):
    def test_appends_reads_and_logspec(self):
        build = Path(__file__).parent / "go" / "run.sh"
        program = subprocess.run([build], check=True, capture_output=True, text=True).stdout.strip()
        settings = {"logservice.listen": "127.0.0.1:0", "logservice.logspec.listen": "127.0.0.1:0=spec"}
        broker = Logway("logservice-go", settings).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic("clicks", 1, 1), NewTopic("spec", 1, 1))
        command = [program, broker.log_service, broker.logspec, "clicks", str(COUNT)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
