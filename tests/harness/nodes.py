"""Several nodes that make one cluster, of ours or of Apache Kafka."""

from typing import Generic, TypeVar

from harness.broker import Broker

N = TypeVar("N", bound=Broker)


class Nodes(Generic[N]):
    """Nodes 1, 2, … They are started at the beginning of a block, and killed at its end."""

    def __init__(self):
        self.nodes: list[N] = []

    def start_all(self):
        raise NotImplementedError

    def __enter__(self):
        try:
            self.start_all()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        for node in self.nodes:
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def node(self, number: int) -> N:
        return self.nodes[number - 1]
