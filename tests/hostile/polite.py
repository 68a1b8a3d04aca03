"""A well-behaved producer in a process of its own, whose latencies tell what the others cost it."""

import multiprocessing
import time
from dataclasses import dataclass

from harness.protocol import CREATE_TOPICS, PRODUCE, Connection, batch_v2, create_topic_v2, produce_error_v3, produce_v3

TOPIC = "polite"
INTERVAL_S = 0.002
DEADLINE_S = 30
# How many acks are waited for before an attack: what it is compared with.
CALM_ACKS = 500


@dataclass
class Latency:
    """99th percentiles in milliseconds, before the attack and since."""

    calm_p99_ms: float
    p99_ms: float

    def __str__(self):
        return f"polite p99 {self.p99_ms:.1f} ms, {self.calm_p99_ms:.1f} ms without"


class PoliteProducer:
    """Sends a record, waits for its ack, rests for 2 ms, and so on, on one connection that must never break.

    It begins before the attack, when nobody is in its way.
    """

    def __init__(self, bootstrap: str, topic: str = TOPIC):
        context = multiprocessing.get_context("spawn")
        self._latencies, answers = context.Pipe(duplex=False)
        self._stopping = context.Event()
        self._acked = context.Value("q", 0)
        told = (bootstrap, topic, self._stopping, self._acked, answers)
        self._process = context.Process(target=produce_until, args=told)

    def __enter__(self):
        self._process.start()
        self.wait_for_acks(CALM_ACKS)
        self._calm_acks = self.acked()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._process.join(DEADLINE_S)
        self._process.kill()

    def acked(self) -> int:
        return self._acked.value

    def wait_for_acks(self, more: int):
        """Waits until it has got so many more acks: it lives on, and the broker serves it."""
        goal, deadline = self.acked() + more, time.monotonic() + DEADLINE_S
        while self.acked() < goal:
            if not self._process.is_alive() or time.monotonic() > deadline:
                raise AssertionError(f"the polite producer got {self.acked()} of {goal} acks in {DEADLINE_S} s")
            time.sleep(0.001)

    def finish(self) -> Latency:
        """Stops it; how it was served."""
        self._stopping.set()
        if not self._latencies.poll(DEADLINE_S):
            raise AssertionError(f"the polite producer waited more than {DEADLINE_S} s for an ack")
        latencies_ms = self._latencies.recv()
        return Latency(p99(latencies_ms[: self._calm_acks]), p99(latencies_ms[self._calm_acks :]))


def p99(latencies_ms: list[float]) -> float:
    return sorted(latencies_ms)[len(latencies_ms) * 99 // 100]


def produce_until(bootstrap, topic, stopping, acked, answers):
    latencies_ms = []
    with Connection(bootstrap, DEADLINE_S) as connection:
        while not stopping.is_set():
            began = time.monotonic()
            body = produce_v3(topic, 0, batch_v2([b"x" * 100], int(time.time() * 1000)))
            error = produce_error_v3(connection.request(PRODUCE, 3, body))
            if error != 0:
                raise AssertionError(f"error code {error}")
            latencies_ms.append((time.monotonic() - began) * 1000)
            acked.value += 1
            time.sleep(INTERVAL_S)
    answers.send(latencies_ms)


def create_topic(bootstrap: str, topic: str):
    """Creates a topic with one partition, and returns when it takes records."""
    with Connection(bootstrap) as connection:
        connection.request(CREATE_TOPICS, 2, create_topic_v2(topic, 1))
        deadline = time.monotonic() + DEADLINE_S
        body = produce_v3(topic, 0, batch_v2([b"first"], int(time.time() * 1000)))
        while produce_error_v3(connection.request(PRODUCE, 3, body)) != 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} takes no records after {DEADLINE_S} s")
            time.sleep(0.01)
