"""The guide's way from the package to a cluster of three machines, and back to two, as it stands there."""

import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness.logway import BINARY
from harness.waiting import wait_until
from machines import Machines
from test_deb import BUILD, why_no_copy

GUIDE = Path(__file__).parents[2] / "docs/OPERATING.md"
SECTION = "### Three machines, from the package"
DEADLINE_S = 60
BUILD_S = 900


def blocks() -> list[tuple[str, str]]:
    """What is done, by where: each block begins with a comment that names its machines."""
    section = GUIDE.read_text().split(f"\n{SECTION}\n")[1].split("\n### ")[0].split("\n## ")[0]
    return re.findall(r"```sh by hand\n# on ([^\n]*)\n(.*?)```", section, re.DOTALL)


class ThreeMachines(unittest.TestCase):
    def test_the_guide_leads_to_three_nodes_and_to_two(self):
        if reason := why_no_copy():
            self.skipTest(reason)
        steps = blocks()
        self.assertGreater(len(steps), 4)
        with tempfile.TemporaryDirectory() as directory:
            built = subprocess.run([BUILD, BINARY, directory], capture_output=True, text=True, timeout=BUILD_S)
            self.assertEqual(built.returncode, 0, built.stderr)
            with Machines(3, Path(built.stdout.strip())) as machines:
                self.follow(machines, steps)

    def follow(self, machines: Machines, steps: list[tuple[str, str]]):
        token = None
        for where, script in steps:
            numbers = {"each machine": (1, 2, 3), "10.0.0.1": (1,), "10.0.0.2, and so on 10.0.0.3": (2, 3), "10.0.0.3": (3,)}[where]
            for number in numbers:
                began = time.monotonic()
                own = script.replace("TOKEN", token or "TOKEN")
                own = own.replace("10.0.0.2", f"10.0.0.{number}") if number == 3 else own
                said = machines.run(number, own)
                token = next((line for line in said.splitlines() if line.startswith("logway-join-")), token)
                print(f"{time.monotonic() - began:5.1f} s on machine {number}: {script.splitlines()[0]}", flush=True)
                self.check(machines, script)

    def check(self, machines: Machines, script: str):
        """What the guide says of a step."""
        admin = "LOGWAY_PROFILE_FILE=/var/lib/logway/data/secure/profiles.toml logway --profile admin"
        if "decommission 3 --yes" in script:
            nodes = machines.run(1, f"{admin} cluster status").split("NODE ")[1].splitlines()[1:]
            self.assertEqual([line.split()[:2] for line in nodes], [["1", "active"], ["2", "active"]])
            self.assertEqual(machines.run(1, f"{admin} consume orders -o start -n 1000").split(), [str(number) for number in range(1, 1001)])
            ended = lambda: "State:\tZ" in machines.run(3, "cat /proc/$(cat /run/logway.pid)/status || echo 'State:\tZ'")
            wait_until(ended, "the node that has left has ended", deadline_s=DEADLINE_S)


if __name__ == "__main__":
    unittest.main()
