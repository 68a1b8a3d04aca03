"""The cases that each of AWS's SDKs runs in a program of its own, against the Kinesis front door of one broker."""

import os
import subprocess

from harness.logway import Logway
from harness.secured import SecuredLogway


class KinesisProgram:
    """For a TestCase: `name` is the suite's. `program` runs the case that is named behind an endpoint, in `deadline_s`."""

    name: str
    program: list[str]
    deadline_s: int

    def run_case(self, name: str):
        command = [*self.program, self.endpoint, name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.deadline_s,
                              env=os.environ | self.credentials)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class KinesisCases(KinesisProgram):
    """Each is one of tests/clients/cases.toml."""

    @classmethod
    def setUpClass(cls):
        cls.broker = Logway(cls.name, {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.endpoint = f"http://{cls.broker.kinesis}"
        cls.credentials = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}

    def test_kinesis_records(self):
        self.run_case("records")

    def test_kinesis_iterators(self):
        self.run_case("iterators")

    def test_kinesis_fan_out(self):
        self.run_case("fanOut")

    def test_kinesis_reshard(self):
        self.run_case("reshardWhileReading")

    def test_kinesis_refusals(self):
        self.run_case("errors")


class SecuredKinesisCases(KinesisProgram):
    """All of them by TLS and with signatures that are checked. `believing` has variables by which the program believes the
    authority of a file."""

    @classmethod
    def setUpClass(cls):
        cls.broker = SecuredLogway(f"{cls.name}-secured", {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.endpoint = f"https://{cls.broker.kinesis}"
        cls.credentials = cls.broker.access_key() | cls.believing(cls.broker.files / "ca.crt")

    def test_kinesis_secured(self):
        for case in ("records", "iterators", "fanOut", "reshardWhileReading", "errors"):
            with self.subTest(case):
                self.run_case(case)
