"""Random operations and faults on nine nodes: a short life of `random_operations.py`. MINUTES=N and SEED=N make another one."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from harness.seed import SEED

MINUTES = os.environ.get("MINUTES", "1")


class Random(unittest.TestCase):
    def test_nothing_is_found_among_random_operations_and_faults(self):
        script = Path(__file__).with_name("random_operations.py")
        command = [sys.executable, script, "--minutes", MINUTES, "--seed", str(SEED)]
        lived = subprocess.run(command, capture_output=True, text=True)
        said = lived.stdout.splitlines()
        if said and said[0].startswith("skipped: "):
            self.skipTest(said[0].removeprefix("skipped: "))
        print(said[-1] if said else "")
        self.assertEqual(lived.returncode, 0, lived.stdout + lived.stderr)
