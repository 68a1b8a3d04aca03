"""A consumer group on threads of its own, which remembers what it has read."""

import threading
from collections import Counter

from confluent_kafka import Consumer

from harness.load import DEADLINE_S, QUIET, number_of
from harness.waiting import wait_until


class Members:
    """Consumers of one group, which read a topic of numbered records and commit as they go.

    `seen[partition]` are the numbers that any of them has read; `given` counts how often each was given partitions.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, count: int, session_timeout_ms: int):
        self.seen = [set() for _ in range(partitions)]
        self.given = Counter()
        self.failures = []
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"readers-of-{topic}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": session_timeout_ms // 5,
            **QUIET,
        }
        self._topic = topic
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number, Consumer(settings))) for number in range(count)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.given) == len(self._threads), "each member to have partitions", DEADLINE_S)
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait_for_all(self, acked: list[list[tuple[int, int]]]):
        """Waits until each of these records was read."""

        def are_seen() -> bool:
            if self.failures:
                raise AssertionError(f"{len(self.failures)} consumers failed: {self.failures[:3]}")
            return all(seen.issuperset(number for number, _ in numbers) for seen, numbers in zip(self.seen, acked))

        wait_until(are_seen, "a group to have read all that was acknowledged", DEADLINE_S)

    def _run(self, number: int, consumer: Consumer):
        def assigned(_, partitions):
            if partitions:
                self.given[number] += 1

        try:
            consumer.subscribe([self._topic], on_assign=assigned)
            while not self._stopping.is_set():
                for message in consumer.consume(1_000, timeout=0.05):
                    if message.error() is None:
                        partition = message.partition()
                        self.seen[partition].add(number_of(partition, message.value()))
                    elif not message.error().retriable():
                        raise AssertionError(str(message.error()))
        except Exception as failure:
            self.failures.append(failure)
        finally:
            consumer.close()
