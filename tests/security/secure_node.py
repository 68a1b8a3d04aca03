"""Nodes that were started with `--secure`, and what clients have of them."""

import json
import subprocess
from pathlib import Path

from harness import shapes
from harness.cluster import Node
from harness.logway import BINARY


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


class SecureNode(Node):
    """A node that founds a secure cluster or, with a token, joins one."""

    def __init__(self, name: str, token: str = "", join: list[str] | None = None, settings: dict[str, str] | None = None):
        super().__init__(name, join or [], settings)
        self.token = token

    def command(self) -> list[str]:
        return [*super().command(), "--secure", *(["--join-token", self.token] if self.token else [])]

    @property
    def files(self) -> Path:
        return self.data_dir / "secure"

    def logway(self, *words: str) -> str:
        return run_as_admin(self.files, *words)

    def new_token(self, uses: int = 1) -> str:
        return self.logway("cluster", "token", "create", "--uses", str(uses)).strip()

    def tokens(self) -> list[dict]:
        return json.loads(self.logway("cluster", "token", "list", "--format", "json"))
