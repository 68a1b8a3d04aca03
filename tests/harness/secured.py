"""Logway as it is started with `--secure`, and what clients have of it."""

import shlex
import subprocess
from pathlib import Path

from harness import shapes
from harness.logway import BINARY, Logway


def librdkafka(files: Path) -> dict[str, str]:
    """The settings of librdkafka that a node has written below `secure`."""
    lines = (files / "librdkafka.conf").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def run_as_admin(files: Path, *words: str) -> str:
    """A command of `logway`, with the profile that a node has written."""
    command = [BINARY, *words, "--profile-file", str(files / "profiles.toml"), "--profile", "admin"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    shapes.check(words, done.stdout.encode())
    return done.stdout


class SecuredLogway(Logway):
    """On an empty directory, and again on the same."""

    def command(self) -> list[str]:
        return [*super().command(), "--secure"]

    @property
    def files(self) -> Path:
        return self.data_dir / "secure"

    def librdkafka(self) -> dict[str, str]:
        return librdkafka(self.files)

    def logway(self, *words: str) -> str:
        return run_as_admin(self.files, *words)

    def access_key(self, owner: str = "admin") -> dict[str, str]:
        """Variables for programs of AWS."""
        printed = self.logway("token", "create", "--owner", owner, "--aws", "env")
        return dict(word.split("=", 1) for word in shlex.split(printed) if "=" in word)
