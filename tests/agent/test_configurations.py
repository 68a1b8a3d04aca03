"""What Flume users have: configurations that are public, rewritten, run as they are or refused with line and reason.

Each begins with `# From` and its source, and with `# Refused LINE: WORDS` for each reason if it is not to be run.
"""

import re
import subprocess
import unittest
from pathlib import Path

from harness.logway import BINARY

FOLDER = Path(__file__).resolve().parent / "flume-configurations"


class Configurations(unittest.TestCase):
    def test_each_is_taken_or_refused_with_its_reasons(self):
        files = sorted(FOLDER.glob("*.properties"))
        self.assertGreaterEqual(len(files), 10)
        for file in files:
            text = file.read_text()
            name = re.search(r"(?m)^(\w+)\.sources\b", text)[1]
            refused = re.findall(r"(?m)^# Refused (\d+): (.*)$", text)
            command = [BINARY, "agent", "check", "--flume-conf", str(file), "--name", name]
            checked = subprocess.run(command, capture_output=True, text=True)
            with self.subTest(file.name):
                self.assertEqual(checked.returncode, 1 if refused else 0, checked.stderr)
                if not refused:
                    self.assertIn(f"agent {name}", checked.stdout)
                for line, words in refused:
                    self.assertRegex(checked.stderr, rf"(?m){re.escape(file.name)}:{line}: .*{re.escape(words)}")
