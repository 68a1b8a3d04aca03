import os
import random
import unittest

from secure import SecureLogway
from timing import compare

from harness.seed import SEED

# Of each kind, by each mechanism.
TRIES = int(os.environ.get("TRIES", 500))
USER = "alice"
# Of two that are the same one comparison in 16,000 is beyond it.
Z_MAX = 4.0
# A look-up that finds something takes another time than one that does not, by less than this part of an answer.
DIFFERENCE_MAX = 0.04
# So that what a check takes is seen, which the delay would hide.
SETTINGS = {"connection.failed.authentication.delay.ms": "0"}


class Timing(unittest.TestCase):
    def test_an_unknown_user_takes_as_long_as_a_wrong_password(self):
        print(f"SEED={SEED} TRIES={TRIES}", flush=True)
        with SecureLogway("secure-timing", SETTINGS) as broker:
            broker.add_user(USER)
            dice = random.Random(SEED)
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
                for comparison in compare(broker.addresses["SASL_PLAINTEXT"], mechanism, USER, TRIES, dice):
                    print(comparison, flush=True)
                    with self.subTest(comparison.what):
                        differs = abs(comparison.z) >= Z_MAX and comparison.difference >= DIFFERENCE_MAX
                        self.assertFalse(differs, comparison)
