"""Ports for programs that must be told one."""

import errno
import random
import socket

# Below the ports that Linux gives to those who name none (`ip_local_port_range`): a connection of somebody else takes none
# of these between the choice and the start of who is to listen there.
PORTS = range(15_000, 32_000)
# By these names, in the network namespace, other processes know what this one has chosen. They go with the process.
CHOSEN: list[socket.socket] = []


def free_port() -> int:
    """A port of loopback at which nobody listens, and that no other test has chosen."""
    while True:
        port = random.choice(PORTS)
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            try:
                name.bind(f"\0logway-test-port-{port}")
                for one in (stream, datagrams):
                    one.bind(("127.0.0.1", port))
            except OSError as error:
                name.close()
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
        CHOSEN.append(name)
        return port


def free_addresses(count: int) -> list[str]:
    """So many addresses with such ports."""
    return [f"127.0.0.1:{free_port()}" for _ in range(count)]
