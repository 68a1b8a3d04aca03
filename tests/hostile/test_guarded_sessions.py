import os
import random
import re
import unittest

from confluent_kafka.admin import AdminClient
from polite import PoliteProducer, create_topic
from secure import PASSWORD, SecureLogway
from sessions import send_sessions

from harness.seed import SEED
from harness.waiting import wait_until

SESSIONS = int(os.environ.get("SESSIONS", 4_000))
P99_MS_MAX = 250
DEADLINE_S = 60
MEBIBYTE = 1 << 20
# No mutation comes upon these names.
NAME = random.Random(SEED).randbytes(16).hex()
POLITE_TOPIC, USER = f"polite-{NAME}", f"user-{NAME}"
SETTINGS = {
    # Who is refused is refused at once, so that there are many of them.
    "connection.failed.authentication.delay.ms": "0",
    "super.users": f"User:ANONYMOUS;User:{USER}",
}


@unittest.skipIf(os.environ["AGAINST"] != "logway", "listeners are given as Logway takes them")
class GuardedSessions(unittest.TestCase):
    """SESSIONS=N mutated sessions by SEED=N, where clients are asked who they are, beside a polite producer elsewhere."""

    def setUp(self):
        print(f"SEED={SEED} SESSIONS={SESSIONS}", flush=True)
        self.broker = self.enterContext(SecureLogway("hostile-guarded", SETTINGS))
        self.broker.add_user(USER)
        create_topic(self.broker.addresses["PLAINTEXT"], POLITE_TOPIC)

    def test_no_stranger_gets_in_or_hurts_anybody(self):
        """Handshakes and tokens are mutated. Whatever else is answered to a stranger fails the attack."""
        self.attack("--stranger", USER)

    def test_known_users_hurt_nobody(self):
        """Each has told truly who it is, in front of its mutated session; some say it again in the wrong way."""
        self.attack("--user", USER)

    def attack(self, *words: str):
        bootstrap = self.broker.addresses["SASL_PLAINTEXT"]
        with PoliteProducer(self.broker.addresses["PLAINTEXT"], POLITE_TOPIC) as polite:
            rss_bytes_before = self.broker.rss_bytes()
            most = send_sessions(self.broker, bootstrap, 0, SESSIONS, *words, password=PASSWORD)
            latency = polite.finish()
        for metric in ("logway_connections_open", "logway_request_memory_used_bytes"):
            wait_until(lambda metric=metric: self.metric(metric) == 0, f"{metric} to be 0", DEADLINE_S)
        growth_bytes = most - rss_bytes_before
        print(f"{latency}, resident memory +{growth_bytes // MEBIBYTE} MiB", flush=True)
        self.assertIsNone(self.broker.process.poll(), "the broker died")
        self.assertNotIn("panicked", self.broker.log_since_start())
        self.assertLess(growth_bytes, SecureLogway.rss_growth_bytes_max)
        self.assertLess(latency.p99_ms, P99_MS_MAX)
        # The user has the same password as before.
        client = AdminClient(self.broker.client("SASL_PLAINTEXT", "SCRAM-SHA-256", USER))
        self.assertIn(POLITE_TOPIC, client.list_topics(timeout=DEADLINE_S).topics)

    def metric(self, name: str) -> float:
        return float(re.search(rf"^{name} (\S+)$", self.broker.metrics(), re.MULTILINE)[1])
