"""Which quota binds a user who has said who it is: Kafka's table of precedence (KIP-55, KIP-546)."""

import struct
import time
import unittest

from secure import PASSWORD, SecureLogway

from harness.protocol import (
    ALTER_CLIENT_QUOTAS,
    CREATE_TOPICS,
    PRODUCE,
    Connection,
    array,
    batch_v2,
    create_topic_v2,
    produce_error_v3,
    produce_v3,
    string,
)

DEADLINE_S = 30
TOPIC = "pushed"
PUSHED_BYTES = 1_000_000
# A client may begin with what one window is worth, and waits for all at most.
SETTINGS = {"quota.window.num": "100", "quota.window.size.seconds": "1"}
RATE_BYTES = 10_000
# None is the default of that kind. The first that there is binds.
PRECEDENCE = [
    {"user": "USER", "client-id": "CLIENT"},
    {"user": "USER", "client-id": None},
    {"user": "USER"},
    {"user": None, "client-id": "CLIENT"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "CLIENT"},
    {"client-id": None},
]


class Quotas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = SecureLogway("secure-quotas", SETTINGS).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.admin = Connection(cls.broker.addresses["PLAINTEXT"])
        cls.addClassCleanup(cls.admin.close)
        cls.admin.request(CREATE_TOPICS, 2, create_topic_v2(TOPIC, 1))

    def test_the_most_specific_quota_binds(self):
        """Each quota allows another rate, by which it is known; one after the other is removed."""
        users = [f"user-{number}" for number in range(len(PRECEDENCE))]
        for user in users:
            self.broker.add_user(user)
            self.broker.allow(user, "--topic", TOPIC, "--operation", "write")
        for number, user in enumerate(users):
            # A user and a client of whom the broker has seen nothing, so that nothing is owed from before.
            names = {"USER": user, "CLIENT": f"client-{number}"}
            for level in range(number, len(PRECEDENCE)):
                self.set_quota(names, level, rate_of(level))
            bound_to = self.rate_by_which_is_bound(user, names["CLIENT"])
            self.assertAlmostEqual(bound_to / rate_of(number), 1, delta=0.04, msg=PRECEDENCE[number])
            # Those of a name bind others no more; those that are defaults would bind the next.
            self.set_quota(names, number, None)
        names = {"USER": "user-7", "CLIENT": "client-7"}
        self.assertIsNone(self.rate_by_which_is_bound("user-7", "another"), names)

    def test_a_quota_of_a_user_binds_nobody_else(self):
        """Two users with the same client id, one of whom has a quota; and somebody who is not asked who it is."""
        for user in ("alice", "bob"):
            self.broker.add_user(user)
            self.broker.allow(user, "--topic", TOPIC, "--operation", "write")
        names = {"USER": "alice"}
        self.set_quota(names, 2, RATE_BYTES)
        self.addCleanup(self.set_quota, names, 2, None)
        self.assertAlmostEqual(self.rate_by_which_is_bound("alice", "app") / RATE_BYTES, 1, delta=0.04)
        self.assertIsNone(self.rate_by_which_is_bound("bob", "app"))
        self.assertIsNone(self.rate_by_which_is_bound("", "app"))

    def set_quota(self, names: dict[str, str], level: int, rate: float | None):
        parts = [string(kind) + string(name and names[name]) for kind, name in PRECEDENCE[level].items()]
        op = string("producer_byte_rate") + struct.pack(">d?", rate or 0, rate is None)
        body = array([array(parts) + array([op])]) + b"\0"
        answer = self.admin.request(ALTER_CLIENT_QUOTAS, 0, body)
        self.assertEqual(answer[8:10], b"\0\0", PRECEDENCE[level])

    def rate_by_which_is_bound(self, user: str, client_id: str) -> float | None:
        """By what a client is told to wait that has sent what is worth many seconds."""
        listener = "SASL_PLAINTEXT" if user else "PLAINTEXT"
        with Connection(self.broker.addresses[listener], DEADLINE_S, client_id) as connection:
            if user:
                connection.log_in(user, PASSWORD)
            batch = batch_v2([b"x" * PUSHED_BYTES], int(time.time() * 1000))
            answer = connection.request(PRODUCE, 3, produce_v3(TOPIC, 0, batch))
            self.assertEqual(produce_error_v3(answer), 0)
            (wait_ms,) = struct.unpack(">i", answer[-4:])
        return PUSHED_BYTES / (wait_ms / 1000 + 1) if wait_ms else None


def rate_of(level: int) -> float:
    return RATE_BYTES * (level + 1.0)
