#!/usr/bin/env python3
"""Records what clients send, as the sessions that `logway-hostile` mutates.

    tests/hostile/record.py NAME COMMAND...      from the project's root, such as `... kcat tests/clients/kcat/run.sh`

Starts a broker that tells clients the address of a proxy, runs the command with BOOTSTRAP set to it, and keeps of what
each connection sent its first whole frames. Of all connections those are kept that have a request at a version which no
other has, as crates/hostile/sessions/NAME-N.bin.
"""

import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from harness.broker import TESTS
from harness.logway import Logway
from harness.protocol import parse_address

SESSIONS = TESTS.parent / "crates" / "hostile" / "sessions"
SESSION_BYTES_MAX = 4096


def main(name: str, *command: str) -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = {"advertised.listeners": address, "group.initial.rebalance.delay.ms": "300"}
        with Logway(f"record-{name}", settings) as broker:
            streams = []
            threading.Thread(target=accept, args=(listener, broker.bootstrap, streams), daemon=True).start()
            environment = {**os.environ, "BOOTSTRAP": address, "DATA_DIR": str(broker.data_dir), "AGAINST": "logway"}
            exit_code = subprocess.run(command, env=environment).returncode
    SESSIONS.mkdir(parents=True, exist_ok=True)
    for number, session in enumerate(worth_keeping([whole_frames(bytes(stream)) for stream in streams])):
        (SESSIONS / f"{name}-{number:02}.bin").write_bytes(b"".join(session))
    return exit_code


def accept(listener: socket.socket, bootstrap: str, streams: list[bytearray]):
    while True:
        client, _ = listener.accept()
        broker = socket.create_connection(parse_address(bootstrap))
        streams.append(bytearray())
        threading.Thread(target=forward, args=(client, broker, streams[-1]), daemon=True).start()
        threading.Thread(target=forward, args=(broker, client, None), daemon=True).start()


def forward(source: socket.socket, target: socket.socket, copy: bytearray | None):
    try:
        while part := source.recv(1 << 16):
            if copy is not None and len(copy) < 1 << 20:
                copy += part
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def whole_frames(stream: bytes) -> list[bytes]:
    """The first frames, each with its length, but for long ones."""
    frames, kept_bytes = [], 0
    while len(stream) >= 8:
        (length,) = struct.unpack_from(">i", stream)
        frame, stream = stream[: 4 + length], stream[4 + length :]
        if len(frame) == 4 + length and kept_bytes + len(frame) <= SESSION_BYTES_MAX:
            frames.append(frame)
            kept_bytes += len(frame)
    return frames


def worth_keeping(sessions: list[list[bytes]]) -> list[list[bytes]]:
    """Those with a request that no other has, the richest first."""
    kept, seen = [], set()
    for session in sorted(sessions, key=lambda frames: -len(requests_of(frames))):
        if requests_of(session) - seen:
            kept.append(session)
            seen |= requests_of(session)
    return kept


def requests_of(session: list[bytes]) -> set[tuple[int, int]]:
    return {struct.unpack_from(">hh", frame, 4) for frame in session}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
