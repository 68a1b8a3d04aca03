"""The cases that each of AWS's SDKs runs in a program of its own, against the Kinesis front door of one broker."""

import subprocess

from harness.logway import Logway


class KinesisCases:
    """For a TestCase: `name` is the suite's. `program` runs the case that is named behind an endpoint, in `deadline_s`."""

    name: str
    program: list[str]
    deadline_s: int

    @classmethod
    def setUpClass(cls):
        cls.broker = Logway(cls.name, {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)

    def run_case(self, name: str):
        command = [*self.program, f"http://{self.broker.kinesis}", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.deadline_s)
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
