"""A member of a group, reading in a thread of its own."""

import threading
import time

import client

from client_cases.model import Code, Record, Refused, wait_until

# How many records a member reads before it commits, if more keep coming.
COMMIT_INTERVAL_RECORDS = 5_000


class Member:
    """Joins a group, reads what it is assigned, commits where it has read to, and tells what happened to it."""

    def __init__(self, group: str, topic: str, **settings):
        self.records: list[Record] = []
        self.assigned: set[int] = set()
        # One entry for each call back, in their order: the partitions that came or went.
        self.gained: list[set[int]] = []
        self.lost: list[set[int]] = []
        self.error: BaseException | None = None
        self._leaving = threading.Event()
        self._consumer = client.Consumer(group=group, **settings)
        self._thread = threading.Thread(target=self._run, args=(topic,))
        self._thread.start()

    def wait_for_partitions(self, count: int):
        self.wait_until(lambda: len(self.assigned) == count, f"{count} partitions")

    def wait_until(self, condition, what: str):
        def holds():
            if self.error:
                raise self.error
            return condition()

        wait_until(holds, f"a member to have {what}; it has {self.assigned} and {len(self.records)} records")

    def leave(self):
        """Commits, closes, and raises whatever went wrong in the meantime."""
        self.close()
        if self.error:
            raise self.error

    def close(self):
        self._leaving.set()
        self._thread.join()

    def _run(self, topic: str):
        try:
            try:
                self._consumer.subscribe(topic, self._gain, self._lose)
                self._read()
            finally:
                self._consumer.close()
        except BaseException as error:
            self.error = error

    def _read(self):
        uncommitted = 0
        while not self._leaving.is_set():
            records = self._consumer.poll(0.1)
            self.records += records
            uncommitted += len(records)
            if uncommitted and (uncommitted >= COMMIT_INTERVAL_RECORDS or not records) and self._commit():
                uncommitted = 0
        deadline = time.monotonic() + 10
        while uncommitted and not self._commit() and time.monotonic() < deadline:
            self.records += self._consumer.poll(0.1)

    def _commit(self) -> bool:
        """Whether the offsets are committed; while the group rebalances, that has to wait for the next poll."""
        try:
            self._consumer.commit()
            return True
        except Refused as refused:
            if refused.code not in (Code.REBALANCE_IN_PROGRESS, Code.ILLEGAL_GENERATION):
                raise
            return False

    def _gain(self, partitions: set[int]):
        self.gained.append(partitions)
        self.assigned = self.assigned | partitions

    def _lose(self, partitions: set[int]):
        self.lost.append(partitions)
        self.assigned = self.assigned - partitions
