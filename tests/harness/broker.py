"""A broker process that a suite starts, kills and restarts."""

import os
import shutil
import time
from pathlib import Path

from harness.program import LoggedProcess

TESTS = Path(__file__).resolve().parent.parent
WORK = TESTS / ".work"
BROKERS = WORK / "brokers"

READY_DEADLINE_S = 60
POLL_INTERVAL_S = 0.005
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class BrokerFailed(Exception):
    """The process ended, or did not become ready in time; the message carries the end of its log."""


class Broker(LoggedProcess):
    """One broker over one directory. It listens on loopback only, at the same address after every restart.

    Only a process started here is ever signalled. Subclasses say what to run (`command`), when it accepts
    requests (`is_ready`), and in what the two brokers differ (the constants).
    """

    kind: str
    sigterm_exit_code: int
    restart_s_max: float
    # A start may take so long.
    ready_deadline_s: float = READY_DEADLINE_S
    # How much more resident memory a restart may leave behind than there was before.
    restart_rss_growth_bytes_max: int
    # How much resident memory clients may cost, however they behave.
    rss_growth_bytes_max: int
    # The setting by which connections beyond a number are closed as they come.
    connection_limit: str

    def __init__(
        self,
        name: str,
        settings: dict[str, str] | None = None,
        data_dir: Path | None = None,
        under: list[str] | None = None,
    ):
        """`name` says what it is for; the data goes to `data_dir`, or else to a fresh directory in tests/.work/brokers.

        That directory stays when the process has ended, for whoever looks into a failure, until the next of that name;
        tests/run.py removes those of suites that passed.
        """
        self.directory = fresh_directory(f"{name}-{self.kind}")
        super().__init__(self.directory / "broker.log")
        self.data_dir = data_dir or self.directory / "data"
        self.settings = settings or {}
        self.under = under or []
        self.bootstrap = ""

    def start(self):
        """Starts the process and returns when it accepts requests; `ready_s` says how long that took."""
        self.begin()
        return self.wait_until_ready()

    def begin(self):
        """Starts the process, and does not wait for it."""
        self._began = time.monotonic()
        self._log_offset_bytes = self.log_path.stat().st_size if self.log_path.exists() else 0
        self.process = self.spawn()

    def wait_until_ready(self):
        """Returns when the process that was begun accepts requests; `ready_s` says how long that took."""
        try:
            while not self.is_ready():
                if self.process.poll() is not None:
                    raise self._failure(f"ended with exit code {self.process.returncode} before it was ready")
                if time.monotonic() - self._began > self.ready_deadline_s:
                    raise self._failure(f"was not ready within {self.ready_deadline_s} s")
                time.sleep(POLL_INTERVAL_S)
        except BaseException:
            self.kill()
            raise
        self.ready_s = time.monotonic() - self._began
        return self

    def environment(self) -> dict[str, str]:
        """What a suite is told of the broker beside its address and its data."""
        return {}

    def rss_bytes(self) -> int:
        """Resident memory."""
        return self._memory_bytes("VmRSS")

    def peak_rss_bytes(self) -> int:
        """The most that resident memory ever was."""
        return self._memory_bytes("VmHWM")

    def _memory_bytes(self, what: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{what}:"):
                return int(line.split()[1]) * 1024
        raise self._failure("is not running")

    def cpu_s(self) -> float:
        """The processor time that the process has taken, in seconds, to a hundredth."""
        # The name of the program, in parentheses, may hold anything.
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S

    def log_since_start(self) -> str:
        """What the process has printed, on either stream, since it was last started."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_offset_bytes)
            return log.read().decode(errors="replace")

    def is_ready(self) -> bool:
        raise NotImplementedError

    def _failure(self, what: str) -> BrokerFailed:
        tail = "\n".join(self.log_since_start().splitlines()[-40:])
        return BrokerFailed(f"{self.kind} {what}; the end of {self.log_path}:\n{tail}")


def fresh_directory(name: str) -> Path:
    """An empty directory of this process's own; those of the same name that ended processes have left are removed."""
    for left in BROKERS.glob(f"{name}.*"):
        pid = left.suffix.removeprefix(".")
        if pid == str(os.getpid()) or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
    directory = BROKERS / f"{name}.{os.getpid()}"
    directory.mkdir(parents=True)
    return directory
