"""Consumer groups (KIP-848): heartbeats, epochs, assignments, static members, and what is told of them."""

from conformance.connection import Answer
from conformance.script import script, script_that_goes_on
from conformance.side import Side, Topic

JOINING = {"RebalanceTimeoutMs": 60_000, "TopicPartitions": []}
JOIN = JOINING | {"MemberEpoch": 0}


def beat(side: Side, request: str, group: str, member: str, epoch: int, **more) -> Answer:
    newest = side.newest("ConsumerGroupHeartbeat")
    values = {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, "RebalanceTimeoutMs": -1} | more
    return side.ask("ConsumerGroupHeartbeat", newest, request, **values)


def join(side: Side, request: str, group: str, member: str, topics: list[Topic], **more) -> Answer:
    names = [topic.name for topic in topics]
    return beat(side, request, group, member, 0, **JOINING | {"SubscribedTopicNames": names} | more)


def has(topic: Topic, *partitions: int) -> list[dict]:
    return [{"TopicId": topic.id, "Partitions": list(partitions)}] if partitions else []


def describe(side: Side, request: str, group: str):
    for version in side.versions("ConsumerGroupDescribe"):
        side.ask("ConsumerGroupDescribe", version, request, GroupIds=[group])


@script
def arguments(side: Side):
    """What is wrong whatever the group is like."""
    group = side.unique("group")
    side.wait_for_coordinator(group)
    topic = side.topic("topic")
    for version in side.versions("ConsumerGroupHeartbeat"):
        good = JOIN | {"GroupId": f"{group}-{version}", "MemberId": "m", "SubscribedTopicNames": [topic.name]}
        for request, values in {
            "no group": {"GroupId": ""},
            "a blank group": {"GroupId": " "},
            "a member without an id that stays": {"MemberId": "", "MemberEpoch": 1},
            "a member without an id that leaves": {"MemberId": "", "MemberEpoch": -1},
            "an empty instance": {"InstanceId": ""},
            "an empty rack": {"RackId": ""},
            "no rebalance timeout": {"RebalanceTimeoutMs": -1},
            "partitions that are not said": {"TopicPartitions": None},
            "partitions that are had": {"TopicPartitions": has(topic, 0)},
            "no topics": {"SubscribedTopicNames": None},
            "epoch -3": {"MemberEpoch": -3},
            "leaves for now without an instance": {"MemberEpoch": -2},
            "an unknown assignor": {"ServerAssignor": "no-such"},
            "stays in a group that there is not": {"MemberEpoch": 5},
            "leaves a group that there is not": {"MemberEpoch": -1},
            "leaves a group that there is not for now": {"MemberEpoch": -2, "InstanceId": "i"},
        }.items():
            side.ask("ConsumerGroupHeartbeat", version, request, **good | values)
    for version in side.versions("ConsumerGroupDescribe"):
        for request, groups in {"nothing": [], "an unknown group": ["no-such"], "an empty name": [""]}.items():
            side.ask("ConsumerGroupDescribe", version, request, GroupIds=groups)


@script_that_goes_on
def membership(side: Side):
    """Two members share a topic, one says wrong epochs, and both leave."""
    group = side.unique("group")
    side.wait_for_coordinator(group)
    topic = side.topic("topic", partitions=2)
    side.settle()
    # Kafka counts epochs from 2 on, and Logway from 1 on.
    first = join(side, "the first joins", group, "a", [topic])["MemberEpoch"]
    describe(side, "one member", group)
    join(side, "the second joins", group, "b", [topic])
    beat(side, "the first has all", group, "a", first, TopicPartitions=has(topic, 0, 1))
    describe(side, "the first is to give something up", group)
    told = side.do("ConsumerGroupDescribe", GroupIds=[group])["Groups"][0]["Members"]
    target = {one["MemberId"]: one["TargetAssignment"]["TopicPartitions"] for one in told}
    kept = [number for one in target["a"] for number in one["Partitions"]]
    got = [number for one in target["b"] for number in one["Partitions"]]
    beat(side, "the second waits", group, "b", first + 1, TopicPartitions=[])
    beat(side, "the first has given it up", group, "a", first, TopicPartitions=has(topic, *kept))
    beat(side, "a reply is lost", group, "a", first, TopicPartitions=has(topic, *kept))
    beat(side, "the second gets it", group, "b", first + 1, TopicPartitions=[])
    beat(side, "the second has it", group, "b", first + 1, TopicPartitions=has(topic, *got))
    beat(side, "nothing new", group, "b", first + 1)
    describe(side, "two members", group)
    beat(side, "an epoch too large", group, "a", 9, TopicPartitions=has(topic, *kept))
    beat(side, "an epoch too small", group, "b", first, TopicPartitions=has(topic, 0, 1))
    beat(side, "an unknown member", group, "c", first + 1, TopicPartitions=[])
    join(side, "joins again", group, "b", [topic])
    listed(side, group)
    for version in side.versions("DescribeGroups"):
        side.ask("DescribeGroups", version, "a consumer group", Groups=[group])
    side.ask("DeleteGroups", side.newest("DeleteGroups"), "with members", GroupsNames=[group])
    beat(side, "the second leaves", group, "b", -1)
    beat(side, "the second has left", group, "b", -1)
    beat(side, "the first leaves", group, "a", -1)
    describe(side, "without members", group)
    side.ask("DeleteGroups", side.newest("DeleteGroups"), "without members", GroupsNames=[group])
    describe(side, "deleted", group)


