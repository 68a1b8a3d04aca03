"""Produce and InitProducerId: what is appended, what is refused, and what is said of it."""

import zstandard

from conformance.batches import (
    CONTROL,
    GZIP,
    LONG_AGO_MS,
    TRANSACTIONAL,
    ZSTD,
    Batch,
    Record,
    old_message,
)
from conformance.script import script
from conformance.side import Ask, Side, Topic

# Any that nobody was given.
PRODUCER = 4_242


def to(topic: Topic, *partitions: tuple[int, bytes | None]) -> dict:
    """A topic in a Produce, with records for partitions."""
    data = [{"Index": index, "Records": records} for index, records in partitions]
    return topic.ref("Name") | {"PartitionData": data}


def ask(side: Side, version: int, request: str, *topics: dict, acks: int = -1, is_answered: bool = True, **more):
    values = {"Acks": acks, "TimeoutMs": 5_000, "TopicData": list(topics)} | more
    return side.ask("Produce", version, request, is_answered, **values)


GOOD = Batch(count=2).encode()


@script
def plain(side: Side):
    absent = side.absent()
    for version in side.versions("Produce"):
        topic, twice = side.topic(f"plain-{version}", 2), side.topic(f"twice-{version}", 2)
        ask(side, version, "two records", to(topic, (0, GOOD)))
        ask(side, version, "two partitions", to(topic, (0, GOOD), (1, GOOD)))
        ask(side, version, "a partition twice", to(twice, (0, GOOD), (0, GOOD)))
        ask(side, version, "a topic twice", to(twice, (1, GOOD)), to(twice, (0, GOOD)))
        ask(side, version, "no topics")
        ask(side, version, "no partitions", to(topic))
        ask(side, version, "no records", to(topic, (0, b"")))
        ask(side, version, "an unknown topic", to(absent, (0, GOOD)))
        ask(side, version, "an unknown topic beside a known one", to(absent, (0, GOOD)), to(topic, (0, GOOD)))
        ask(side, version, "partitions out of range", to(topic, (2, GOOD), (-1, GOOD), (1 << 30, GOOD)))
        ask(side, version, "a name that no topic can have", to(Topic("a/b"), (0, GOOD)))
        ask(side, version, "an empty name", to(Topic(""), (0, GOOD)))


@script
def acknowledgements(side: Side):
    topic, absent = side.topic("acks"), side.absent()
    for version in side.versions("Produce"):
        for acks in (1, -1, 2, -2, 32_767):
            ask(side, version, f"acks {acks}", to(topic, (0, GOOD)), acks=acks)
        ask(side, version, "acks 2, an unknown topic", to(absent, (0, GOOD)), acks=2)
        ask(side, version, "acks 2, no topics", acks=2)
        ask(side, version, "acks 0", to(topic, (0, GOOD)), acks=0, is_answered=False)
        ask(side, version, "acks 0, no topics", acks=0, is_answered=False)
        ask(side, version, "acks 0, an unknown topic", to(absent, (0, GOOD)), acks=0, is_answered=False)
        ask(side, version, "timeout -1", to(topic, (0, GOOD)), TimeoutMs=-1)
        ask(side, version, "timeout 0", to(topic, (0, GOOD)), TimeoutMs=0)


@script
def null_records(side: Side):
    """Kafka fails without an answer, so that these are asked together, and not waited for as long as others."""
    topic = side.topic("null")
    values = {"Acks": -1, "TimeoutMs": 5_000, "TopicData": [to(topic, (0, None))]}
    asks = [Ask("Produce", version, "null records", values) for version in side.versions("Produce")]
    side.ask_together(asks, patience_s=3)


