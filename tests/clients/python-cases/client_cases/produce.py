import client

from client_cases.case import ClientCase, numbered, produce
from client_cases.model import LARGEST_VALUE_BYTES, Record, fresh


class Produce(ClientCase):
    def assert_round_trip(self, count: int = 10_000, **settings):
        topic, sent = self.create_topic("round-trip"), numbered(count)
        offsets = produce(topic, sent, **settings)
        # Without acknowledgements no offset is known.
        if settings.get("acks") != 0:
            self.assertEqual(offsets, list(range(count)))
        received = self.consume(topic, count)
        self.assertEqual([record.content for record in received], [record.content for record in sent])
        self.assertEqual([record.offset for record in received], list(range(count)))

    def assert_codec(self, codec: str):
        if codec not in client.CODECS:
            self.skipTest("no such codec")
        self.assert_round_trip(codec=codec)

    def test_produce_none(self):
        self.assert_codec("none")

    def test_produce_gzip(self):
        self.assert_codec("gzip")

    def test_produce_snappy(self):
        self.assert_codec("snappy")

    def test_produce_lz4(self):
        self.assert_codec("lz4")

    def test_produce_zstd(self):
        self.assert_codec("zstd")

    def test_produce_acks_0(self):
        self.assert_round_trip(1_000, acks=0)

    def test_produce_acks_1(self):
        self.assert_round_trip(1_000, acks=1)

    def test_produce_acks_all(self):
        self.assert_round_trip(1_000, acks="all")

    def test_produce_idempotent(self):
        for codec in client.CODECS:
            with self.subTest(codec):
                self.assert_round_trip(5_000, codec=codec, idempotent=True)

    def test_produce_headers(self):
        headers = (("a", b"1"), ("b", b""), ("a", b"2"), ("a", b"1"))
        for codec in client.CODECS:
            with self.subTest(codec):
                topic = self.create_topic("headers")
                produce(topic, [Record(b"v", headers=headers)], codec=codec)
                self.assertEqual(self.consume(topic, 1)[0].headers, headers)

    def test_produce_nulls(self):
        sent = [Record(b"v"), Record(None, key=b"k"), Record(b"", key=b""), Record(b"", key=b"k")]
        if client.SENDS_NULL_PAIRS:
            sent.append(Record(None))
        topic = self.create_topic("nulls")
        produce(topic, sent)
        received = self.consume(topic, len(sent))
        self.assertEqual([record.content for record in received], [record.content for record in sent])

    def test_produce_sizes(self):
        sizes = [1, 100, 1_000, 10_000, 100_000, LARGEST_VALUE_BYTES]
        topic = self.create_topic("sizes")
        for size in sizes:
            produce(topic, [Record(b"x" * size)], request_bytes_max=2_000_000)
        received = self.consume(topic, len(sizes))
        self.assertEqual([len(record.value) for record in received], sizes)
        self.assertTrue(all(record.value.strip(b"x") == b"" for record in received))

    def test_produce_auto_create(self):
        topic = fresh("auto-created")
        produce(topic, [Record(b"first")])
        self.assertEqual(self.consume(topic, 1)[0].value, b"first")
