"""Metadata, DescribeTopicPartitions, CreateTopics, CreatePartitions and DeleteTopics."""

from conformance.script import script, script_that_goes_on
from conformance.side import NO_ID, UNKNOWN_ID, Side, Topic

LONGEST = "n" * 249


@script
def metadata(side: Side):
    topic, absent = side.topic("topic", 2), side.absent()
    for version in side.versions("Metadata"):

        def ask(request: str, topics: list | None, may_create: bool = False, **more):
            values = {"Topics": topics, "AllowAutoTopicCreation": may_create} | more
            side.ask("Metadata", version, request, **values)

        ask("one", [{"Name": topic.name}])
        ask("one twice", [{"Name": topic.name}] * 2)
        if version > 0:
            ask("none", [])
        # A name that can be none is made into no topic.
        for name in ("", ".", "..", "a b", "a/b", "ü", LONGEST + "n"):
            ask(f"the name {name[:9]!r}", [{"Name": name}], may_create=True)
            ask(f"the name {name[:9]!r} is not made", [{"Name": name}])
        if version >= 4:
            ask("an unknown one", [{"Name": absent.name}, {"Name": topic.name}])
        if version >= 8:
            ask("with operations", [{"Name": topic.name}], IncludeTopicAuthorizedOperations=True)
            ask("with the cluster's operations", [], IncludeClusterAuthorizedOperations=True)
            ask("an unknown one with operations", [{"Name": absent.name}], IncludeTopicAuthorizedOperations=True)
        if version >= 10:
            ask("by id", [{"Name": None, "TopicId": topic.id}])
            ask("by id and name", [{"Name": topic.name, "TopicId": topic.id}])
            ask("by id and another name", [{"Name": absent.name, "TopicId": topic.id}])
            ask("an unknown id", [{"Name": None, "TopicId": UNKNOWN_ID}])
            ask("an unknown id, twice", [{"Name": None, "TopicId": UNKNOWN_ID}] * 2)
            ask("by id and by name", [{"Name": None, "TopicId": topic.id}, {"Name": topic.name}])
            ask("neither id nor name", [{"Name": None, "TopicId": NO_ID}])


@script_that_goes_on
def made_by_metadata(side: Side):
    """A name that is asked for becomes a topic, if that is allowed."""
    for version in side.versions("Metadata"):
        name = side.unique(f"asked-{version}")
        first = {"Topics": [{"Name": name}], "AllowAutoTopicCreation": True}
        side.ask("Metadata", version, "the first time", **first)

        def is_there() -> bool:
            told = side.do("Metadata", 9, Topics=[{"Name": name}], AllowAutoTopicCreation=False)
            return told["Topics"][0]["ErrorCode"] == 0

        side.wait_until(is_there, f"{name} to be there")
        told = side.do("Metadata", 12, **first)["Topics"][0]
        side.rules.topic_ids[told["TopicId"]] = name
        side.ask("Metadata", version, "when it is there", **first)


@script
def everything(side: Side):
    """All topics, as old and new versions ask for them."""
    side.settle()
    topic = side.topic("topic")
    ids = side.do("Metadata", 12, Topics=None)["Topics"]
    side.rules.topic_ids |= {one["TopicId"]: one["Name"] for one in ids}
    assert topic
    for version in side.versions("Metadata"):
        side.ask("Metadata", version, "all", Topics=None if version else [])


@script
def partitions(side: Side):
    """DescribeTopicPartitions, page by page (KIP-966)."""
    one, two, absent = side.topic("one", 3), side.topic("two", 2), side.absent()
    for version in side.versions("DescribeTopicPartitions"):

        def ask(request: str, *names: str, **more):
            side.ask("DescribeTopicPartitions", version, request, Topics=[{"Name": name} for name in names], **more)

        ask("two", two.name, one.name)
        ask("one twice", one.name, one.name)
        ask("an unknown one", absent.name, one.name)
        ask("an empty name", "")
        ask("a name that cannot be", "a/b")
        for limit in (0, -1, 1, 2, 4, (1 << 31) - 1):
            ask(f"limit {limit}", one.name, two.name, ResponsePartitionLimit=limit)
        for name, index in ((one.name, 1), (one.name, 9), (one.name, -1), (two.name, 0), (absent.name, 0), ("", 0)):
            cursor = {"TopicName": name, "PartitionIndex": index}
            ask(f"from {name[-6:]} {index}", one.name, two.name, Cursor=cursor)
        ask("from one that is not asked for", two.name, Cursor={"TopicName": one.name, "PartitionIndex": 0})
        ask("an empty name beside one", "", one.name)
        ask("all from a bad partition", Cursor={"TopicName": one.name, "PartitionIndex": -1})
        ask("from the largest partition", one.name, Cursor={"TopicName": one.name, "PartitionIndex": (1 << 31) - 1})
        second = {"TopicName": one.name, "PartitionIndex": 1}
        ask("limit 1 from the second", one.name, Cursor=second, ResponsePartitionLimit=1)


