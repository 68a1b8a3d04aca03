"""The same by tonic, in programs of their own."""

import subprocess
import unittest
from pathlib import Path

from clients import ClientCases

from harness.broker import TESTS

BUILT = TESTS / ".work" / "logservice" / "rust"


class Rust(ClientCases, unittest.TestCase):
    name = "rust"
    client = [BUILT / "debug" / "client"]
    tail = [BUILT / "debug" / "tail"]

    @classmethod
    def setUpClass(cls):
        manifest = Path(__file__).parent / "rust" / "Cargo.toml"
        command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", BUILT]
        subprocess.run(command, check=True)
