"""The broker's own log in each format, what it tells systemd, and how it runs with nothing around it."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from supervisor import Supervisor

from harness.broker import fresh_directory
from harness.logway import BINARY
from harness.waiting import wait_until

DEADLINE_S = 60
ANYWHERE = ["--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]


class Log(unittest.TestCase):
    def setUp(self):
        self.directory = fresh_directory("operating-log")

    def serve(self, *arguments: str, **environment: str):
        """Runs a broker until it is ready and is asked to end, or ends by itself; returns its stderr and exit code."""
        log = self.directory / f"log-{len(list(self.directory.iterdir()))}"
        supervisor = Supervisor(log.with_suffix(".socket"))
        self.addCleanup(supervisor.close)
        with log.open("wb") as stderr:
            if environment.pop("to_journal", ""):
                found = os.fstat(stderr.fileno())
                environment["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
            command = [BINARY, "serve", "--data-dir", str(self.directory / "data"), *arguments]
            environment = {**supervisor.environment, **environment}
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if "--kafka-listen" in arguments:
            self.assertEqual(supervisor.next_state(process), "READY=1")
            process.terminate()
            self.assertEqual(supervisor.next_state(process), "STOPPING=1")
        process.wait(DEADLINE_S)
        return log.read_text(), process.returncode

    def test_text_is_for_people(self):
        log, code = self.serve(*ANYWHERE)
        self.assertEqual(code, 0)
        self.assertRegex(log, r"(?m)^\d{4}-\d\d-\d\dT\S+Z  INFO logway_server::serve: starting version=")

    def test_json_is_an_object_a_line_to_the_end(self):
        self.serve(*ANYWHERE)
        # A start that finds something there has more to say.
        log, code = self.serve(*ANYWHERE, "--log-format", "json", "--log-level", "debug")
        lines = [json.loads(line) for line in log.splitlines()]
        self.assertEqual((code, lines[-1]["message"], lines[-1]["fields"]), (0, "stopping", {"signal": "SIGTERM"}))
        self.assertIn("DEBUG", {line["level"] for line in lines})
        log, code = self.serve("--log-format", "json", "--insecure", "--set", "listeners=203.0.113.1:1")
        failed = json.loads(log.splitlines()[-1])
        self.assertEqual((code, failed["level"]), (1, "ERROR"))
        self.assertIn("cannot listen on 203.0.113.1:1", failed["message"])
        self.assertIn("--kafka-listen", failed["fields"]["hint"])

    def test_the_journal_gets_priorities_by_itself(self):
        log, code = self.serve(*ANYWHERE, to_journal="yes")
        self.assertEqual(code, 0)
        self.assertRegex(log, r"^(<[3467]>logway\S+: .*\n)+$")
        log, _ = self.serve(*ANYWHERE, JOURNAL_STREAM="1:1")
        self.assertNotIn("<6>", log)

    def test_the_level_is_a_flag_a_setting_and_a_variable(self):
        for arguments, environment in (
            (["--log-level", "error"], {}),
            (["--set", "logway.log.level=error"], {}),
            ([], {"LOGWAY_LOG": "error"}),
            (["--log-level", "error"], {"LOGWAY_LOG": "trace"}),
        ):
            with self.subTest(arguments=arguments, environment=environment):
                self.assertEqual(self.serve(*ANYWHERE, *arguments, **environment), ("", 0))

    def test_the_version_names_the_commit(self):
        version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(version, r"^logway \d+\.\d+\.\d+ \(([0-9a-f]{12}|debug build)\)\n$")

    def test_manual_pages_are_as_the_formatter_wants_them(self):
        pages = self.directory / "man"
        subprocess.run([BINARY, "man", str(pages)], check=True, capture_output=True)
        self.assertGreater(len(list(pages.glob("man1/*.1"))), 30)
        if not shutil.which("groff"):
            self.skipTest("there is no groff")
        for page in pages.glob("man?/*"):
            command = ["groff", "-man", "-ww", "-Tutf8", "-Kutf8", str(page)]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)


class AlmostNothing(unittest.TestCase):
    """As in a container: process 1, with only its libraries, on a root that it cannot write to."""

    def test_it_runs_with_nothing_around_it(self):
        directory = fresh_directory("operating-container")
        root = directory / "root"
        libraries = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", libraries):
            copy = root / library.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
        shutil.copy(BINARY, root / "logway")
        for name in ("data", "proc"):
            (root / name).mkdir()
        inside = (
            'mount --bind "$0" "$0" && mount --bind "$0/data" "$0/data" && mount -o remount,bind,ro "$0" &&'
            ' mount -t proc proc "$0/proc" && exec chroot "$0" /logway serve --data-dir /data'
            " --kafka-listen 127.0.0.1:0 --http-listen 127.0.0.1:0"
        )
        namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
        if subprocess.run([*namespaces, "true"], capture_output=True).returncode != 0:
            self.skipTest("namespaces cannot be made here")
        log = directory / "log"
        with log.open("wb") as output:
            command = [*namespaces, "sh", "-c", inside, str(root)]
            parent = subprocess.Popen(command, stdout=output, stderr=output, env={})
        self.addCleanup(parent.wait)
        self.addCleanup(parent.kill)
        wait_until(lambda: "ready kafka=" in log.read_text() or parent.poll() is not None, "the broker", DEADLINE_S)
        self.assertIn("ready kafka=", log.read_text())
        children = f"/proc/{parent.pid}/task/{parent.pid}/children"
        with open(children) as listed:
            (broker,) = map(int, listed.read().split())
        os.kill(broker, signal.SIGTERM)
        parent.wait(DEADLINE_S)
        self.assertEqual((parent.returncode, "stopping" in log.read_text()), (0, True), log.read_text())
