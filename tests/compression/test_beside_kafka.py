"""The same batches to Logway and to Apache Kafka: both compress the same ones anew, and make the same of them."""

import unittest

from batches import CODECS, LOG_APPEND_TIME, Batch, appended, fetched, record

from harness.apache_kafka import ApacheKafka
from harness.logway import Logway
from harness.topics import create_topic

T = 1_700_000_000_000

# compression.type, and the level beside it.
TARGETS = {
    "producer": {},
    "uncompressed": {},
    "gzip-9": {"compression.gzip.level": "9"},
    "snappy": {},
    "lz4": {},
    "lz4-17": {"compression.lz4.level": "17"},
    "zstd": {},
    "zstd-fast": {"compression.zstd.level": "-5"},
}


def batch(*records: bytes, **fields) -> Batch:
    given = {"base_timestamp": T, "max_timestamp": T, "last_offset_delta": len(records) - 1, "count": len(records)}
    return Batch(**given | fields, plain=b"".join(records))


def lines(size: int) -> bytes:
    return b"".join(b"line %d of a long value\n" % line for line in range(size // 20))[:size]


ALL_KINDS = [
    record(0, 0, b"key", b"value", [(b"twice", b"1"), (b"other", None), (b"twice", b"2"), (b"", b"")]),
    record(1_000, 1, None, b"no key"),
    record(-5, 2, b"no value", None),
    record(0, 3, None, None),
    record(0, 4, b"", b""),
    record(7, 5, b"large", lines(70_000)),
]

BATCHES = {
    "records of all kinds": batch(*ALL_KINDS, max_timestamp=T + 1_000),
    "one record": batch(record(0, 0, b"k", b"v")),
    "of an idempotent producer": batch(*ALL_KINDS, max_timestamp=T + 1_000, producer=(4001, 0, 0)),
    "a max timestamp that is wrong": batch(*ALL_KINDS, max_timestamp=T - 77),
    "a base timestamp that is not the first record's": batch(record(-40, 0, b"k", b"1"), record(3, 1, b"k", b"2")),
    "attributes that mean nothing": batch(record(0, 0, b"k", b"v", attributes=0x7F), attributes=0x0780),
    "without timestamps": batch(
        record(0, 0, b"k", b"v"), record(0, 1, b"k", b"v"), base_timestamp=-1, max_timestamp=-1
    ),
    "no records": batch(last_offset_delta=0, count=0),
    "too many records": batch(*ALL_KINDS[:2], last_offset_delta=2, count=3),
    "a timestamp before 1970": batch(record(0, 0, b"k", b"v"), base_timestamp=-5, max_timestamp=-5),
    "inner offsets with a gap": batch(record(0, 0, b"k", b"1"), record(0, 2, b"k", b"2"), record(0, 3, b"k", b"3")),
    "inner offsets all alike": batch(record(0, 0, b"k", b"1"), record(0, 0, b"k", b"2"), record(0, 0, b"k", b"3")),
    "grows beyond the limit": batch(record(0, 0, b"k", bytes(3 << 20))),
}

UNKNOWN, INVALID_RECORD = -1, 87


def known(name: str, is_anew: bool, ours: tuple, kafkas: tuple) -> str | None:
    """Why the outcomes differ, if that is known and meant."""
    errors = (ours[0], kafkas[0])
    if name == "attributes that mean nothing" and not is_anew and errors == (0, 0):
        # Nobody reads these bits. Kafka drops them where it writes the time into the header.
        (our,), (their,) = ours[2], kafkas[2]
        if our | {"attributes": our["attributes"] & 0x7F} == their:
            return "bits of a batch that mean nothing stay where the batch stays"
    if name.startswith("inner offsets") and errors in ((INVALID_RECORD, UNKNOWN), (INVALID_RECORD, 0)):
        return "offsets that do not count from 0 are refused by name: consumers would get what they say"
    if name == "a timestamp before 1970" and is_anew and errors == (0, UNKNOWN):
        return "a timestamp before 1970 is taken from a batch that is compressed anew, as from any other"
    return None


class Side:
    """A broker, and what becomes of batches there."""

    def __init__(self, broker):
        self.broker = broker
        self.ends = {}

    def create(self, topic: str, configs: dict[str, str]):
        create_topic(self.broker.bootstrap, topic, 1, **configs)
        self.ends[topic] = 0

    def append(self, topic: str, raw: bytes) -> tuple[int, bool, list[dict]]:
        """The error, whether the answer tells the time of the append, and what was appended: offsets count from the
        end of the log before."""
        error, log_append_time, _ = appended(self.broker.bootstrap, topic, raw)
        end = self.ends[topic]
        stored = [vars(one) for one in fetched(self.broker.bootstrap, topic, end)] if error == 0 else []
        for one in stored:
            self.ends[topic] = one["base_offset"] + one["last_offset_delta"] + 1
            one["base_offset"] -= end
            del one["size"]
            if one["attributes"] & LOG_APPEND_TIME:
                one["max_timestamp"] = "the time of the append"
        return error, log_append_time >= 0, stored


class BesideKafka(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sides = []
        for kind in (Logway, ApacheKafka):
            broker = kind("compression")
            cls.enterClassContext(broker)
            cls.sides.append(Side(broker))

    def test_the_same_batches_are_compressed_anew_and_become_the_same(self):
        """Every source codec to every target; the offsets, the fields of the header, and every byte of the records."""
        compared, anew, reasons, differences = 0, {}, {}, []
        encoded = {source: {name: one.encode(source) for name, one in BATCHES.items()} for source in CODECS}
        for target, levels in TARGETS.items():
            for timestamp_type in ["CreateTime"] + ["LogAppendTime"] * (target in ("producer", "lz4", "uncompressed")):
                for source in CODECS:
                    topic = f"{target}-{timestamp_type}-{source}"
                    configs = {
                        "compression.type": target.split("-")[0],
                        "message.timestamp.type": timestamp_type,
                        # The batches are years old.
                        "retention.ms": "-1",
                        **levels,
                    }
                    for side in self.sides:
                        side.create(topic, configs)
                    for name, raw in encoded[source].items():
                        ours, kafkas = (side.append(topic, raw) for side in self.sides)
                        is_anew = target != "producer" and codec_of(target) != source
                        compared += 1
                        anew[source] = anew.get(source, 0) + sum(
                            one["attributes"] & 7 != CODECS.index(source) for one in kafkas[2]
                        )
                        if ours == kafkas:
                            continue
                        reason = known(name, is_anew, ours, kafkas)
                        if reason is None:
                            differences.append(f"{topic}, {name}: {shortly(ours)} where Kafka has {shortly(kafkas)}")
                        else:
                            key = f"{reason} (error {ours[0]} where Kafka has {kafkas[0]})"
                            reasons[key] = reasons.get(key, 0) + 1
        print(f"{compared} batches compared; compressed anew by Kafka, by source: {anew}; known differences: {reasons}")
        self.assertEqual([], differences[:20], f"{len(differences)} differences")


def codec_of(target: str) -> str:
    return {"uncompressed": "none"}.get(target, target.split("-")[0])


def shortly(outcome: tuple) -> str:
    error, tells_time, stored = outcome
    return f"({error}, {tells_time}, {[one | {'plain': one['plain'][:80]} for one in stored]})"


if __name__ == "__main__":
    unittest.main()
