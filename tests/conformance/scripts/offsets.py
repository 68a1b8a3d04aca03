"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from conformance.batches import LONG_AGO_MS, Batch, Record
from conformance.script import script
from conformance.side import Ask, Side, Topic

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


def timed(side: Side, name: str) -> Topic:
    """Partition 0 has records at seconds 0, 5, 3 and 5, in three batches; partition 1 none."""
    topic = side.topic(name, 2)
    side.produce(
        topic,
        Batch(1),
        Batch(records=[Record(timestamp_delta=5_000), Record(timestamp_delta=3_000)]),
        Batch(1, base_timestamp=LONG_AGO_MS + 5_000),
    )
    return topic


def wanted(topic: Topic, *partitions: tuple[int, int], epoch: int = -1) -> dict:
    fields = ("PartitionIndex", "Timestamp")
    listed = [dict(zip(fields, one)) | {"CurrentLeaderEpoch": epoch} for one in partitions]
    return {"Name": topic.name, "Partitions": listed}


@script
def by_time(side: Side):
    topic, absent = timed(side, "timed"), side.absent()
    for version in side.versions("ListOffsets"):

        def ask(request: str, *topics: dict, **more):
            side.ask("ListOffsets", version, request, **{"ReplicaId": -1, "Topics": list(topics)} | more)

        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, -7, -99):
            ask(f"timestamp {timestamp}", wanted(topic, (0, timestamp)))
            ask(f"timestamp {timestamp} of an empty partition", wanted(topic, (1, timestamp)))
        for seconds in (-1, 0, 2, 3, 4, 5, 6):
            time_ms = LONG_AGO_MS + seconds * 1_000
            ask(f"second {seconds}", wanted(topic, (0, time_ms)))
        ask("timestamp 0", wanted(topic, (0, 0), (1, 0)))
        ask("the largest timestamp", wanted(topic, (0, (1 << 63) - 1)))
        ask("partitions out of range", wanted(topic, (2, LATEST), (-1, LATEST)))
        ask("a partition twice", wanted(topic, (0, LATEST), (0, EARLIEST)))
        ask("a partition twice, another once", wanted(topic, (0, LATEST), (0, EARLIEST), (1, LATEST)))
        ask("a topic twice", wanted(topic, (0, LATEST)), wanted(topic, (0, LATEST)))
        ask("an unknown topic", wanted(absent, (0, LATEST)), wanted(topic, (0, LATEST)))
        ask("no partitions", wanted(topic))
        ask("no topics")
        for epoch in (0, 1, 99, -2):
            ask(f"epoch {epoch}", wanted(topic, (0, LATEST), epoch=epoch))
        for level in (0, 1, 2, -1):
            ask(f"isolation {level}", wanted(topic, (0, LATEST), (0, EARLIEST)), IsolationLevel=level)
        for replica in (-2, -3, 1, 7):
            ask(f"replica {replica}", wanted(topic, (0, LATEST)), ReplicaId=replica)
        ask("timeout -1", wanted(topic, (0, LATEST)), TimeoutMs=-1)


@script
def epochs(side: Side):
    topic, absent = timed(side, "timed"), side.absent()
    for version in side.versions("OffsetForLeaderEpoch"):

        def ask(request: str, *topics: dict, **more):
            side.ask("OffsetForLeaderEpoch", version, request, **{"Topics": list(topics)} | more)

        def of(name: Topic, *partitions: tuple[int, int, int]) -> dict:
            fields = ("Partition", "CurrentLeaderEpoch", "LeaderEpoch")
            return {"Topic": name.name, "Partitions": [dict(zip(fields, one)) for one in partitions]}

        for epoch in (0, 1, 99, -1, -2, (1 << 31) - 1):
            ask(f"epoch {epoch}", of(topic, (0, -1, epoch)))
            ask(f"epoch {epoch} of an empty partition", of(topic, (1, -1, epoch)))
            ask(f"current epoch {epoch}", of(topic, (0, epoch, 0)))
        ask("partitions out of range", of(topic, (2, -1, 0), (-1, -1, 0)))
        ask("a partition twice", of(topic, (0, -1, 0), (0, -1, 1)))
        ask("an unknown topic", of(absent, (0, -1, 0)), of(topic, (0, -1, 0)))
        ask("no topics")
        for replica in (-1, -2, 1, 7):
            ask(f"replica {replica}", of(topic, (0, -1, 0)), ReplicaId=replica)


@script
def deleted(side: Side):
    absent = side.absent()
    for version in side.versions("DeleteRecords"):
        topic = timed(side, f"timed-{version}")
        compacted = side.topic(f"compacted-{version}", cleanup_policy="compact")

        def ask(request: str, *topics: dict, timeout_ms: int = 5_000):
            side.ask("DeleteRecords", version, request, Topics=list(topics), TimeoutMs=timeout_ms)

        def of(name: Topic, *partitions: tuple[int, int]) -> dict:
            fields = ("PartitionIndex", "Offset")
            return {"Name": name.name, "Partitions": [dict(zip(fields, one)) for one in partitions]}

        ask("below 0", of(topic, (0, 0)))
        ask("below 2", of(topic, (0, 2)))
        ask("below 1 again", of(topic, (0, 1)))
        ask("beyond the end", of(topic, (0, 5)))
        for offset in (-2, -99, (1 << 63) - 1):
            ask(f"offset {offset}", of(topic, (0, offset)))
        ask("a partition twice", of(topic, (0, 3), (0, 2)))
        ask("all", of(topic, (0, -1)))
        ask("all of an empty partition", of(topic, (1, -1)))
        ask("partitions out of range", of(topic, (2, 0), (-1, 0)))
        ask("a compacted topic", of(compacted, (0, 0)))
        ask("an unknown topic", of(absent, (0, 0)), of(topic, (1, 0)))
        ask("the groups' own topic", of(Topic("__consumer_offsets"), (0, 0)))
        ask("no partitions", of(topic))
        ask("no topics")
        ask("timeout 0", of(topic, (0, -1)), timeout_ms=0)
        ask("timeout -1", of(topic, (0, -1)), timeout_ms=-1)
        side.ask("ListOffsets", 7, f"after {version}", ReplicaId=-1, Topics=[wanted(topic, (0, -1), (1, -2))])
        side.ask("ListOffsets", 7, f"the first after {version}", ReplicaId=-1, Topics=[wanted(topic, (0, -2))])


@script
def waits(side: Side):
    topic, absent = timed(side, "timed"), side.absent()
    newest = side.newest("ListOffsets")

    def waiting(request: str, topic: dict) -> Ask:
        values = {"ReplicaId": -1, "Topics": [topic], "TimeoutMs": 1_000}
        return Ask("ListOffsets", newest, request, values, waits_ms=1_000)

    side.ask_together(
        [
            waiting("the end", wanted(topic, (0, LATEST))),
            waiting("what another tier has", wanted(topic, (0, LATEST_TIERED))),
            waiting("an unknown topic", wanted(absent, (0, LATEST))),
        ]
    )
