"""Whether a client that guesses can tell an unknown user from a wrong password by the time of the broker's answers.

    TRIES=10000 tests/security/run.sh test_timing.py        the long form; a rank test by mechanism and message

For each mechanism, a guess at the one and a guess at the other follow each other on connections of their own, in an order
that the seed gives. The times of both are ranked together (Mann and Whitney, 1947): z is how many standard deviations the
sum of ranks is away from what it would be if the two were the same.
"""

import base64
import hashlib
import hmac
import math
import random
import statistics
import struct
import time
from dataclasses import dataclass

from harness.protocol import SASL_AUTHENTICATE, Connection, data

SASL_AUTHENTICATION_FAILED = 58
DEADLINE_S = 60


@dataclass
class Comparison:
    """The times of one message's answers, in microseconds."""

    what: str
    wrong_us: list[float]
    unknown_us: list[float]

    @property
    def z(self) -> float:
        """By the normal approximation; times are so fine that ties need no correction."""
        one, other = len(self.wrong_us), len(self.unknown_us)
        ranked = sorted([(time, True) for time in self.wrong_us] + [(time, False) for time in self.unknown_us])
        ranks = sum(rank for rank, (_, is_wrong) in enumerate(ranked, 1) if is_wrong)
        expected = one * (one + other + 1) / 2
        return (ranks - expected) / math.sqrt(one * other * (one + other + 1) / 12)

    @property
    def difference(self) -> float:
        """Of the medians, as a part of the one for a wrong password."""
        wrong, unknown = statistics.median(self.wrong_us), statistics.median(self.unknown_us)
        return abs(unknown / wrong - 1)

    def __str__(self):
        wrong, unknown = statistics.median(self.wrong_us), statistics.median(self.unknown_us)
        return (f"{self.what}: {len(self.wrong_us)} wrong passwords, median {wrong:.1f} us; "
                f"{len(self.unknown_us)} unknown users, median {unknown:.1f} us; z {self.z:+.2f}")


def compare(bootstrap: str, mechanism: str, user: str, tries: int, dice: random.Random) -> list[Comparison]:
    """Guesses so often at a user's password, and as often at one of users that do not exist, whose names are as long."""
    times = {True: [], False: []}
    for _ in range(tries):
        for is_wrong in dice.sample([True, False], 2):
            name = user if is_wrong else "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=len(user)))
            times[is_wrong].append(guess(bootstrap, mechanism, name))
    messages = zip(zip(*times[True], strict=True), zip(*times[False], strict=True), strict=True)
    return [Comparison(f"{mechanism}, message {number}", list(wrong), list(unknown))
            for number, (wrong, unknown) in enumerate(messages, 1)]


def guess(bootstrap: str, mechanism: str, user: str) -> list[float]:
    """How long the answer to each message took, in microseconds."""
    with Connection(bootstrap, DEADLINE_S) as connection:
        connection.choose_mechanism(mechanism)
        if mechanism == "PLAIN":
            return [refused(connection, f"\0{user}\0wrong".encode())]
        nonce = "fyko+d2lbbFgONRv9qkxdawL"
        first = f"n={user},r={nonce}"
        took_us, answer = ask(connection, f"n,,{first}".encode())
        (length,) = struct.unpack_from(">i", answer, 4)
        challenge = answer[8 : 8 + length].decode()
        return [took_us, refused(connection, proof(mechanism, first, challenge))]


def ask(connection: Connection, token: bytes) -> tuple[float, bytes]:
    """The time until a token is answered, and the answer."""
    body = data(token)
    began = time.perf_counter()
    answer = connection.request(SASL_AUTHENTICATE, 0, body)
    return (time.perf_counter() - began) * 1e6, answer


def refused(connection: Connection, token: bytes) -> float:
    took_us, answer = ask(connection, token)
    (error,) = struct.unpack_from(">h", answer)
    if error != SASL_AUTHENTICATION_FAILED:
        raise AssertionError(f"error code {error}")
    return took_us


def proof(mechanism: str, first: str, challenge: str) -> bytes:
    """A client's second message, as one has it that takes another password for the right one. The password is not hashed
    as often as the server says: that is the guesser's time alone."""
    digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    nonce = challenge.split(",")[0]
    without_proof = f"c=biws,{nonce}"
    key = hashlib.new(digest, b"wrong").digest()
    signature = hmac.digest(key, f"{first},{challenge},{without_proof}".encode(), digest)
    return f"{without_proof},p={base64.b64encode(signature).decode()}".encode()
