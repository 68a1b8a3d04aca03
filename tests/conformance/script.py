"""The scripts: what is asked of both brokers, in the same order."""

from dataclasses import dataclass
from typing import Callable

from conformance.side import Side


@dataclass
class Script:
    """`name` is its module and function, and begins the names of its requests and topics."""

    name: str
    play: Callable[[Side], None]

    @property
    def module(self) -> str:
        return self.name.split(".")[0]


SCRIPTS: list[Script] = []


def script(play: Callable[[Side], None]) -> Callable[[Side], None]:
    """Makes a function a script."""
    SCRIPTS.append(Script(f"{play.__module__.split('.')[-1]}.{play.__name__}", play))
    return play