@script
def malformed(side: Side):
    """Batches that must not be appended."""
    whole = Batch(count=3).encode()
    bad = {
        "a wrong crc": Batch(crc=7).encode(),
        "two batches": whole + whole,
        "a batch and a half": whole + whole[:40],
        "half a header": whole[:30],
        "half a batch": whole[:-4],
        "one byte too many": whole + b"\0",
        "a length of 0": Batch(length=0).encode(),
        "a negative length": Batch(length=-5).encode(),
        "a huge length": Batch(length=(1 << 31) - 1).encode(),
        "a length that is too small": Batch(length=40).encode(),
        "magic 0": old_message(0),
        "magic 1": old_message(1),
        "magic 3": Batch(magic=3).encode(),
        "magic -1": Batch(magic=-1).encode(),
        "a batch of no records": Batch(records=[]).encode(),
        "a batch of no records, last offset delta 0": Batch(records=[], last_offset_delta=0).encode(),
        "a count that is too large": Batch(count=2, records_count=3).encode(),
        "a count that is too small": Batch(count=2, records_count=1).encode(),
        "a negative count": Batch(count=2, records_count=-1).encode(),
        "a last offset delta that is too large": Batch(count=2, last_offset_delta=5).encode(),
        "a last offset delta that is too small": Batch(count=2, last_offset_delta=0).encode(),
        "a negative last offset delta": Batch(count=2, last_offset_delta=-1).encode(),
        "offset deltas that do not rise": Batch(records=[Record(offset_delta=0), Record(offset_delta=0)]).encode(),
        "offset deltas with a gap": Batch(records=[Record(), Record(offset_delta=2)], last_offset_delta=2).encode(),
        "a control batch": Batch(attributes=CONTROL).encode(),
        "a control batch of a transaction": Batch(attributes=CONTROL | TRANSACTIONAL, producer_id=PRODUCER).encode(),
        "a transactional batch without a producer": Batch(attributes=TRANSACTIONAL).encode(),
        "an unknown codec": Batch(attributes=5).encode(),
        "the last of the codecs": Batch(attributes=7).encode(),
        "gzip that is none": Batch(compression=GZIP, body=b"not gzip").encode(),
        "records that are none": Batch(body=b"\xff" * 10).encode(),
        "no body": Batch(body=b"").encode(),
        "more than the records": Batch(body=Record().encode(0) + b"\0\0", records_count=1).encode(),
        "a null header key": Batch(records=[Record(headers=[(None, b"v")])]).encode(),
        "unused attributes": Batch(attributes=0x4000).encode(),
        "a base offset": Batch(base_offset=100).encode(),
        "a negative base offset": Batch(base_offset=-1).encode(),
        "a leader epoch": Batch(leader_epoch=99).encode(),
        "a max timestamp that is wrong": Batch(max_timestamp=LONG_AGO_MS + 5).encode(),
        "no timestamp": Batch(base_timestamp=-1).encode(),
        "a negative timestamp": Batch(base_timestamp=-100).encode(),
    }
    topic = side.topic("malformed", len(bad))
    for version in side.versions("Produce"):
        for partition, (request, records) in enumerate(bad.items()):
            ask(side, version, request, to(topic, (partition, records)))
    # What was appended in spite of all.
    for partition, request in enumerate(bad):
        fetch_all(side, topic, f"{request} was appended", partition)


