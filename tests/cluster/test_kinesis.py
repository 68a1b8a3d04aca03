"""The short form of `kill_rounds.py --kinesis`, and that its judge sees what it is there for."""

import os
import unittest

from kill_rounds import run_rounds
from kinesis_writers import judge_shard

from harness.seed import SEED

ROUNDS = int(os.environ.get("ROUNDS", "4"))
RECORDS_PER_SECOND = 500


class Sdks(unittest.TestCase):
    def test_kill_nine_under_put_records_of_five_sdks_at_once(self):
        run_rounds(ROUNDS, SEED, RECORDS_PER_SECOND, "kinesis-sdks", is_kinesis=True)

    def test_what_is_lost_or_out_of_order_is_seen(self):
        records = [(10, 0), (11, 1), (15, 2)]
        self.assertFalse(any(judge_shard(records, records).values()))
        self.assertEqual(judge_shard(records, records[:2])["lost"], 1)
        self.assertEqual(judge_shard(records, [*records[:2], (16, 2)])["lost"], 1)
        self.assertEqual(judge_shard(records[::2], [(10, 0), (10, 1), (15, 2)])["disordered"], 1)
        self.assertEqual(judge_shard(records[::-1], records)["disordered"], 2)
        self.assertEqual(judge_shard(records, [*records, (16, 2)])["sent_again"], 1)


if __name__ == "__main__":
    unittest.main()
