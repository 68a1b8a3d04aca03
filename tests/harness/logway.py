"""Logway as a suite runs it."""

import os
import re
import subprocess
import urllib.request
from pathlib import Path

from harness.broker import TESTS, Broker

BINARY = os.environ.get("LOGWAY", str(TESTS.parent / "target" / "release" / "logway"))

# What measures it.
BENCH = os.environ.get("LOGWAY_BENCH", str(Path(BINARY).with_name("logway-bench")))

METRICS_DEADLINE_S = 30
COMMAND_DEADLINE_S = 60

READY_LINE = re.compile(r"^ready (?:kafka=(\S+) )?http=(\S+) .*?ms=\d+(?: kinesis=(\S+))?(?: log=(\S+))?(?: logspec=(\S+))?$", re.MULTILINE)


def logway(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    """What a command line does, whether it succeeds or not."""
    return subprocess.run([BINARY, *arguments], input=stdin, capture_output=True, timeout=COMMAND_DEADLINE_S)


class Logway(Broker):
    """`logway serve` on free ports, which it chooses itself at the first start."""

    kind = "logway"
    sigterm_exit_code = 0
    restart_s_max = 2.0
    restart_rss_growth_bytes_max = 32 << 20
    rss_growth_bytes_max = 256 << 20
    connection_limit = "max.connections"

    # The program that is started next: another version of it, where a node is upgraded.
    binary = BINARY
    http = ""
    # Where Kinesis clients connect, with the setting `kinesis.listen`.
    kinesis = ""
    # Where clients of the log service connect, and those of logspec, with the settings `logservice.*`.
    log_service = ""
    logspec = ""

    def command(self) -> list[str]:
        listen = ["--kafka-listen", self.bootstrap or "127.0.0.1:0", "--http-listen", self.http or "127.0.0.1:0"]
        # At the same address after every restart.
        again = {"kinesis.listen": self.kinesis} if self.kinesis else {}
        if self.log_service:
            again["logservice.listen"] = self.log_service
        if self.logspec:
            topic = self.settings["logservice.logspec.listen"].rsplit("=", 1)[1]
            again["logservice.logspec.listen"] = f"{self.logspec}={topic}"
        settings = [word for name, value in (self.settings | again).items() for word in ("--set", f"{name}={value}")]
        return [self.binary, "serve", "--data-dir", str(self.data_dir), *listen, *settings]

    def is_ready(self) -> bool:
        found = READY_LINE.search(self.log_since_start())
        if found:
            addresses = (address or "" for address in found.groups())
            self.bootstrap, self.http, self.kinesis, self.log_service, self.logspec = addresses
        return found is not None

    def environment(self) -> dict[str, str]:
        return {"METRICS": f"http://{self.http}/metrics"}

    def metrics(self) -> str:
        """The page for Prometheus."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=METRICS_DEADLINE_S) as page:
            return page.read().decode()
