"""The same by grpc-go, in programs of their own, and Akutan's logspec."""

import subprocess
import unittest
from pathlib import Path

from clients import ClientCases
from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S

from harness.broker import TESTS
from harness.load import create_topics
from harness.logway import Logway

BUILT = TESTS / ".work" / "logservice" / "go" / "bin"


class Go(ClientCases, unittest.TestCase):
    name = "go"
    client = [BUILT / "client"]
    tail = [BUILT / "tail"]

    @classmethod
    def setUpClass(cls):
        subprocess.run([Path(__file__).parent / "go" / "run.sh"], check=True, stdout=subprocess.DEVNULL)

    def test_logspec(self):
        settings = {"logservice.listen": "127.0.0.1:0", "logservice.logspec.listen": "127.0.0.1:0=spec"}
        broker = Logway("logservice-go-logspec", settings).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic("spec", 1, 1))
        done = subprocess.run([*self.client, "logspec", broker.logspec], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
