"""Long-running programs that suites start, stop, kill and start again."""

import subprocess
from pathlib import Path

STOP_DEADLINE_S = 60


class LoggedProcess:
    """One process at a time, whose output is appended to a file. Only what was started here is ever signalled.

    Subclasses say what to run (`command`). `under` are the words of a program that runs it in its own place, such as
    `prlimit --nofile=96`.
    """

    under: list[str] = []

    def __init__(self, log_path: Path):
        self.log_path = log_path
        self.process: subprocess.Popen | None = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()

    def start(self):
        self.process = self.spawn()
        return self

    def spawn(self) -> subprocess.Popen:
        """Starts a process without waiting for it."""
        with self.log_path.open("ab") as log:
            return subprocess.Popen([*self.under, *self.command()], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> int:
        """Asks for a clean end and returns the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_DEADLINE_S)

    def kill(self):
        """`kill -9`; nothing happens if the process is gone already."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_DEADLINE_S)

    def command(self) -> list[str]:
        raise NotImplementedError


class Program(LoggedProcess):
    """A program beside the broker, with the same command every time."""

    def __init__(self, command: list[str], log_path: Path):
        super().__init__(log_path)
        self._command = command

    def command(self) -> list[str]:
        return self._command

    def check(self):
        """Fails with the end of the log if the process has ended."""
        if self.process.poll() is not None:
            raise AssertionError(f"{self._command[0]} exited with {self.process.returncode}:\n{self.log_end()}")

    def log_end(self) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-60:])
