"""The scripts: what is asked of both brokers, in the same order."""

from dataclasses import dataclass
from typing import Callable

from conformance.side import Side


@dataclass
class Script:
    """`name` is its module and function, and begins the names of its requests and topics. Not all make sense for a stranger:
    some go on from what was answered."""

    name: str
    play: Callable[[Side], None]
    is_for_strangers: bool = True

    @property
    def module(self) -> str:
        return self.name.split(".")[0]


SCRIPTS: list[Script] = []


def script(play: Callable[[Side], None], is_for_strangers: bool = True) -> Callable[[Side], None]:
    """Makes a function a script."""
    SCRIPTS.append(Script(f"{play.__module__.split('.')[-1]}.{play.__name__}", play, is_for_strangers))
    return play


def script_that_goes_on(play: Callable[[Side], None]) -> Callable[[Side], None]:
    """Makes a function a script that goes on from what was answered: who may do nothing gets nowhere with it."""
    return script(play, is_for_strangers=False)
