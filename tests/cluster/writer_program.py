"""A program with a client of its own that writes until its input ends, and prints what was acknowledged."""

import os
import subprocess
import threading
from pathlib import Path
from typing import BinaryIO

from harness.load import DEADLINE_S


class WriterProgram:
    """It runs within the block. What it says on its error output is in `log_path`; a subclass takes what it prints."""

    def __init__(self, command: list[str], directory: Path, environment: dict[str, str] | None = None):
        self.log_path = directory / "writer.log"
        self._command, self._environment = command, environment or {}

    def __enter__(self):
        with self.log_path.open("wb") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self.process = subprocess.Popen(self._command, env=os.environ | self._environment, **pipes)
        self._thread = threading.Thread(target=self.take_acks, args=(self.process.stdout,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self._wait()

    @property
    def errors(self) -> list[str]:
        raise NotImplementedError

    def take_acks(self, printed: BinaryIO):
        """Takes each acknowledgement when it comes, until there are no more."""
        raise NotImplementedError

    def finish(self):
        """Stops writing and waits for what is on its way."""
        self.process.stdin.close()
        self._wait()
        if self.process.returncode != 0:
            raise AssertionError(f"{self._command[0]}: {self.errors[:3]}")

    def _wait(self):
        self.process.wait(DEADLINE_S)
        self._thread.join()
