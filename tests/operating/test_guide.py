"""docs/OPERATING.md, each of its blocks run as it stands there, one after the other, and looked at from outside."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path

from relocation import relocated

from harness.broker import TESTS, fresh_directory
from harness.logway import BINARY
from harness.ports import free_port
from harness.waiting import wait_until

SOURCES = TESTS.parent
GUIDE = SOURCES / "docs" / "OPERATING.md"
HERE = Path(__file__).parent
DEADLINE_S = 120
# What changes the file of settings, and may be wanted again.
TWICE = {"Change what it logs", "Limit its memory", "Limit its disk"}


def blocks() -> dict[str, list[str]]:
    """The blocks of commands below each heading, but for those that are to be run by hand."""
    found = {}
    for part in GUIDE.read_text().split("\n## ")[1:]:
        heading = part.splitlines()[0]
        found[heading] = re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    return found


class Guide(unittest.TestCase):
    def setUp(self):
        self.root = fresh_directory("operating-guide")
        for place in ("usr/local/bin", "usr/local/share/man", "etc/systemd/system", "var/lib", "disks/1", "disks/2", "bin"):
            (self.root / place).mkdir(parents=True)
        self.program("systemctl", f'exec {sys.executable} {HERE}/systemctl.py "$@"')
        # Those belong to the whole system.
        for name in ("useradd", "userdel", "chown"):
            self.program(name, "exit 0")
        ports = [free_port() for _ in range(3)]
        os.environ.update({f"PORT_{port}": str(ours) for port, ours in zip((9092, 9093, 9644), ports, strict=True)})
        path = f"{self.root}/usr/local/bin:{self.root}/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "ROOT": str(self.root), "PYTHONPATH": f"{HERE}:{TESTS}",
                            "LOGWAY_BROKERS": f"127.0.0.1:{ports[0]}"}
        self.addCleanup(self.end_broker)

    def program(self, name: str, script: str):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def end_broker(self):
        """The one that a test that failed has left."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self.root / "pid").read_text()), signal.SIGKILL)

    def shell(self, commands: str, stdin: bytes = b"") -> str:
        commands = relocated(commands, self.root).replace("target/release/logway", BINARY)
        command = ["bash", "-euo", "pipefail", "-c", commands]
        done = subprocess.run(command, input=stdin, capture_output=True, cwd=SOURCES, env=self.environment,
                              timeout=DEADLINE_S)
        if done.returncode != 0:
            log = self.root / "log"
            end = log.read_text()[-2_000:] if log.exists() else ""
            raise AssertionError(f"{commands}\n{done.stdout.decode()}{done.stderr.decode()}\n{end}")
        return done.stdout.decode()

    def produce(self, *lines: str):
        self.shell("logway produce orders", "".join(f"{line}\n" for line in lines).encode())

    def stored(self) -> list[str]:
        return self.shell("logway consume orders -o start -e").splitlines()

    def log_dirs(self) -> set[Path]:
        """Where the partitions of the topic are."""
        return {path.parent for path in self.root.rglob("orders-[0-9]") if path.is_dir()}

    def test_every_answer(self):
        answers = {
            "Install it as a service": self.after_install,
            "See how it is": self.after_look,
            "Change what it logs": self.after_log,
            "Back it up": self.after_backup,
            "Restore it": self.after_restore,
            "Move it to another disk, or machine": self.after_move,
            "Upgrade it": self.after_upgrade,
            "Add a disk": self.after_disk,
            "Transactions that hang": lambda printed: None,
            "Limit its memory": self.after_limit,
            "Limit its disk": self.after_disk_limit,
            "A disk is full": self.after_full,
            "A disk is lost": self.after_loss,
            "Records are damaged": self.after_damage,
            "Run it in a container": lambda printed: None,
            "Run it in Kubernetes": lambda printed: None,
            "A cluster of several nodes": lambda printed: None,
            "Listeners, users and permissions": self.after_users,
            "Uninstall it": self.after_uninstall,
        }
        found = blocks()
        self.assertEqual(list(found), list(answers))
        for heading, check in answers.items():
            with self.subTest(heading=heading):
                printed = []
                for number, block in enumerate(found[heading] * (2 if heading in TWICE else 1)):
                    if heading == "A disk is lost":
                        self.lose_a_disk(number)
                    printed.append(self.shell(block))
                check(printed)

    def after_install(self, _printed):
        self.assertIn("logway", self.shell("logway --version"))
        self.assertTrue((self.root / "usr/local/share/man/man1/logway-serve.1").exists())
        self.shell("logway topic create orders -p 1")
        self.produce("one", "two")
        self.shell("logway consume orders --group billing -o start -n 2")

    def after_look(self, printed):
        (seen,) = printed
        self.assertIn("ready", seen)
        for name in ("partitions_offline", "log_dirs_offline", "damaged_batches_total"):
            self.assertRegex(seen, rf"(?m)^logway_{name} 0$")

    def after_log(self, _printed):
        lines = (self.root / "log").read_text().splitlines()
        self.assertEqual(json.loads(lines[-2] if lines[-1].startswith("ready ") else lines[-1])["level"], "INFO")

    def after_backup(self, _printed):
        self.produce("three")
        self.assertEqual(self.stored(), ["one", "two", "three"])

    def after_restore(self, _printed):
        self.assertEqual(self.stored(), ["one", "two"])
        group = self.shell("logway group describe billing --format json")
        self.assertIn('"orders"', group)
        self.produce("four")

    def after_move(self, _printed):
        old = self.root / "var/lib/logway/data"
        shutil.rmtree(old)
        self.assertEqual(self.stored(), ["one", "two", "four"])
        self.produce("five")

    def after_upgrade(self, printed):
        self.assertRegex(printed[-1], r"^logway \d")
        self.assertEqual(self.stored(), ["one", "two", "four", "five"])

    def after_disk(self, _printed):
        self.assertIn(self.root / "disks/2/logway", self.log_dirs())
        self.assertNotIn(self.root / "disks/1/logway", self.log_dirs())
        self.assertEqual(self.stored(), ["one", "two", "four", "five"])
        self.shell("logway topic create more -p 2 && logway cluster health")
        self.assertTrue(list((self.root / "disks/2/logway").glob("more-*")))

    def after_limit(self, _printed):
        settings = self.settings("broker", "1")
        for name in ("queued.max.request.bytes", "logway.groups.max.bytes", "log.cleaner.dedupe.buffer.size"):
            self.assertEqual((name, settings[name]["source"]), (name, "static"))
        with urllib.request.urlopen(f"http://127.0.0.1:{os.environ['PORT_9644']}/metrics", timeout=60) as page:
            self.assertIn("logway_request_memory_limit_bytes 16777216\n", page.read().decode())

    def settings(self, *resource: str) -> dict[str, dict]:
        printed = self.shell(f"logway config describe {' '.join(resource)} --all --format json")
        return {setting["name"]: setting for setting in json.loads(printed)}

    def after_disk_limit(self, _printed):
        self.assertEqual(self.settings("topic", "orders")["segment.bytes"]["value"], "134217728")
        self.assertEqual(self.settings("broker", "1")["log.retention.hours"]["value"], "24")
        self.shell("logway topic create scratch -p 1")

    def after_full(self, printed):
        self.assertRegex(printed[0], r"disks/\d/logway/\S+-\d+\n")
        self.assertNotIn("scratch", self.shell("logway topic list"))
        self.assertEqual(self.settings("topic", "orders")["retention.ms"]["value"], "3600000")
        self.assertEqual(self.stored(), ["one", "two", "four", "five"])

    def lose_a_disk(self, time: int):
        """Under the broker, which notices."""
        (self.root / "disks/2/logway").rename(self.root / f"disks/2/lost-{time}")
        wait_until(lambda: self.exit_code("logway cluster health") == 1, "the loss to be noticed", DEADLINE_S)
        self.assertIn("orders-0", self.shell("logway cluster health || true"))

    def exit_code(self, commands: str) -> int:
        return int(self.shell(f"({commands}) > /dev/null 2>&1 && echo 0 || echo $?"))

    def after_loss(self, printed):
        self.assertIn("given up, with", printed[1])
        self.assertEqual(self.stored(), [])
        for lost in ("lost-0", "lost-1"):
            shutil.rmtree(self.root / "disks/2" / lost)
        for record in ("six", "seven", "eight"):
            self.produce(record)
        self.shell("systemctl stop logway")
        segment = self.root / "disks/1/logway/orders-0" / f"{0:020}.log"
        stored = bytearray(segment.read_bytes())
        # In the middle of the second batch.
        stored[len(stored) // 2] ^= 1
        segment.write_bytes(stored)
        self.shell("systemctl start logway")
        refused = self.shell("logway consume orders -e 2>&1 || true")
        self.assertIn("six\n", refused)
        self.assertIn("logway consume orders -p 0 -o 2", refused)

    def after_damage(self, printed):
        self.assertIn("see above", printed[0])
        self.assertEqual(self.stored(), ["eight"])

    def after_users(self, printed):
        self.assertIn("denied: ", printed[1])
        self.assertEqual(self.stored(), ["eight", "nine"])

    def after_uninstall(self, _printed):
        self.assertFalse((self.root / "pid").exists())
        shutil.rmtree(self.root / "backup")
        ours = {self.root / name for name in ("bin/systemctl", "bin/useradd", "bin/userdel", "bin/chown", "log")}
        left = {path for path in self.root.rglob("*") if not path.is_dir()}
        self.assertEqual(left - ours - {self.root / "notify"}, set())