def new(name: str, partitions: int = 1, replicas: int = 1, assignments: dict | None = None, **configs) -> dict:
    listed = [{"PartitionIndex": index, "BrokerIds": ids} for index, ids in (assignments or {}).items()]
    settings = [{"Name": key.replace("_", "."), "Value": value} for key, value in configs.items()]
    return {
        "Name": name,
        "NumPartitions": partitions,
        "ReplicationFactor": replicas,
        "Assignments": listed,
        "Configs": settings,
    }


@script
def created(side: Side):
    there = side.topic("there")
    for version in side.versions("CreateTopics"):
        prefix = side.unique(f"new-{version}")

        def ask(request: str, *topics: dict, **more):
            values = {"Topics": list(topics), "timeoutMs": 10_000} | more
            answer = side.ask("CreateTopics", version, request, **values)
            for made in answer.body.get("Topics", []):
                if made.get("TopicId", NO_ID) != NO_ID:
                    side.rules.topic_ids[made["TopicId"]] = made["Name"]

        # Whether it could be done, so that nothing has to be waited for.
        for only in (True, False):
            suffix = "" if only else ", in earnest"

            def one(request: str, name: str, *more, **configs):
                name = f"{prefix}-{name}-{'only' if only else 'made'}"
                ask(f"{request}{suffix}", new(name, *more, **configs), validateOnly=only)

            one("defaults of the broker", "defaults", -1, -1)
            one("three partitions", "three", 3, 1)
            one("a setting", "set", 1, 1, retention_ms="1000")
            one("a setting of the default's value", "set-default", 1, 1, retention_ms="604800000")
            one("0 partitions", "none", 0, 1)
            one("-2 partitions", "minus", -2, 1)
            one("replication 0", "zero", 1, 0)
            one("replication 2", "two", 1, 2)
            one("replication -2", "minus-two", 1, -2)
            one("an unknown setting", "odd", 1, 1, no_such="1")
            one("a setting that cannot be", "bad", 1, 1, retention_ms="often")
            one("a setting of null", "null", 1, 1, retention_ms=None)
            one("settings that contradict", "contradict", 1, 1, min_compaction_lag_ms="10", max_compaction_lag_ms="5")
            one("an unknown policy", "policy", 1, 1, cleanup_policy="burn")
            one("more in sync than there are", "in-sync", 1, 1, min_insync_replicas="5")
            one("assigned", "assigned", -1, -1, {0: [1], 1: [1]})
            one("assigned, with a gap", "gap", -1, -1, {0: [1], 2: [1]})
            one("assigned to nobody", "nobody", -1, -1, {0: []})
            one("assigned to an unknown broker", "unknown", -1, -1, {0: [99]})
            one("assigned twice to a broker", "twice", -1, -1, {0: [1, 1]})
            one("assigned and counted", "counted", 1, 1, {0: [1]})
            one("assigned unevenly", "uneven", -1, -1, {0: [1], 1: [1, 99]})
        for name in ("", ".", "..", "a b", "a/b", "ü", LONGEST + "n", "__consumer_offsets", "__cluster_metadata"):
            ask(f"the name {name[:20]!r}", new(name), validateOnly=True)
        ask("the longest name", new(LONGEST), validateOnly=True)
        ask("there already", new(there.name))
        ask("names that collide", new(f"{prefix}.a"), new(f"{prefix}_a"), validateOnly=True)
        ask("a name twice", new(f"{prefix}-twice"), new(f"{prefix}-twice"))
        ask("one bad of two", new(f"{prefix}-good"), new(f"{prefix}-bad", 0))
        ask("none")
        ask("timeout -1", new(f"{prefix}-timeout"), timeoutMs=-1, validateOnly=True)
        side.settle()
        side.ask("Metadata", 12, f"what was made at {version}", Topics=[{"Name": f"{prefix}-three-made"}])


