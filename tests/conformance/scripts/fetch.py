"""Fetch: what is read, what is refused, what is waited for, and what a session remembers."""

from conformance.batches import Batch, Record
from conformance.script import script
from conformance.side import UNKNOWN_ID, Ask, Side, Topic

WAIT_MS = 1_000


def of(topic: Topic, *partitions: dict) -> dict:
    return topic.ref() | {"Partitions": list(partitions)}


def at(offset: int, partition: int = 0, max_bytes: int = 1 << 20, **more) -> dict:
    return {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": max_bytes} | more


def values_of(*topics: dict, **more) -> dict:
    return {"MaxWaitMs": 0, "MinBytes": 0, "Topics": list(topics)} | more


def ask(side: Side, version: int, request: str, *topics: dict, **more):
    return side.ask("Fetch", version, request, **values_of(*topics, **more))


def filled(side: Side, name: str, partitions: int = 2) -> Topic:
    """Partition 0 has three batches, of 2, 3 and 1 records."""
    topic = side.topic(name, partitions)
    side.produce(topic, Batch(2), Batch(3), Batch(records=[Record(key=b"k", value=None, headers=[(b"h", None)])]))
    return topic


@script
def offsets(side: Side):
    topic, absent = filled(side, "filled"), side.absent()
    for version in side.versions("Fetch"):
        for offset in (0, 1, 2, 5, 6, 7, -1, -2, (1 << 63) - 1, -(1 << 63)):
            ask(side, version, f"offset {offset}", of(topic, at(offset)))
        ask(side, version, "an empty partition", of(topic, at(0, 1)))
        ask(side, version, "beyond an empty partition", of(topic, at(1, 1)))
        ask(side, version, "no topics")
        ask(side, version, "no partitions", of(topic))
        ask(side, version, "partitions out of range", of(topic, at(0, 2), at(0, -1), at(0, 1 << 30)))
        ask(side, version, "a partition twice", of(topic, at(0), at(2)))
        ask(side, version, "a topic twice", of(topic, at(0)), of(topic, at(0, 1)))
        ask(side, version, "an unknown topic", of(absent, at(0)))
        ask(side, version, "an unknown topic beside a known one", of(absent, at(0)), of(topic, at(0)))
        ask(side, version, "a name that no topic can have", of(Topic("a/b"), at(0)))
        ask(side, version, "out of range beside data", of(topic, at(0), at(99, 1)))


@script
def sizes(side: Side):
    topic = filled(side, "filled")
    for version in side.versions("Fetch"):
        for max_bytes in (0, -1, 1, 80, 200, -(1 << 31)):
            ask(side, version, f"partition max bytes {max_bytes}", of(topic, at(0, max_bytes=max_bytes)))
            ask(side, version, f"max bytes {max_bytes}", of(topic, at(0)), MaxBytes=max_bytes)
            ask(side, version, f"max bytes {max_bytes}, two", of(topic, at(0, 1), at(0)), MaxBytes=max_bytes)
        ask(side, version, "the second of two with max bytes 1", of(topic, at(0), at(2)), MaxBytes=1)
        ask(side, version, "min bytes -1", of(topic, at(6)), MinBytes=-1)
        ask(side, version, "max wait -1", of(topic, at(6)), MaxWaitMs=-1, MinBytes=1)


@script
def epochs(side: Side):
    topic = filled(side, "filled")
    for version in side.versions("Fetch"):
        for epoch in (0, 1, 99, -1, -2, -99):
            ask(side, version, f"current leader epoch {epoch}", of(topic, at(0, CurrentLeaderEpoch=epoch)))
            ask(side, version, f"last fetched epoch {epoch}", of(topic, at(2, LastFetchedEpoch=epoch)))
        ask(side, version, "last fetched epoch 0 beyond the end", of(topic, at(9, LastFetchedEpoch=0)))
        ask(side, version, "epoch 99 out of range", of(topic, at(99, CurrentLeaderEpoch=99)))
        ask(side, version, "epoch 99 of an unknown partition", of(topic, at(0, 9, CurrentLeaderEpoch=99)))
        ask(side, version, "a log start offset", of(topic, at(0, LogStartOffset=3)))


@script
def isolation(side: Side):
    topic = filled(side, "filled")
    for version in side.versions("Fetch"):
        for level in (0, 1, 2, -1, 127):
            ask(side, version, f"isolation {level}", of(topic, at(0)), IsolationLevel=level)
            ask(side, version, f"isolation {level}, at the end", of(topic, at(6)), IsolationLevel=level)
            ask(side, version, f"isolation {level}, out of range", of(topic, at(9)), IsolationLevel=level)


@script
def replicas(side: Side):
    """Who says that it is a replica."""
    topic = filled(side, "filled")
    for version in side.versions("Fetch"):
        for replica in (-1, -2, -3, 1, 7):
            of_replica = {"ReplicaId": replica} if version < 15 else {"ReplicaState": {"ReplicaId": replica}}
            ask(side, version, f"replica {replica}", of(topic, at(0)), **of_replica)
            for epoch in (0, 1):
                of_epoch = of(topic, at(0, CurrentLeaderEpoch=epoch))
                ask(side, version, f"replica {replica} of epoch {epoch}", of_epoch, **of_replica)
        ask(side, version, "a rack", of(topic, at(0)), RackId="somewhere")
        ask(side, version, "a cluster id", of(topic, at(0)), ClusterId="another")


@script
def trimmed(side: Side):
    topic = filled(side, "filled")
    below = {"Name": topic.name, "Partitions": [{"PartitionIndex": 0, "Offset": 3}]}
    side.do("DeleteRecords", Topics=[below], TimeoutMs=5_000)
    for version in side.versions("Fetch"):
        for offset in (0, 2, 3, 5, 6, 7):
            ask(side, version, f"offset {offset}", of(topic, at(offset)))


@script
def waits(side: Side):
    """What ends a wait."""
    topic, absent = filled(side, "filled", 3), side.absent()
    quiet, data, beyond = at(0, 1), at(0), at(99)

    def waiting(version: int, request: str, *topics: dict, **more) -> Ask:
        values = values_of(*topics, MaxWaitMs=WAIT_MS, MinBytes=1) | more
        return Ask("Fetch", version, request, values, waits_ms=WAIT_MS)

    for version in (side.versions("Fetch")[0], 11, 12, side.newest("Fetch")):
        side.ask_together(
            [
                waiting(version, "at the end", of(topic, quiet)),
                waiting(version, "at the end, twice", of(topic, quiet, at(0, 2))),
                waiting(version, "data", of(topic, data)),
                waiting(version, "data beside an end", of(topic, quiet, data)),
                waiting(version, "less than is wanted", of(topic, data), MinBytes=1 << 20),
                waiting(version, "less than is wanted, little is allowed", of(topic, data), MinBytes=1000, MaxBytes=10),
                waiting(version, "min bytes 0", of(topic, quiet), MinBytes=0),
                waiting(version, "no topics"),
                waiting(version, "no partitions", of(topic)),
                waiting(version, "out of range", of(topic, beyond)),
                waiting(version, "out of range beside an end", of(topic, quiet, beyond)),
                waiting(version, "an unknown topic", of(absent, at(0))),
                waiting(version, "an unknown topic beside an end", of(absent, at(0)), of(topic, quiet)),
                waiting(version, "an unknown partition", of(topic, at(0, 9))),
                waiting(version, "an unknown partition beside an end", of(topic, at(0, 9), quiet)),
                waiting(version, "a wrong epoch beside an end", of(topic, quiet, at(0, 2, CurrentLeaderEpoch=9))),
                waiting(version, "partition max bytes 0", of(topic, at(0, max_bytes=0))),
            ]
        )


@script
def sessions(side: Side):
    """What a session remembers from fetch to fetch (KIP-227)."""
    for version in side.versions("Fetch"):
        if version < 7:
            continue
        topic = filled(side, f"filled-{version}", 3)
        other = side.topic(f"other-{version}")
        absent = side.absent(f"absent-{version}")

        def within(request: str, session: int, epoch: int, *topics: dict, **more):
            return ask(side, version, request, *topics, SessionId=session, SessionEpoch=epoch, **more)

        within("no session, but an epoch", 0, 1, of(topic, at(0)))
        within("an unknown session", 12_345, 1)
        within("the largest session", (1 << 31) - 1, 1)
        within("a session that is closed", 12_345, -1, of(topic, at(0)))
        within("a session to be replaced that is unknown", 12_345, 0, of(topic, at(0)))
        made = within("a new one", 0, 0, of(topic, at(0), at(0, 1)), of(other, at(0)), of(absent, at(0)))
        session = made["SessionId"]
        within("nothing new", session, 1)
        within("moved to the end", session, 2, of(topic, at(6)))
        within("at the end", session, 3)
        within("one more partition", session, 4, of(topic, at(0, 2)))
        within("an unknown partition", session, 5, of(topic, at(0, 9)))
        within("the unknown partition still", session, 6)
        side.produce(topic, Batch(1), partition=1)
        within("something new", session, 7)
        forgotten = [topic.ref() | {"Partitions": [1, 9]}]
        within("forgotten", session, 8, ForgottenTopicsData=forgotten)
        within("after it was forgotten", session, 9)
        within("out of range", session, 10, of(topic, at(99)))
        within("out of range still", session, 11)
        within("a wrong epoch of the session", session, 5)
        side.do("DeleteTopics", TimeoutMs=5_000, Topics=[{"Name": other.name}])
        side.settle()
        within("a topic was deleted", session, 12)
        within("a topic was deleted, again", session, 13)
        within("closed", session, -1)
        within("after it was closed", session, 14)
        only = within("a new one of no topics", 0, 0)
        within("of no topics", only["SessionId"], 1)
        within("forgets what it never knew", only["SessionId"], 2, ForgottenTopicsData=forgotten)
        within("an epoch below -1", 0, -2, of(topic, at(0)))


@script
def topic_ids(side: Side):
    """From version 13 on topics are named by their ids."""
    topic = filled(side, "filled")
    for version in side.versions("Fetch"):
        if version >= 13:
            ask(side, version, "no id", {"Partitions": [at(0)]})
            ask(side, version, "an unknown id", {"TopicId": UNKNOWN_ID, "Partitions": [at(0)]})
            ask(side, version, "an unknown id, twice", *[{"TopicId": UNKNOWN_ID, "Partitions": [at(0)]}] * 2)
            ask(side, version, "both", {"TopicId": UNKNOWN_ID, "Partitions": [at(0)]}, of(topic, at(0)))
