import os
import struct
import unittest

from polite import TOPIC, PoliteProducer, create_topic

from harness.brokers import KINDS
from harness.protocol import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Connection,
    batch_v2,
    produce_error_v3,
    produce_v3,
    request_header,
    string,
)

KIND = KINDS[os.environ["AGAINST"]]

CORRUPT_MESSAGE, UNSUPPORTED_VERSION = 2, 35
HUGE = struct.pack(">i", 0x7FFFFFFF)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request(api_key: int, version: int, body: bytes) -> bytes:
    return framed(request_header(api_key, version, 1) + body)


NOT_REQUESTS = {
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -0x80000000),
    "a length above the limit": struct.pack(">i", 104_857_601),
    "a length of two gigabytes": HUGE,
    "a length of zero": struct.pack(">i", 0),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + b"x" * 200,
    "half a header": framed(b"\x00\x03\x00"),
    "an unknown api key": request(9_999, 0, b""),
    "a negative api key": request(-2, 0, b""),
    "a version of the future": request(METADATA, 99, b""),
    "a negative version": request(METADATA, -1, b""),
    "a produce version that is announced but gone": request(PRODUCE, 2, produce_v3(TOPIC, 0, b"")),
    "a client id longer than the frame": framed(struct.pack(">hhih", METADATA, 1, 1, 0x7FFF)),
    "no body": request(METADATA, 1, b""),
    "a string longer than the frame": request(METADATA, 1, struct.pack(">ih", 1, 0x7FFF) + b"abc"),
    "a body that ends too soon": request(PRODUCE, 3, produce_v3(TOPIC, 0, b"x" * 100)[:-50]),
    "two billion topics to describe": request(METADATA, 1, HUGE),
    "two billion topics to produce to": request(PRODUCE, 3, string(None) + struct.pack(">hi", -1, 1_000) + HUGE),
    "two billion topics to fetch": request(FETCH, 4, struct.pack(">iiiib", -1, 0, 0, 1, 0) + HUGE),
    "two billion bytes of records": request(
        PRODUCE, 3, string(None) + struct.pack(">hii", -1, 1_000, 1) + string(TOPIC) + struct.pack(">ii", 1, 0) + HUGE
    ),
    "two billion tagged fields": framed(request_header(METADATA, 9, 1) + b"\xff\xff\xff\xff\x07"),
}


class Malformed(unittest.TestCase):
    """One broker, and one polite producer on one connection through all of it."""

    @classmethod
    def setUpClass(cls):
        cls.broker = KIND("hostile-malformed").start()
        cls.addClassCleanup(cls.broker.kill)
        create_topic(cls.broker.bootstrap, TOPIC)
        cls.polite = cls.enterClassContext(PoliteProducer(cls.broker.bootstrap))

    def tearDown(self):
        self.polite.wait_for_acks(20)
        self.assertIsNone(self.broker.process.poll(), "the broker died")

    def test_what_is_no_request_closes_its_own_connection(self):
        for name, sent in NOT_REQUESTS.items():
            with self.subTest(name), Connection(self.broker.bootstrap) as connection:
                connection.socket.sendall(sent)
                self.assertTrue(connection.is_closed_by_peer(), "the connection stays open")

    def test_an_unknown_version_of_api_versions_is_answered_in_version_0(self):
        with Connection(self.broker.bootstrap) as connection:
            for version in [99, 0x7FFF]:
                # Request header v2 ends with tagged fields, here none.
                answer = connection.request(API_VERSIONS, version, b"\0")
                error, count = struct.unpack_from(">hi", answer)
                ranges = {
                    key: (least, most) for key, least, most in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])
                }
                self.assertEqual(error, UNSUPPORTED_VERSION)
                self.assertEqual(ranges[API_VERSIONS], (0, 4))
            error, count = struct.unpack_from(">hi", connection.request(API_VERSIONS, 0, b""))
            self.assertEqual(error, 0)
            self.assertGreater(count, 15)

    def test_a_corrupt_batch_is_refused_and_the_connection_lives_on(self):
        good = batch_v2([b"value"], 1_700_000_000_000)
        with Connection(self.broker.bootstrap) as connection:
            for position in [17, 21, 40, len(good) - 1]:
                bad = bytearray(good)
                bad[position] ^= 0xFF
                error = produce_error_v3(connection.request(PRODUCE, 3, produce_v3(TOPIC, 0, bytes(bad))))
                self.assertEqual(error, CORRUPT_MESSAGE, f"byte {position}")
            self.assertEqual(produce_error_v3(connection.request(PRODUCE, 3, produce_v3(TOPIC, 0, good))), 0)
