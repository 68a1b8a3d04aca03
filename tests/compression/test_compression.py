"""`compression.type` of Logway as clients, tools and the other users of a broker see it."""

import asyncio
import gzip
import io
import os
import subprocess
import threading
import unittest

import aiokafka
import kafka
from batches import CODECS, Batch, appended, fetched, read_batches, record
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from harness.dump_log import dump_log
from harness.logway import Logway
from harness.topics import admin, commit, committed, create_topic, read_to_end
from harness.waiting import wait_until

T = 1_700_000_000_000
TARGETS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
MESSAGE_TOO_LARGE, INVALID_RECORD = 10, 87
RECORDS = 500

# What one batch unpacks to at most where it is compressed anew.
UNPACKED_MAX = 128 << 20


def codec_of(target: str) -> str:
    return {"uncompressed": "none"}.get(target, target)


def value_of(number: int) -> bytes:
    return b"value %06d " % number * (1 + number % 40)


def produce_with_librdkafka(bootstrap: str, topic: str, codec: str):
    errors = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20}
    )
    for number in range(RECORDS):
        headers = [("h", b"1"), ("h", None), ("n", b"%d" % number)]
        producer.produce(
            topic,
            value_of(number) if number % 7 else None,
            b"key %d" % number,
            headers=headers,
            timestamp=T + number,
            on_delivery=lambda error, _: error and errors.append(error),
        )
    assert producer.flush(60) == 0 and not errors, errors[:3]


def produce_with_kafka_python(bootstrap: str, topic: str, codec: str):
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=20
    )
    for number in range(RECORDS):
        headers = [("h", b"1"), ("h", b"2"), ("n", b"%d" % number)]
        value = value_of(number) if number % 7 else None
        producer.send(topic, value, b"key %d" % number, headers=headers, timestamp_ms=T + number)
    producer.flush(60)
    producer.close()


def produce_with_aiokafka(bootstrap: str, topic: str, codec: str):
    async def run():
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            linger_ms=20,
        )
        await producer.start()
        sends = []
        for number in range(RECORDS):
            headers = [("h", b"1"), ("h", b"2"), ("n", b"%d" % number)]
            value = value_of(number) if number % 7 else None
            sends.append(
                await producer.send(topic, value, b"key %d" % number, headers=headers, timestamp_ms=T + number)
            )
        await asyncio.gather(*sends)
        await producer.stop()

    asyncio.run(run())


PRODUCERS = {
    "librdkafka": produce_with_librdkafka,
    "kafka-python": produce_with_kafka_python,
    "aiokafka": produce_with_aiokafka,
}


def read_with_kafka_python(bootstrap: str, topic: str) -> list[tuple]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    found = []
    for one in consumer:
        found.append((one.offset, one.timestamp, one.key, one.value))
        if len(found) == RECORDS:
            break
    consumer.close()
    return found


def read_with_kcat(bootstrap: str, topic: str) -> list[tuple]:
    command = [os.environ["KCAT"], "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-Z"]
    done = subprocess.run(
        [*command, "-X", "check.crcs=true", "-f", "%o\t%T\t%k\t%s\n"], capture_output=True, check=True, timeout=60
    )
    return [line.split(b"\t") for line in done.stdout.splitlines()]


def bomb(plain_bytes: int) -> bytes:
    """A batch of one record of so many zeros, under gzip."""
    value_at = record(0, 0, b"k", b"")[:-2]  # without the length of an empty value and the count of headers
    content = value_at[1:] + unsigned(plain_bytes << 1)
    front = unsigned((len(content) + plain_bytes + 1) << 1) + content
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as file:
        file.write(front)
        for _ in range(plain_bytes >> 20):
            file.write(bytes(1 << 20))
        file.write(b"\0")
    return Batch(base_timestamp=T, max_timestamp=T, count=1).encode("gzip", packed.getvalue())


