"""What others run where they have no Kinesis: kinesalite and kinesis-mock, from npm. They keep their data in memory.

They listen on all addresses of the machine, so whoever starts one has a network of its own (`harness.network`).
"""

import os
import socket
import subprocess
from pathlib import Path

from harness.broker import TESTS, Broker
from harness.network import is_own
from harness.ports import free_addresses

HERE = Path(__file__).resolve().parent / "emulators"
MOCK = HERE / "node_modules" / "kinesis-local"
CONNECT_S = 1


class Emulator(Broker):
    """One of them, at `kinesis`, which speaks HTTP/1.1."""

    def __init__(self, name: str):
        assert is_own(), "the network of this process is not its own"
        super().__init__(name)
        self.kinesis, *self.others = free_addresses(2)

    def is_ready(self) -> bool:
        host, port = self.kinesis.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except OSError:
            return False
        return True

    @property
    def port(self) -> str:
        return self.kinesis.rsplit(":", 1)[1]


class Kinesalite(Emulator):
    kind = "kinesalite"

    def command(self) -> list[str]:
        return ["node", str(HERE / "node_modules" / "kinesalite" / "cli.js"), "--port", self.port, "--createStreamMs", "0"]


class KinesisMock(Emulator):
    kind = "kinesis-mock"

    def command(self) -> list[str]:
        own = {"KINESIS_MOCK_PLAIN_PORT": self.port, "KINESIS_MOCK_TLS_PORT": self.others[0].rsplit(":", 1)[1],
               "KINESIS_MOCK_CERT_PATH": str(MOCK / "server.json"), "LOG_LEVEL": "ERROR", "CREATE_STREAM_DURATION": "10ms"}
        words = [f"{name}={value}" for name, value in own.items()]
        return ["env", *words, "node", str(MOCK / "main.js")]


def need_emulators():
    """Installs them if need be, before the network is left."""
    command = [TESTS / "harness" / "need", "node-modules", HERE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ)
