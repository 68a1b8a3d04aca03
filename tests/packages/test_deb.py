import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.logway import BINARY

HERE = Path(__file__).parent
# That a copy can be made at all.
COPY = """
mount -t tmpfs copy "$1"
mkdir "$1"/{changed,work,root}
mount -t overlay copy -o "lowerdir=/,upperdir=$1/changed,workdir=$1/work" "$1/root"
"""
BUILD = HERE.parents[1] / "packaging/deb/build"


def why_no_copy() -> str | None:
    """Why this system can have no copy of itself; nothing if it can."""
    if os.geteuid() != 0:
        return "only root has a copy of the system"
    with tempfile.TemporaryDirectory() as directory:
        made = subprocess.run(["unshare", "--mount", "--net", "bash", "-ec", COPY, "copy", directory], capture_output=True)
    return f"this system takes no copy of itself: {made.stderr.decode().strip()}" if made.returncode != 0 else None


class Deb(unittest.TestCase):
    def test_the_life_of_a_package(self):
        if reason := why_no_copy():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as directory:
            built = subprocess.run([BUILD, BINARY, directory], capture_output=True, text=True, timeout=300)
            self.assertEqual(built.returncode, 0, built.stderr)
            command = [HERE / "in_a_copy", HERE / "life", built.stdout.strip()]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        steps = [f"done: {step}" for step in ("install", "serve", "upgrade", "purge")]
        self.assertEqual((done.stdout.splitlines(), done.returncode), (steps, 0), done.stderr)


if __name__ == "__main__":
    unittest.main()
