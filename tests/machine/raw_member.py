"""The only member of a group, over a raw connection: it sends its heartbeats when it is told to."""

import struct

from harness.offsets import COORDINATOR_BEGINS, await_coordinator
from harness.protocol import Connection, array, data, string

JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
DEADLINE_S = 30


class RawMember:
    """Joins when it is entered, with the oldest versions of the protocol."""

    def __init__(self, bootstrap: str, group: str, session_ms: int):
        self._bootstrap, self._group, self._session_ms = bootstrap, group, session_ms

    def __enter__(self):
        await_coordinator(self._bootstrap, self._group)
        self._connection = Connection(self._bootstrap, DEADLINE_S)
        protocols = array([string("range") + data(b"")])
        join = string(self._group) + struct.pack(">i", self._session_ms) + string("") + string("consumer") + protocols
        error = COORDINATOR_BEGINS[0]
        while error in COORDINATOR_BEGINS:
            joined = self._connection.request(JOIN_GROUP, 0, join)
            (error,) = struct.unpack_from(">h", joined)
        (generation,) = struct.unpack_from(">i", joined, 2)
        # Behind the error and the generation: the protocol, the leader, and the leader again, which is this member.
        at = 6 + len(string("range"))
        (length,) = struct.unpack_from(">h", joined, at)
        leader = joined[at : at + 2 + length]
        self._identity = string(self._group) + struct.pack(">i", generation) + leader
        synced = self._connection.request(SYNC_GROUP, 0, self._identity + array([leader + data(b"")]))
        if error or synced[:2] != b"\0\0":
            raise AssertionError(f"JoinGroup: error {error}; SyncGroup: {synced.hex()}")
        return self

    def __exit__(self, *_):
        self._connection.close()

    def heartbeat(self) -> int:
        """The error code that it is answered with."""
        self.send_heartbeat()
        return self.heartbeat_answer()

    def send_heartbeat(self):
        self._connection.send(HEARTBEAT, 0, self._identity)

    def heartbeat_answer(self) -> int:
        (error,) = struct.unpack_from(">h", self._connection.read_frame(), 4)
        return error
