"""Gives a process what systemd gives a service: a socket for what it says of itself, and its output's name."""

import os
import socket
import subprocess
from pathlib import Path

DEADLINE_S = 60


class Supervisor:
    """The socket of `NOTIFY_SOCKET` (sd_notify(3))."""

    def __init__(self, path: Path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.05)
        self.environment = {**os.environ, "NOTIFY_SOCKET": str(path)}

    def close(self):
        self._socket.close()

    def next_state(self, process: subprocess.Popen) -> str:
        """What the process says next; fails if it ends without."""
        for _ in range(int(DEADLINE_S / 0.05)):
            try:
                return self._socket.recv(4096).decode()
            except TimeoutError:
                if process.poll() is not None:
                    raise AssertionError(f"ended with exit code {process.returncode}, and said nothing") from None
        raise AssertionError(f"said nothing for {DEADLINE_S} s")
