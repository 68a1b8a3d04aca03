"""Runs the cases of Main.java, each against a stream of its own."""

import subprocess
import unittest

from harness.broker import TESTS
from harness.logway import Logway

BUILT = TESTS / ".work" / "kinesis-java"

DEADLINE_S = 90


class Java(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("kinesis-java", {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)

    def run_case(self, name: str):
        command = ["java", "-Xmx256m", "-cp", f"{BUILT}/classes:{BUILT}/libs/*", "io.logway.kinesis.Main"]
        done = subprocess.run(
            [*command, f"http://{self.broker.kinesis}", name], capture_output=True, text=True, timeout=DEADLINE_S
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
