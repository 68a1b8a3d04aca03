"""Several nodes of one cluster, each a process of its own."""

import re
import signal
from pathlib import Path

from harness.logway import BINARY, Logway
from harness.network import address, on_host
from harness.nodes import Nodes

NODE_LINE = re.compile(r"other nodes can join here address=(\S+)")


class Node(Logway):
    """A node of a cluster. Its addresses stay the same after every restart, and so does its command line.

    `host` is the host of a `Network` that it runs on; without one it is on loopback, at ports that it chooses itself.
    """

    def __init__(
        self,
        name: str,
        join: list[str],
        settings: dict[str, str] | None = None,
        host: int | None = None,
        data_dir: Path | None = None,
        flags: tuple[str, ...] = (),
    ):
        super().__init__(name, settings, data_dir)
        self.join, self.flags = join, flags
        self.nodes = ""
        if host is not None:
            self.settings = {"logway.insecure": "true", **self.settings}
            self.under = on_host(host)
            self.bootstrap, self.nodes, self.http = (f"{address(host)}:{port}" for port in (9092, 9093, 9644))

    def command(self) -> list[str]:
        joined = ["--join", ",".join(self.join)] if self.join else []
        return [*super().command(), "--node-listen", self.nodes or "127.0.0.1:0", *joined, *self.flags]

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


class Cluster(Nodes[Node]):
    """Nodes 1, 2, … The first founds the cluster, the others join it.

    With `hosted`, node N runs on host N of the network of this process. With `racks`, node N is in rack `rack-N`.
    `data_dirs` are theirs, in the same order, if each is not to have one of its own. `binary` is another program than the one that
    was built.
    """

    def __init__(
        self,
        name: str,
        count: int = 3,
        settings: dict[str, str] | None = None,
        hosted: bool = False,
        data_dirs: list[Path] | None = None,
        racks: bool = False,
        binary: str = BINARY,
    ):
        super().__init__()
        self.racks, self.binary = racks, binary
        self.name, self.count, self.settings, self.hosted = name, count, settings, hosted
        self.data_dirs = data_dirs or [None] * count

    def start_all(self):
        for number, data_dir in enumerate(self.data_dirs, 1):
            join = [node.nodes for node in self.nodes]
            host = number if self.hosted else None
            rack = {"broker.rack": f"rack-{number}"} if self.racks else {}
            settings = {**(self.settings or {}), **rack}
            node = Node(f"{self.name}-{number}", join, settings, host, data_dir)
            node.binary = self.binary
            self.nodes.append(node)
            node.start()
