"""Several nodes of one cluster, each a process of its own."""

import re
import signal

from harness.logway import Logway

NODE_LINE = re.compile(r"other nodes can join here address=(\S+)")


class Node(Logway):
    """A node of a cluster. Its addresses stay the same after every restart, and so does its command line."""

    def __init__(self, name: str, join: list[str], settings: dict[str, str] | None = None):
        super().__init__(name, settings)
        self.join = join
        self.nodes = ""

    def command(self) -> list[str]:
        joined = ["--join", ",".join(self.join)] if self.join else []
        return [*super().command(), "--node-listen", self.nodes or "127.0.0.1:0", *joined]

    def is_ready(self) -> bool:
        found = NODE_LINE.search(self.log_since_start())
        if found:
            self.nodes = found[1]
        return super().is_ready()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def pause(self):
        """Stops the process without a word (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """Nodes 1, 2, … The first founds the cluster, the others join it."""

    def __init__(self, name: str, count: int = 3, settings: dict[str, str] | None = None):
        self.nodes: list[Node] = []
        self.name, self.count, self.settings = name, count, settings

    def __enter__(self):
        try:
            for number in range(1, self.count + 1):
                join = [node.nodes for node in self.nodes]
                self.nodes.append(Node(f"{self.name}-{number}", join, self.settings).start())
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

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]