def unsigned(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + unsigned(rest) if rest else bytes([low])


class CompressionType(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        settings = {"offsets.topic.compression.codec": "4", "offsets.topic.num.partitions": "1"}
        cls.broker = Logway("compression-type", settings)
        cls.enterClassContext(cls.broker)

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def append(self, topic: str, raw: bytes) -> tuple[int, int, str]:
        return appended(self.bootstrap, topic, raw)

    def files_of(self, topic: str):
        return sorted(self.broker.data_dir.glob(f"{topic}-0/*.log"))

    def test_clients_write_every_codec_to_topics_of_every_codec_and_read_all_of_it(self):
        for target in TARGETS:
            for client, produce in PRODUCERS.items():
                for codec in CODECS:
                    topic = f"{client}-{codec}-to-{target}"
                    create_topic(self.bootstrap, topic, 1, compression_type=target)
                    produce(self.bootstrap, topic, codec)
                    stored = {batch.codec for batch in fetched(self.bootstrap, topic)}
                    self.assertEqual({codec_of(target)}, stored, topic)
                    expected = [
                        (number, T + number, b"key %d" % number, value_of(number) if number % 7 else None)
                        for number in range(RECORDS)
                    ]
                    messages = read_to_end(self.bootstrap, topic)
                    found = [(one.offset(), one.timestamp()[1], one.key(), one.value()) for one in messages]
                    self.assertEqual(expected, found, topic)
                    for number, one in enumerate(messages):
                        headers = one.headers()
                        self.assertEqual(["h", "h", "n"], [name for name, _ in headers])
                        self.assertEqual(b"%d" % number, headers[2][1])
                if client == "librdkafka":
                    self.assertEqual(expected, read_with_kafka_python(self.bootstrap, topic), topic)
                    null = b"NULL"
                    texts = [[b"%d" % o, b"%d" % t, k, null if v is None else v] for o, t, k, v in expected]
                    self.assertEqual(texts, read_with_kcat(self.bootstrap, topic), topic)

    def test_kafkas_own_tool_reads_what_is_stored(self):
        for target in TARGETS:
            topic = f"dumped-{target}"
            create_topic(self.bootstrap, topic, 1, compression_type=target)
            for codec in CODECS:
                produce_with_librdkafka(self.bootstrap, topic, codec)
            dump = dump_log(self.files_of(topic), "--print-data-log", "--deep-iteration")
            lines = [line for line in dump.splitlines() if line.startswith("baseOffset")]
            named = {line.split("compresscodec: ")[1].split()[0] for line in lines}
            self.assertEqual({codec_of(target)}, {name.lower() for name in named})
            offsets = [line for line in dump.splitlines() if line.startswith("| offset:")]
            self.assertEqual(len(CODECS) * RECORDS, len(offsets))

    def test_a_change_counts_from_the_next_batch_on_and_a_level_alone_changes_nothing(self):
        topic = "changed"
        create_topic(self.bootstrap, topic, 1)
        lines = [b"%d user-%d asked for /page/%d of %d\n" % (n, n * n % 977, n % 61, n * 7) for n in range(5_000)]
        plain = b"".join(lines)
        raw = Batch(base_timestamp=T, max_timestamp=T, count=1, plain=record(0, 0, b"k", plain))
        sizes = {}

        def alter(**configs):
            entries = [
                ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
                for name, value in configs.items()
            ]
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
            client = admin(self.bootstrap)
            client.incremental_alter_configs([resource])[resource].result(30)

        def append(codec: str, as_what: str):
            self.assertEqual(0, self.append(topic, raw.encode(codec))[0])
            last = fetched(self.bootstrap, topic)[-1]
            sizes[as_what] = last.size
            return last.codec

        self.assertEqual("none", append("none", "plain"))
        levels = {"gzip": (1, 9), "lz4": (9, 12), "zstd": (-50, 19)}
        for target, (low, high) in levels.items():
            for level in (low, high):
                alter(compression_type=target, **{f"compression_{target}_level": str(level)})
                self.assertEqual(target, append("none", f"{target} {level}"))
            self.assertLess(sizes[f"{target} {high}"], sizes[f"{target} {low}"])
            # The producer's own, at a level that nobody can tell, stays byte for byte.
            self.assertEqual(target, append(target, "own"))
            self.assertEqual(len(raw.encode(target)), sizes["own"])
        alter(compression_type="producer")
        self.assertEqual("snappy", append("snappy", "snappy"))

    def test_the_brokers_default_counts_where_a_topic_says_nothing(self):
        resource = ConfigResource(
            ConfigResource.Type.BROKER,
            "1",
            incremental_configs=[
                ConfigEntry("compression.type", "zstd", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        create_topic(self.bootstrap, "by-default", 1)
        create_topic(self.bootstrap, "own-word", 1, compression_type="producer")
        client = admin(self.bootstrap)
        client.incremental_alter_configs([resource])[resource].result(30)
        try:
            raw = Batch(base_timestamp=T, max_timestamp=T, count=1, plain=record(0, 0, b"k", b"v" * 1_000))
            for topic, codec in (("by-default", "zstd"), ("own-word", "none")):
                self.assertEqual(0, self.append(topic, raw.encode("none"))[0])
                self.assertEqual(codec, fetched(self.bootstrap, topic)[-1].codec, topic)
        finally:
            resource = ConfigResource(
                ConfigResource.Type.BROKER,
                "1",
                incremental_configs=[
                    ConfigEntry("compression.type", None, incremental_operation=AlterConfigOpType.DELETE)
                ],
            )
            client.incremental_alter_configs([resource])[resource].result(30)

    def test_what_unpacks_to_too_much_is_refused_by_name_and_takes_no_memory(self):
        """Twelve connections with bombs at a time; a polite producer goes on meanwhile."""
        too_much, fits = bomb(UNPACKED_MAX + (1 << 20)), bomb(UNPACKED_MAX - (1 << 20))
        for target in TARGETS:
            if target != "gzip":
                create_topic(self.bootstrap, f"bombed-{target}", 1, compression_type=target)
        create_topic(self.bootstrap, "polite", 1)
        before = self.broker.peak_rss_bytes()
        outcomes = []

        def attack(target: str):
            outcomes.append((target, *self.append(f"bombed-{target}", too_much)))

        attackers = [
            threading.Thread(target=attack, args=[target]) for target in TARGETS if target != "gzip" for _ in range(3)
        ]
        for one in attackers:
            one.start()
        polite = Batch(base_timestamp=T, max_timestamp=T, count=1, plain=record(0, 0, b"k", b"v")).encode("lz4")
        appended = 0
        while any(one.is_alive() for one in attackers):
            self.assertEqual(0, self.append("polite", polite)[0])
            appended += 1
        for target, error, _, message in outcomes:
            self.assertEqual(INVALID_RECORD, error, (target, message))
            self.assertIn(f"decompress from gzip to more than {UNPACKED_MAX} bytes", message)
        self.assertGreater(appended, len(attackers))
        # What unpacks to just enough is too large where nothing makes it small again, and is let in where it does.
        error, _, message = self.append("bombed-uncompressed", fits)
        self.assertEqual(MESSAGE_TOO_LARGE, error, message)
        self.assertIn("compression.type", message)
        self.assertIn("max.message.bytes", message)
        self.assertEqual(0, self.append("bombed-zstd", fits)[0])
        self.assertLess(self.broker.peak_rss_bytes() - before, 100 << 20)

    def test_offsets_are_kept_compressed(self):
        create_topic(self.bootstrap, "committed", 1)
        commit(self.bootstrap, "group", "committed", {0: 42})
        segments = self.files_of("__consumer_offsets")

        def codecs() -> set[str]:
            return {batch.codec for segment in segments for batch in read_batches(segment.read_bytes())}

        self.assertEqual({"zstd"}, codecs())
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            "__consumer_offsets",
            incremental_configs=[
                ConfigEntry("compression.type", "gzip", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        client = admin(self.bootstrap)
        client.incremental_alter_configs([resource])[resource].result(30)
        commit(self.bootstrap, "group", "committed", {0: 43})
        wait_until(lambda: codecs() == {"zstd", "gzip"}, "a batch of the topic's own codec", 30)
        self.broker.stop()
        self.broker.start()
        self.assertEqual({0: 43}, committed(self.bootstrap, "group", "committed"))


if __name__ == "__main__":
    unittest.main()
