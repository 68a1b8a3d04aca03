"""A network of this machine's own: hosts in network namespaces, each on a cable to one switch, which a case cuts.

The process that makes it must have a network namespace and mounts of its own, which `in_own_network` gives it. So
nothing of it is seen outside, and all goes with the process, however it ends. The process itself is on the switch, too.
"""

import os
import subprocess
import sys
from pathlib import Path

from harness.broker import TESTS

# Says to a process that the network namespace is its own.
OWN = "OWN_NETWORK"
SUBNET = "10.77.0"
BRIDGE = "switch"
NAMES = Path("/run/netns")
WITHOUT = "network namespaces are for root, on Linux"


def is_own() -> bool:
    """Whether the network of this process is its own; then its loopback is there, too."""
    if os.environ.get(OWN) != "yes":
        return False
    run("ip", "link", "set", "lo", "up")
    return True


def in_own_network():
    """Begins this program anew in a network of its own, if that is allowed and not yet so."""
    if is_own() or subprocess.run([*unshared(), "true"], capture_output=True).returncode != 0:
        return
    os.environ[OWN] = "yes"
    command = [*unshared(), sys.executable, *sys.argv]
    os.execvp(command[0], command)


def unshared() -> list[str]:
    """The words that run a program with a network and mounts of its own."""
    return ["unshare", "--net", "--mount"]


def run(*words: str):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotPossible(f"{' '.join(words)}: {done.stderr.strip()}")


class NotPossible(Exception):
    """The kernel or the machine does not have what was asked for."""


class Network:
    """Hosts 1, 2, … with the addresses 10.77.0.1, 10.77.0.2, …; this process is 10.77.0.254."""

    def __init__(self, hosts: int):
        self.hosts = range(1, hosts + 1)
        self._rules = 0

    def __enter__(self):
        assert is_own(), "the network of this process is not its own"
        # Names of namespaces are files below this directory; those of others are not touched.
        NAMES.mkdir(exist_ok=True)
        if not NAMES.is_mount():
            run("mount", "-t", "tmpfs", "names", str(NAMES))
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{SUBNET}.254/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for host in self.hosts:
            run("ip", "netns", "add", namespace(host))
            run("ip", "link", "add", port(host), "type", "veth", "peer", "name", "eth0", "netns", namespace(host))
            run("ip", "link", "set", port(host), "master", BRIDGE, "up")
            run("ip", "-n", namespace(host), "link", "set", "lo", "up")
            run("ip", "-n", namespace(host), "address", "add", f"{address(host)}/24", "dev", "eth0")
            run("ip", "-n", namespace(host), "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_):
        """When no process is on any of the hosts any more."""
        self.heal()
        for host in self.hosts:
            run("ip", "link", "delete", port(host))
            run("ip", "netns", "delete", namespace(host))
        run("ip", "link", "delete", BRIDGE)

    def unplug(self, host: int):
        """Pulls a host's cable out of the switch: the host sees that, and the others hear nothing any more."""
        run("ip", "link", "set", port(host), "down")

    def plug(self, host: int):
        run("ip", "link", "set", port(host), "up")

    def block(self, sender: int, receiver: int):
        """What one host sends to another does not arrive, and nobody is told."""
        self._drop(f"iifname {port(sender)} oifname {port(receiver)}")

    def part(self, one: int, other: int):
        """Neither of two hosts hears the other; both hear all others."""
        self.block(one, other)
        self.block(other, one)

    def lose(self, percent: int):
        """So much of all that hosts send to each other is lost."""
        self._drop(f"numgen random mod 100 < {percent}")

    def delay(self, milliseconds: int):
        """All that hosts send takes so much longer."""
        for host in self.hosts:
            run("tc", "qdisc", "replace", "dev", port(host), "root", "netem", "delay", f"{milliseconds}ms")

    def heal(self):
        """All cables are in, and everything arrives."""
        for host in self.hosts:
            self.plug(host)
        if self._rules:
            run(nft(), "delete", "table", "bridge", "cuts")
            self._rules = 0

    def _drop(self, what: str):
        """Of what the switch passes from one cable to another."""
        if not self._rules:
            run(nft(), "add", "table", "bridge", "cuts")
            run(nft(), "add", "chain", "bridge", "cuts", "forward", "{ type filter hook forward priority 0; }")
        self._rules += 1
        run(nft(), "add", "rule", "bridge", "cuts", "forward", *what.split(), "drop")


def address(host: int) -> str:
    return f"{SUBNET}.{host}"


def namespace(host: int) -> str:
    return f"host{host}"


def port(host: int) -> str:
    """The end of a host's cable at the switch."""
    return f"port{host}"


def on_host(host: int) -> list[str]:
    """The words that run a program on a host. It has the process id that they began with."""
    return ["ip", "netns", "exec", namespace(host)]


def nft() -> str:
    """It must have been asked for before, with `need nft`: there is no way out of a network of one's own."""
    return subprocess.run([TESTS / "harness" / "need", "nft"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
