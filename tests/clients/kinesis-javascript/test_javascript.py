"""Runs the cases of cases.mjs, each against a stream of its own."""

import subprocess
import unittest
from pathlib import Path

from harness.logway import Logway

CASES = Path(__file__).parent / "cases.mjs"

DEADLINE_S = 60


class JavaScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("kinesis-javascript", {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)

    def run_case(self, name: str):
        endpoint = f"http://{self.broker.kinesis}"
        done = subprocess.run(
            ["node", str(CASES), endpoint, name], capture_output=True, text=True, timeout=DEADLINE_S
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_records(self):
        self.run_case("records")

    def test_iterators(self):
        self.run_case("iterators")

    def test_fan_out(self):
        self.run_case("fanOut")

    def test_reshard_while_reading(self):
        self.run_case("reshardWhileReading")

    def test_errors(self):
        self.run_case("errors")
