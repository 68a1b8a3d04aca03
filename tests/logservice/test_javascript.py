"""The same by grpc-js, in programs of their own."""

import subprocess
import unittest
from pathlib import Path

from clients import ClientCases

from harness.broker import TESTS

FOLDER = Path(__file__).parent / "javascript"


class JavaScript(ClientCases, unittest.TestCase):
    name = "javascript"
    client = ["node", FOLDER / "client.js"]
    tail = ["node", FOLDER / "tail.js"]

    @classmethod
    def setUpClass(cls):
        subprocess.run([TESTS / "harness" / "need", "node-modules", FOLDER], check=True, stdout=subprocess.DEVNULL)
