"""An attack beside a polite producer: its latency and the broker's memory stay within bounds."""

import contextlib
import resource
import unittest

from polite import TOPIC, PoliteProducer, create_topic

from harness.protocol import Connection

P99_MS_MAX = 250
POLITE_REQUESTS = 500
MEBIBYTE = 1 << 20


class Attacked(unittest.TestCase):
    """Cases that attack `broker`, behind `watch`."""

    @classmethod
    def setUpClass(cls):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def watch(self, broker, bootstrap: str):
        """Begins the polite producer, at a listener that asks nobody who he is."""
        self.broker = broker
        create_topic(bootstrap, TOPIC)
        self.polite = self.enterContext(PoliteProducer(bootstrap))
        self.rss_bytes_before = self.rss_bytes_most = broker.rss_bytes()

    def connect(self, bootstrap: str, count: int, timeout_s: float = 10) -> list[Connection]:
        stack = self.enterContext(contextlib.ExitStack())
        return [stack.enter_context(Connection(bootstrap, timeout_s)) for _ in range(count)]

    def attack(
        self,
        step,
        polite_requests: int = POLITE_REQUESTS,
        p99_ms_max: int = P99_MS_MAX,
        growth_bytes_max: int | None = None,
    ):
        """Repeats a step of the attack until the polite producer has been served often enough, then judges."""
        goal = self.polite.acked() + polite_requests
        while self.polite.acked() < goal:
            step()
            self.polite.wait_for_acks(1)
            self.rss_bytes_most = max(self.rss_bytes_most, self.broker.rss_bytes())
        latency = self.polite.finish()
        growth_bytes = self.rss_bytes_most - self.rss_bytes_before
        print(f"{self.id().split('.')[-1]}: {latency}, resident memory +{growth_bytes // MEBIBYTE} MiB", flush=True)
        self.assertLess(latency.p99_ms, p99_ms_max)
        self.assertLess(growth_bytes, growth_bytes_max or self.broker.rss_growth_bytes_max)
        self.assertIsNone(self.broker.process.poll(), "the broker died")
        self.assertNotIn("panicked", self.broker.log_since_start())
