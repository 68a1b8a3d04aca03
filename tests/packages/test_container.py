"""The image of the Containerfile, built and run by podman, around a static program that is built already."""

import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / f"target/{platform.machine()}-unknown-linux-musl/release/logway"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Of a program that runs as root of its own network and mounts. A version of crun runs nothing where both kinds of
# control groups are mounted.
OWN = ["unshare", "--mount", "--net", "--kill-child", "--pid", "--fork", "--mount-proc", "bash", "-euc"]
ALONE = """
ip link set lo up
for mounted in $(awk '$3 == "cgroup2" && $2 != "/sys/fs/cgroup" {print $2}' /proc/mounts); do umount "$mounted"; done
exec "$@"
"""
DEADLINE_S = 120


def run(*command: str | Path, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


class Container(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root has a network of its own")
        if not STATIC.exists():
            self.skipTest("packaging/static has not been run")
        if not shutil.which("podman"):
            self.skipTest("there is no podman")
        self.work = Path(self.enterContext(tempfile.TemporaryDirectory()))
        # What the first stage of the file would have built: the network may have no images.
        stage = self.work / "build"
        (stage / "image/data").mkdir(parents=True)
        shutil.copy(STATIC, stage / "image/logway")
        shutil.copy(CERTIFICATES, stage / "image/ca-certificates.crt")
        # Images and containers of its own, which go with the directory.
        self.podman = ["podman", "--root", str(self.work / "images"), "--runroot", str(self.work / "run")]
        build = [*self.podman, "build", "--build-context", f"build={stage}", "-t", "logway-test", "-f"]
        run(*build, ROOT / "packaging/Containerfile", self.work)

    def test_the_image_starts_without_flags_and_lets_nobody_in(self):
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
        command = [*self.podman, "run", "--rm", "--read-only", "--network", "host", *limits]
        log = self.work / "log"
        with log.open("wb") as output:
            runs = subprocess.Popen([*OWN, ALONE, "alone", *command, "logway-test"], stdout=output, stderr=output)
        self.addCleanup(runs.wait, DEADLINE_S)
        self.addCleanup(runs.kill)
        deadline = time.monotonic() + DEADLINE_S
        while b"\nready " not in log.read_bytes():
            self.assertIsNone(runs.poll(), log.read_text())
            self.assertLess(time.monotonic(), deadline, log.read_text())
            time.sleep(0.05)
        inside = self.inside(runs.pid)
        status = Path(f"/proc/{inside}/status").read_text()
        self.assertIn("Uid:\t65532\t65532\t65532\t65532", status)

        def logway(*arguments: str) -> subprocess.CompletedProcess:
            # In the container's root and network, as `podman exec` would.
            enter = ["nsenter", "--target", str(inside), "--mount", "--net", "--root", "--wd=/"]
            command = [*enter, "/usr/local/bin/logway", *arguments]
            return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)

        admin = ["--profile-file", "/data/secure/profiles.toml", "--profile", "admin"]
        created = logway("topic", "create", "kept", *admin)
        self.assertEqual(created.returncode, 0, created.stderr)
        self.assertEqual(logway("topic", "list", *admin, "--format", "json").stdout.count("kept"), 1)
        stranger = logway("topic", "list")
        self.assertNotEqual(stranger.returncode, 0, stranger.stdout)
        os.kill(inside, signal.SIGTERM)
        self.assertEqual(runs.wait(DEADLINE_S), 0, log.read_text())

    def inside(self, pid: int) -> int:
        """The broker's process: the one in the network of the process that was started."""
        network = os.readlink(f"/proc/{pid}/ns/net")
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
                is_own = os.readlink(process / "ns/net") == network
            except OSError:
                continue
            if is_own and command[:2] == [b"/usr/local/bin/logway", b"serve"]:
                return int(process.name)
        raise AssertionError("there is no broker")


if __name__ == "__main__":
    unittest.main()
