"""The short form of kill_rounds.py, and that its judge sees what it is there for."""

import os
import unittest

from client_writers import judge
from kill_rounds import run_rounds

from harness.seed import SEED

ROUNDS = int(os.environ.get("ROUNDS", "4"))
RECORDS_PER_SECOND = 1_000


class AllClients(unittest.TestCase):
    def test_kill_nine_under_librdkafka_java_and_franz_go_at_once(self):
        run_rounds(ROUNDS, SEED, RECORDS_PER_SECOND, "all-clients")

    def test_what_is_lost_doubled_or_out_of_order_is_seen(self):
        acked = [(number, number) for number in range(5)]
        self.assertFalse(any(judge(acked, [0, 1, 2, 3, 4]).values()))
        self.assertEqual(judge(acked, [0, 1, 2, 3])["lost"], 1)
        self.assertEqual(judge([(4, -1)], [0, 1, 2, 3])["lost"], 1)
        self.assertEqual(judge([(3, -1)], [0, 1, 2, 3])["lost"], 0)
        self.assertEqual(judge([], [0, 1, 2, 2])["doubled"], 1)
        self.assertEqual(judge([], [0, 2, 1, 3])["disordered"], 1)
