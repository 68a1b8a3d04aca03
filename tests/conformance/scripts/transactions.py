"""WriteTxnMarkers: what ends transactions, and what is told of it. Nobody begins one here."""

from conformance.batches import Batch
from conformance.script import script
from conformance.side import Side, Topic

# Any that nobody was given.
PRODUCER = 5_151


def to(topic: Topic, *partitions: int) -> dict:
    return {"Name": topic.name, "PartitionIndexes": list(partitions)}


def marker(*topics: dict, producer: int = PRODUCER, epoch: int = 0, coordinator: int = 3, commit: bool = False) -> dict:
    return {
        "ProducerId": producer,
        "ProducerEpoch": epoch,
        "TransactionResult": commit,
        "Topics": list(topics),
        "CoordinatorEpoch": coordinator,
    }


@script
def markers(side: Side):
    absent = side.absent()
    for version in side.versions("WriteTxnMarkers"):
        topic = side.topic(f"markers-{version}", 2)
        # The coordinator raises the epoch with each marker, if it says so.
        by = {"TransactionVersion": 2} if version >= 2 else {}

        def ask(request: str, *markers: dict):
            side.ask("WriteTxnMarkers", version, request, Markers=[one | by for one in markers])

        ask("none")
        ask("no topics", marker())
        ask("no partitions", marker(to(topic)))
        ask("an abort", marker(to(topic, 0)))
        ask("the same again", marker(to(topic, 0)))
        ask("two partitions", marker(to(topic, 0, 1), epoch=1, commit=True))
        ask("an older epoch", marker(to(topic, 0), epoch=0))
        ask("an older coordinator", marker(to(topic, 0), epoch=2, coordinator=1))
        ask("a newer coordinator", marker(to(topic, 0), epoch=2, coordinator=4))
        ask("an unknown partition", marker(to(topic, 9), epoch=3))
        ask("an unknown topic", marker(to(absent, 0), epoch=3))
        ask("two producers", marker(to(topic, 0), producer=6_001), marker(to(topic, 1), producer=6_002))
        for described in side.versions("DescribeProducers"):
            listed = [{"Name": topic.name, "PartitionIndexes": [0, 1]}]
            side.ask("DescribeProducers", described, f"behind markers of version {version}", Topics=listed)


@script
def sequences(side: Side):
    """A marker that raises the epoch has sequences begin anew."""
    topic = side.topic("sequences")
    version = side.versions("WriteTxnMarkers")[-1]
    side.produce(topic, Batch(2, producer_id=PRODUCER, producer_epoch=3, base_sequence=0))
    raised = marker(to(topic, 0), epoch=4) | {"TransactionVersion": 2}
    side.ask("WriteTxnMarkers", version, "raises the epoch", Markers=[raised])
    for request, epoch, sequence in (("the old epoch", 3, 2), ("a gap", 4, 2), ("the first", 4, 0)):
        records = Batch(2, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence).encode()
        data = topic.ref("Name") | {"PartitionData": [{"Index": 0, "Records": records}]}
        values = {"Acks": -1, "TimeoutMs": 5_000, "TopicData": [data]}
        side.ask("Produce", side.versions("Produce")[-1], f"behind a marker, {request}", True, **values)
