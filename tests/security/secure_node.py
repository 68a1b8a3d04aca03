"""Nodes that were started with `--secure`, and what clients have of them."""

import json
from pathlib import Path

from harness.cluster import Node
from harness.secured import run_as_admin


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