@script
def grown(side: Side):
    absent = side.absent()
    for version in side.versions("CreatePartitions"):
        topic, other = side.topic(f"topic-{version}", 2), side.topic(f"other-{version}")

        def ask(request: str, *topics: tuple[str, int, list | None], **more):
            named = [
                {"Name": name, "Count": count, "Assignments": ids and [{"BrokerIds": one} for one in ids]}
                for name, count, ids in topics
            ]
            side.ask("CreatePartitions", version, request, **{"Topics": named, "TimeoutMs": 10_000} | more)

        for count in (0, -1, 1, 2):
            ask(f"to {count}", (topic.name, count, None))
        if version == side.newest("CreatePartitions"):
            # Kafka takes seconds for it.
            ask(f"to {1 << 30}", (topic.name, 1 << 30, None))
        ask("to 3, only asked", (topic.name, 3, None), ValidateOnly=True)
        ask("assigned to an unknown broker", (topic.name, 3, [[99]]))
        ask("assigned to nobody", (topic.name, 3, [[]]))
        ask("assigned twice to a broker", (topic.name, 3, [[1, 1]]))
        ask("assigned too few", (topic.name, 4, [[1]]))
        ask("assigned too many", (topic.name, 3, [[1], [1]]))
        ask("no assignments", (topic.name, 3, []), ValidateOnly=True)
        ask("assigned", (topic.name, 3, [[1]]))
        ask("an unknown one beside a known one", (absent.name, 2, None), (other.name, 2, None))
        ask("one twice", (topic.name, 4, None), (topic.name, 5, None))
        ask("an empty name", ("", 2, None))
        ask("none")
        side.settle()
        names = [{"Name": topic.name}, {"Name": other.name}]
        side.ask("Metadata", 12, f"what was grown at {version}", Topics=names)


@script
def gone(side: Side):
    absent = side.absent()
    for version in side.versions("DeleteTopics"):
        topics = [side.topic(f"topic-{version}-{at}") for at in range(4)]

        def ask(request: str, *names: str, more: tuple = ()):
            by = [{"Name": name} for name in names] + list(more)
            side.ask("DeleteTopics", version, request, TopicNames=list(names), Topics=by, TimeoutMs=10_000)

        ask("one", topics[0].name)
        ask("one again", topics[0].name)
        ask("one twice", topics[1].name, topics[1].name)
        ask("an unknown one beside a known one", absent.name, topics[2].name)
        ask("an empty name", "")
        ask("a name that cannot be", "a/b")
        ask("none")
        if version >= 6:
            by_id = {"Name": None, "TopicId": topics[3].id}
            ask("id and name", more=({"Name": topics[3].name, "TopicId": topics[3].id},))
            ask("neither id nor name", more=({"Name": None, "TopicId": NO_ID},))
            ask("an unknown id", more=({"Name": None, "TopicId": UNKNOWN_ID},))
            ask("an id twice", more=(by_id, by_id))
            ask("an id and its name", topics[3].name, more=(by_id,))
            ask("by id", more=(by_id,))
            ask("by id again", more=(by_id,))
        side.settle()
        names = [{"Name": topic.name} for topic in topics]
        side.ask("Metadata", 12, f"what is left at {version}", Topics=names, AllowAutoTopicCreation=False)


@script
def made_anew(side: Side):
    """A topic that was deleted and has come back under its name: its id is another one."""
    before = side.topic("topic")
    side.do("DeleteTopics", TimeoutMs=10_000, Topics=[{"Name": before.name}])
    side.settle()
    after = side.topic("topic")
    side.rules.topic_ids |= {before.id: "what was there before", after.id: "what is there now"}
    old = Topic(before.name, before.id)
    asked = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
    for version in side.versions("Fetch"):
        topics = [old.ref() | {"Partitions": [asked]}]
        side.ask("Fetch", version, "as it was before", MaxWaitMs=0, MinBytes=0, Topics=topics)
