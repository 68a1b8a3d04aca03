import os
import time
import unittest

from polite import TOPIC, PoliteProducer, create_topic

from harness.brokers import KINDS
from harness.protocol import (
    ALTER_CLIENT_QUOTAS,
    PRODUCE,
    Connection,
    batch_v2,
    client_quota_v0,
    produce_error_v3,
    produce_v3,
)

KIND = KINDS[os.environ["AGAINST"]]
P99_MS_MAX = 250
QUOTA_BYTES = 1_000_000
FRAME_BYTES = 100_000
SECONDS = 4
# A use is judged over two windows of a second, so a client may begin with what they are worth.
SETTINGS = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
AHEAD_S = 2


class Quota(unittest.TestCase):
    """A client that pushes all it can beside a polite producer; tests/bench/quota.py is the same for longer."""

    def test_who_pushes_gets_the_quota_and_nobody_else_feels_it(self):
        broker = KIND("hostile-quota", SETTINGS).start()
        self.addCleanup(broker.kill)
        for topic in (TOPIC, "pushed"):
            create_topic(broker.bootstrap, topic)
        greedy = self.enterContext(Connection(broker.bootstrap, client_id="greedy"))
        quota = client_quota_v0("greedy", "producer_byte_rate", QUOTA_BYTES)
        self.assertEqual(greedy.request(ALTER_CLIENT_QUOTAS, 0, quota)[8:10], b"\0\0")
        polite = self.enterContext(PoliteProducer(broker.bootstrap))

        body = produce_v3("pushed", 0, batch_v2([b"x" * FRAME_BYTES], 0))
        began, acked = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - began) < SECONDS:
            self.assertEqual(produce_error_v3(greedy.request(PRODUCE, 3, body)), 0)
            acked += FRAME_BYTES
        latency = polite.finish()
        print(f"the pusher got {acked / elapsed_s / 1e6:.2f} MB/s, {latency}")
        self.assertLess(acked, QUOTA_BYTES * (elapsed_s + AHEAD_S) + FRAME_BYTES)
        self.assertGreater(acked, QUOTA_BYTES * SECONDS / 2)
        self.assertLess(latency.p99_ms, P99_MS_MAX)
