"""The same by grpc-js, in a program of its own."""

import subprocess
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S

from harness.load import create_topics
from harness.logway import Logway

COUNT = 12_000


class JavaScript(unittest.TestCase):
    def test_appends_and_reads(self):
        folder = Path(__file__).parent / "javascript"
        need = folder.parent.parent / "harness" / "need"
        subprocess.run([need, "node-modules", folder], check=True, capture_output=True)
        broker = Logway("logservice-javascript", {"logservice.listen": "127.0.0.1:0"}).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic("clicks", 1, 1))
        command = ["node", folder / "client.js", broker.log_service, "clicks", str(COUNT)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