def listed(side: Side, group: str):
    newest = side.newest("ListGroups")
    for kind in ("consumer", "classic", "Consumer", "no-such"):
        answer = side.do("ListGroups", newest, StatesFilter=[], TypesFilter=[kind])
        found = [one for one in answer["Groups"] if one["GroupId"] == group]
        if bool(found) != (kind.lower() == "consumer"):
            raise AssertionError(f"{side.kind}: {group} is listed as {kind}: {found}")


@script_that_goes_on
def static_members(side: Side):
    group = side.unique("group")
    side.wait_for_coordinator(group)
    topic = side.topic("topic")
    side.settle()
    first = join(side, "joins", group, "a", [topic], InstanceId="i")["MemberEpoch"]
    join(side, "another with the same instance", group, "b", [topic], InstanceId="i")
    beat(side, "without its instance", group, "a", first, TopicPartitions=has(topic, 0))
    beat(side, "another says its epoch", group, "b", first, InstanceId="i", TopicPartitions=has(topic, 0))
    beat(side, "an unknown instance", group, "a", first, InstanceId="j", TopicPartitions=has(topic, 0))
    beat(side, "leaves for now", group, "a", -2, InstanceId="i")
    describe(side, "away", group)
    join(side, "is back", group, "b", [topic], InstanceId="i")
    beat(side, "the former one", group, "a", first, InstanceId="i", TopicPartitions=has(topic, 0))
    beat(side, "the former one leaves", group, "a", -1, InstanceId="i")
    beat(side, "leaves for good", group, "b", -1, InstanceId="i")
    describe(side, "gone", group)


@script_that_goes_on
def offsets(side: Side):
    """Commits and fetches of a member, and of others."""
    group = side.unique("group")
    side.wait_for_coordinator(group)
    topic = side.topic("topic")
    side.settle()
    first = join(side, "joins", group, "a", [topic])["MemberEpoch"]
    for version in side.versions("OffsetCommit"):
        for request, member, epoch in [
            ("the member", "a", first),
            ("an epoch too large", "a", first + 1),
            ("an epoch too small", "a", first - 1),
            ("an unknown member", "b", first),
            ("nobody", "", -1),
        ]:
            partitions = [{"PartitionIndex": 0, "CommittedOffset": 7, "CommittedMetadata": ""}]
            told = [{"Name": topic.name, "TopicId": topic.id, "Partitions": partitions}]
            values = {"GroupId": group, "MemberId": member, "GenerationIdOrMemberEpoch": epoch}
            side.ask("OffsetCommit", version, request, **values, Topics=told)
    for version in (version for version in side.versions("OffsetFetch") if version >= 9):
        for request, member, epoch in [
            ("the member", "a", first),
            ("an epoch too large", "a", first + 1),
            ("an unknown member", "b", first),
            ("nobody", None, -1),
            ("a member without an epoch", "a", -1),
        ]:
            asked = [{"Name": topic.name, "TopicId": topic.id, "PartitionIndexes": [0]}]
            groups = [{"GroupId": group, "MemberId": member, "MemberEpoch": epoch, "Topics": asked}]
            side.ask("OffsetFetch", version, request, Groups=groups)
    told = [{"Name": topic.name, "Partitions": [{"PartitionIndex": 0}]}]
    side.ask("OffsetDelete", 0, "a topic that is read", GroupId=group, Topics=told)
    beat(side, "leaves", group, "a", -1)
    side.ask("OffsetDelete", 0, "a topic that is not read any more", GroupId=group, Topics=told)


@script
def patterns(side: Side):
    """Regular expressions that are none; one that is, is looked up by each broker in its own time."""
    group = side.unique("group")
    side.wait_for_coordinator(group)
    for pattern in ("(", "[a", "*", "a{2,1}", "(?<n", r"\8"):
        more = JOINING | {"SubscribedTopicRegex": pattern, "SubscribedTopicNames": None}
        beat(side, f"the pattern {pattern}", group, "a", 0, **more)
