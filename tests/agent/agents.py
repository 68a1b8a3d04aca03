"""Our agents and Flume's, as processes of a case."""

import json
import os
import random
import signal
import subprocess
import unittest
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.broker import TESTS, fresh_directory
from harness.logway import BINARY, Logway
from harness.network import address, on_host
from harness.ports import free_port
from harness.seed import SEED
from harness.waiting import wait_until

DEADLINE_S = 60
KILL_DEADLINE_S = 120


def needed(*what: str) -> Path:
    """What `tests/harness/need` makes present."""
    need = subprocess.run([TESTS / "harness" / "need", *what], check=True, stdout=subprocess.PIPE, text=True)
    return Path(need.stdout.strip())


def libraries_of(unpacked: Path) -> dict[str, str]:
    """The environment in which programs of packages that are not installed find their libraries."""
    folders = [unpacked / "usr/lib/x86_64-linux-gnu", unpacked / "lib/x86_64-linux-gnu", unpacked / "usr/lib/syslog-ng"]
    return os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, folders)), "TZ": "UTC"}


class AgentProcess:
    """A process with a configuration, which a case starts, kills and starts again."""

    ready_s_max = DEADLINE_S

    def __init__(self, case: unittest.TestCase, directory: Path, name: str, configuration: str):
        self.file = directory / f"{name}.conf"
        self.file.write_text(configuration)
        self.log = directory / f"{name}.log"
        self.process = None
        case.addCleanup(self.kill)

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self, log: str) -> bool:
        raise NotImplementedError

    def environment(self) -> dict[str, str] | None:
        return None

    def start(self):
        began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment())

        def ready() -> bool:
            text = self.log.read_bytes()[began:].decode(errors="replace")
            assert self.process.poll() is None, f"{self.file.name} ended before it was ready:\n{text[-4000:]}"
            return self.is_ready(text)

        wait_until(ready, f"{self.file.name} to be ready", self.ready_s_max)
        return self

    def kill(self):
        """As a power cut of the process: SIGKILL."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        """In good order; the exit code."""
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process is gone")


class Agent(AgentProcess):
    """Ours; its configuration is TOML, or with `flume_name` one of Flume's.

    `host` is the host of a `Network` that it runs on, if it is not on this one.
    """

    def __init__(self, case, directory, name, configuration, flume_name: str = "", host: int | None = None):
        super().__init__(case, directory, name, configuration)
        self.flume_name = flume_name
        self.under = on_host(host) if host else []
        self.metrics = f"{address(host) if host else '127.0.0.1'}:{free_port()}"

    def command(self):
        file = ["--flume-conf", str(self.file), "--name", self.flume_name] if self.flume_name else [str(self.file)]
        return [*self.under, BINARY, "agent", "run", *file, "--metrics", self.metrics, "--reload-interval", "1"]

    def is_ready(self, log):
        return "ready metrics=" in log

    def counters(self, component: str) -> dict[str, str]:
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=DEADLINE_S) as page:
            return json.load(page)[component]

    def count(self, component: str, counter: str) -> int:
        return int(self.counters(component)[counter])


class Flume(AgentProcess):
    """Apache Flume 1.11, with the agent `a` of a properties file."""

    def command(self):
        jars = Path(os.environ["FLUME_JARS"])
        application = ["org.apache.flume.node.Application", "--conf-file", str(self.file), "--name", "a", "--no-reload-conf"]
        return ["java", "-Xmx128m", "-cp", f"{jars}/*", *application]

    def is_ready(self, log):
        # Each component says so once.
        return log.count(" started") >= self.file.read_text().count(".type = ")


class AgentCase(unittest.TestCase):
    """A case with a directory of its own."""

    def setUp(self):
        self.directory = fresh_directory(f"agent-{type(self).__name__.lower()}-{self._testMethodName}")

    def kill_in_turn(self, victims: list[AgentProcess], lines: Callable[[], list[str]], events: int, kills: int,
                     deadline_s: int = KILL_DEADLINE_S):
        """Kills one or another of the processes, and starts it again, each time that more lines have come."""
        chance = random.Random(SEED)
        for _ in range(kills):
            so_far = len(lines())
            step = chance.randrange(1, events // kills)
            wait_until(lambda: len(lines()) >= min(so_far + step, events), "events to go on", deadline_s)
            victim = chance.choice(victims)
            victim.kill()
            victim.start()

    def started_broker(self, name: str, settings: dict[str, str] | None = None) -> Logway:
        """A broker that ends with the test."""
        broker = Logway(name, settings)
        broker.start()
        self.addCleanup(broker.kill)
        return broker

    def made(self, name: str) -> Path:
        """A directory below it."""
        path = self.directory / name
        path.mkdir(exist_ok=True)
        return path

    def spooled(self, lines: Iterable[object], name: str = "spool") -> Path:
        """A directory below it with one file of these lines."""
        spool = self.made(name)
        (spool / "events").write_text("".join(f"{line}\n" for line in lines))
        return spool


class BrokerCase(AgentCase):
    """One that has a broker, too."""

    def setUp(self):
        super().setUp()
        self.broker = self.started_broker(f"agent-{self._testMethodName}")

    def tailing(self, logs: Path, more: str = "") -> Agent:
        """An agent that puts the lines of rotated files into the topic `lines`."""
        return Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'taildir'\npositionFile = '{self.directory}/positions.json'\n"
            f"writePosInterval = 100\nbackoffSleepIncrement = 20\nmaxBackoffSleep = 50\nchannels = ['c']\n"
            f"[sources.r.filegroups]\nall = '{logs}/.*\\.log(\\.\\d+)?'\n"
            f"[channels.c]\ntype = 'file'\ndataDirs = '{self.directory}/channel'\nminimumRequiredSpace = 1048576\n"
            f"[sinks.k]\ntype = 'kafka'\nchannel = 'c'\n'kafka.bootstrap.servers' = '{self.broker.bootstrap}'\n"
            f"'kafka.topic' = 'lines'\n{more}",
        )


def lines_in(directory: Path) -> list[str]:
    """All lines of all files."""
    return [line for file in sorted(directory.iterdir()) for line in file.read_text().splitlines()]
