"""REQUESTS=N requests of AWS's clients, mutated by SEED=N, beside a polite producer: the broker lives, stays small, and lets nobody in.

What is valid in spite of its mutation may be done: streams and tables are made, written and deleted.
"""

import os
import pickle
import subprocess
import sys
import time
import unittest
from pathlib import Path

from corpus import recorded
from polite import PoliteProducer, create_topic

from harness.logway import Logway
from harness.secured import SecuredLogway
from harness.seed import SEED
from harness.waiting import wait_until

REQUESTS = int(os.environ.get("REQUESTS", 10_000))
# A session has so many, in the middle.
REQUESTS_A_SESSION = 6
SESSIONS_BEFORE = 150
# Iterators are good for five minutes: after so many sessions there are new ones.
SESSIONS_OF_A_CORPUS = 5_000
LANES = 8
DEADLINE_S = 60
P99_MS_MAX = 250
MEBIBYTE = 1 << 20
# Streams and tables that mutations make are topics with files; there are not to be many.
SETTINGS = {"kinesis.listen": "127.0.0.1:0", "kinesis.shard.limit": "40"}
ANY_KEY = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}


class Mutated(unittest.TestCase):
    def attack(self, broker, key: dict[str, str], how: str):
        print(f"SEED={SEED} REQUESTS={REQUESTS}", flush=True)
        # What the broker makes once, such as the views of tables, is there before it is looked at.
        self.send(broker, key, how, 1 << 24, SESSIONS_BEFORE)
        before = most = broker.rss_bytes()
        sessions = REQUESTS // REQUESTS_A_SESSION
        for first in range(0, sessions, SESSIONS_OF_A_CORPUS):
            count = min(SESSIONS_OF_A_CORPUS, sessions - first)
            most = max(most, self.send(broker, key, how, first, count))
        memory = "logway_request_memory_used_bytes 0\n"
        wait_until(lambda: memory in broker.metrics(), memory, DEADLINE_S)
        print(f"resident memory {before // MEBIBYTE} MiB before, {most // MEBIBYTE} at most", flush=True)
        self.assertIsNone(broker.process.poll(), "the broker died")
        self.assertNotIn("panicked", broker.log_since_start())
        self.assertLess(most - before, broker.rss_growth_bytes_max)

    def send(self, broker, key: dict[str, str], how: str, first: int, sessions: int) -> int:
        """Sends so many sessions, from a number on; the most resident memory meanwhile."""
        corpus = broker.directory / "corpus"
        corpus.write_bytes(pickle.dumps((recorded(f"http://{broker.kinesis}", key), key)))
        program = [sys.executable, str(Path(__file__).parent / "attack.py"), broker.kinesis, str(corpus), str(SEED)]
        attack = subprocess.Popen([*program, str(first), str(sessions), str(LANES), how])
        self.addCleanup(attack.kill)
        most = 0
        while attack.poll() is None:
            most = max(most, broker.rss_bytes())
            time.sleep(0.1)
        self.assertEqual(attack.returncode, 0, f"SEED={SEED}")
        return most

    def test_where_any_key_is_taken(self):
        broker = Logway("kinesis-mutated", SETTINGS).start()
        self.addCleanup(broker.kill)
        create_topic(broker.bootstrap, "polite")
        with PoliteProducer(broker.bootstrap, "polite") as polite:
            self.attack(broker, ANY_KEY, "open")
            latency = polite.finish()
        print(latency, flush=True)
        self.assertLess(latency.p99_ms, P99_MS_MAX)

    def test_where_signatures_are_checked(self):
        broker = SecuredLogway("kinesis-mutated-secured", SETTINGS | {"kinesis.tls": "false"}).start()
        self.addCleanup(broker.kill)
        self.attack(broker, broker.access_key(), "guarded")


if __name__ == "__main__":
    unittest.main()