def fetch_all(side: Side, topic: Topic, request: str, partition: int = 0):
    partition = {"Partition": partition, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
    side.ask("Fetch", 11, request, MaxWaitMs=0, MinBytes=0, Topics=[{"Topic": topic.name, "Partitions": [partition]}])


@script
def compression(side: Side):
    body = zstandard.compress(b"".join(Record().encode(at) for at in range(2)))
    for version in side.versions("Produce"):
        topic = side.topic(f"codecs-{version}", 4)
        packed = Batch(count=2, compression=ZSTD, body=body).encode()
        ask(side, version, "zstd", to(topic, (0, packed)))
        ask(side, version, "gzip", to(topic, (1, Batch(count=2, compression=GZIP).encode())))
        ask(side, version, "zstd beside others", to(topic, (2, packed), (3, GOOD)), acks=1)


@script
def rules_of_topics(side: Side):
    """What a topic's settings refuse, and what is said of each record."""
    compacted = side.topic("compacted", cleanup_policy="compact")
    small = side.topic("small", max_message_bytes="120")
    timed = side.topic("timed", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    stamped = side.topic("stamped", message_timestamp_type="LogAppendTime")
    cleaned = side.topic("cleaned")
    begins = {"PartitionIndex": 0, "Offset": 2}
    side.produce(cleaned, Batch(count=3))
    side.do("DeleteRecords", Topics=[{"Name": cleaned.name, "Partitions": [begins]}], TimeoutMs=5_000)
    keys = [Record(key=b"k"), Record(), Record(key=b"k"), Record()]
    large = Batch(records=[Record(value=b"x" * 200)]).encode()
    for version in side.versions("Produce"):
        ask(side, version, "no keys in a compacted topic", to(compacted, (0, Batch(records=keys).encode())))
        ask(side, version, "keys in a compacted topic", to(compacted, (0, Batch(records=keys[:1]).encode())))
        ask(side, version, "too large", to(small, (0, large)))
        ask(side, version, "an old timestamp", to(timed, (0, GOOD)))
        future = Batch(records=[Record(), Record(timestamp_delta=1)], base_timestamp=4_000_000_000_000).encode()
        ask(side, version, "a timestamp of the future", to(timed, (0, future)))
        ask(side, version, "the time of the append", to(stamped, (0, GOOD)))
        two = side.topic(f"two-replicas-{version}", 2, min_insync_replicas="2")
        ask(side, version, "more replicas than there are", to(two, (0, GOOD)), TimeoutMs=300)
        ask(side, version, "more replicas than there are, acks 1", to(two, (1, GOOD)), acks=1)
        ask(side, version, "a log that begins later", to(cleaned, (0, GOOD)))
        ask(side, version, "a bad batch in a log that begins later", to(cleaned, (0, Batch(crc=7).encode())))
        ask(
            side,
            version,
            "each its own error",
            to(compacted, (0, Batch(records=keys).encode())),
            to(small, (0, large)),
            to(timed, (0, GOOD), (1, GOOD)),
            to(cleaned, (0, GOOD)),
        )
    fetch_all(side, stamped, "what was stamped")


@script
def producers(side: Side):
    """Sequences of idempotent producers."""
    for version in side.versions("Produce"):
        topic = side.topic(f"sequences-{version}")

        def append(request: str, epoch: int, sequence: int, producer: int = PRODUCER, count: int = 2, **more):
            batch = Batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more)
            ask(side, version, request, to(topic, (0, batch.encode())))

        append("the first", 0, 0)
        append("the next", 0, 2)
        append("the next again", 0, 2)
        append("the first again", 0, 0)
        append("a gap", 0, 9)
        append("a part of one before", 0, 3, count=1)
        append("a new epoch that begins in the middle", 1, 5)
        append("a new epoch", 1, 0)
        append("the epoch before", 0, 4)
        append("an unknown producer in the middle", 0, 7, producer=PRODUCER + 1)
        append("a producer without a sequence", 0, -1, producer=PRODUCER + 2)
        append("a negative sequence", 0, -2, producer=PRODUCER + 4)
        append("the largest sequence", 0, (1 << 31) - 2, producer=PRODUCER + 5)
        append("after the largest sequence", 0, 0, producer=PRODUCER + 5)
        append("producer -2", 0, 0, producer=-2)
        append("a transaction that was not begun", 0, 0, producer=PRODUCER + 6, attributes=TRANSACTIONAL)
        append("a producer without an epoch", -1, 0, producer=PRODUCER + 3)
        again = [
            Batch(1, producer_id=PRODUCER + 7, producer_epoch=0, base_sequence=at).encode() for at in range(2)
        ]
        ask(side, version, "two batches of a producer", to(topic, (0, b"".join(again))))


@script
def transactional(side: Side):
    topic = side.topic("transactional")
    for version in side.versions("Produce"):
        for name in ("", "some"):
            ask(side, version, f"transactional id {name!r}", to(topic, (0, GOOD)), TransactionalId=name)


@script
def internal(side: Side):
    """A topic that is the broker's own."""
    topic = Topic("__consumer_offsets")
    for version in side.versions("Produce"):
        if version < 13:
            ask(side, version, "to the groups' own topic", to(topic, (0, Batch(records=[Record(key=b"k")]).encode())))


@script
def producer_ids(side: Side):
    for version in side.versions("InitProducerId"):
        for request, values in {
            "none before": {},
            "timeout 0": {"TransactionTimeoutMs": 0},
            "timeout -1": {"TransactionTimeoutMs": -1},
            "an id without an epoch": {"ProducerId": 5},
            "an epoch without an id": {"ProducerEpoch": 5},
            "an id and an epoch": {"ProducerId": 5, "ProducerEpoch": 5},
            "the last epoch": {"ProducerId": 5, "ProducerEpoch": 32_767},
            "a negative id": {"ProducerId": -5, "ProducerEpoch": 0},
            "an empty transactional id": {"TransactionalId": "", "TransactionTimeoutMs": 1_000},
        }.items():
            side.ask("InitProducerId", version, request, **{"TransactionalId": None} | values)


@script
def waits(side: Side):
    """What is refused is refused at once."""
    topic, two, absent = side.topic("plain"), side.topic("two-replicas", min_insync_replicas="2"), side.absent()
    newest = side.newest("Produce")

    def waiting(request: str, *topics: dict) -> Ask:
        values = {"Acks": -1, "TimeoutMs": 1_000, "TopicData": list(topics)}
        return Ask("Produce", newest, request, values, waits_ms=1_000)

    side.ask_together(
        [
            waiting("good", to(topic, (0, GOOD))),
            waiting("too few replicas", to(two, (0, GOOD))),
            waiting("an unknown topic", to(absent, (0, GOOD))),
        ]
    )
