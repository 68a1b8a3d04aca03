"""Classic consumer groups: members, generations, rebalances, commits, and what becomes of them."""

import threading

from conformance.connection import Answer
from conformance.script import script, script_that_goes_on
from conformance.side import UNKNOWN_ID, Ask, Side, Topic

PROTOCOLS = [{"Name": "range", "Metadata": b"\0\1"}, {"Name": "roundrobin", "Metadata": b"\0\2"}]
JOIN = {"SessionTimeoutMs": 600_000, "RebalanceTimeoutMs": 2_000, "ProtocolType": "consumer", "Protocols": PROTOCOLS}
# From this version on a member without an id gets one, to come back with.
ID_FIRST = 4


def join(side: Side, version: int, request: str, group: str, **more) -> Answer:
    return side.ask("JoinGroup", version, request, **JOIN | {"GroupId": group} | more)


def member(side: Side, group: str, **more) -> tuple[str, int]:
    """Joins as the only member, and leads; the member's id and generation."""
    side.wait_for_coordinator(group)
    values = JOIN | {"GroupId": group, "MemberId": ""} | more
    answer = side.do("JoinGroup", 3, **values)
    if answer["ErrorCode"]:
        raise AssertionError(f"{side.kind}: joining {group} gets {answer['ErrorCode']}")
    id, generation = answer["MemberId"], answer["GenerationId"]
    assigned = [{"MemberId": id, "Assignment": b"mine"}]
    side.do("SyncGroup", 3, GroupId=group, GenerationId=generation, MemberId=id, Assignments=assigned)
    return id, generation


def describe(side: Side, request: str, group: str):
    side.ask("DescribeGroups", side.newest("DescribeGroups"), request, Groups=[group])


def is_known(side: Side, group: str) -> bool:
    return side.do("DescribeGroups", Groups=[group])["Groups"][0]["ErrorCode"] == 0


@script
def coordinators(side: Side):
    for version in side.versions("FindCoordinator"):
        # Not type 1: a coordinator of transactions is there or not in Kafka as its topic's making goes.
        for kind in (0, 2, 3, -1):
            for key in ("some", "", "no:such"):
                values = {"Key": key, "KeyType": kind, "CoordinatorKeys": [key]}
                side.ask("FindCoordinator", version, f"{key!r} of type {kind}", **values)
        side.ask("FindCoordinator", version, "two, one twice", CoordinatorKeys=["a", "b", "a"])


@script
def joining(side: Side):
    """The first join, with all that can be wrong about it."""
    for version in side.versions("JoinGroup"):
        for request, values in {
            "an empty group": {"GroupId": ""},
            "an unknown member": {"MemberId": "no-such"},
            "session timeout 0": {"SessionTimeoutMs": 0},
            "session timeout -1": {"SessionTimeoutMs": -1},
            "a huge session timeout": {"SessionTimeoutMs": (1 << 31) - 1},
            "no protocol type": {"ProtocolType": ""},
            "no protocols": {"Protocols": []},
            "an unknown member of rebalance timeout -1": {"RebalanceTimeoutMs": -1, "MemberId": "no-such"},
            "an unknown instance with an id": {"GroupInstanceId": "i", "MemberId": "no-such"},
            "an empty instance": {"GroupInstanceId": ""},
            "an instance that cannot be": {"GroupInstanceId": "a b/"},
            "a protocol of no name": {"GroupInstanceId": "i", "Protocols": [{"Name": "", "Metadata": b""}]},
        }.items():
            group = side.unique(f"{request}-{version}")
            join(side, version, request, group, **values)
            describe(side, f"after {request} at {version}", group)


@script_that_goes_on
def life(side: Side):
    """One member from its first join to its leaving."""
    for version in side.versions("JoinGroup"):
        group = side.unique(f"group-{version}")
        side.wait_for_coordinator(group)
        first = join(side, version, "first", group, MemberId="")
        id = first["MemberId"]
        if first["ErrorCode"]:
            # Kafka describes what it has written, and answers a join before that.
            side.wait_until(lambda: is_known(side, group), f"{group} to be known")
            describe(side, f"with a pending member, {version}", group)
            first = join(side, version, "with the id that was given", group, MemberId=id)
        generation = first["GenerationId"]
        sync = min(version, side.newest("SyncGroup"))
        about = {"GroupId": group, "GenerationId": generation, "MemberId": id}
        heartbeat = min(version, side.newest("Heartbeat"))
        side.ask("Heartbeat", heartbeat, f"before the sync, {version}", **about)
        describe(side, f"before the sync, {version}", group)
        assignment = [{"MemberId": id, "Assignment": b"abc"}]
        named = {"ProtocolType": "consumer", "ProtocolName": "range"}
        side.ask("SyncGroup", sync, f"a wrong generation, {version}", **about | named | {"GenerationId": 99})
        side.ask("SyncGroup", sync, f"a wrong member, {version}", **about | named | {"MemberId": "no-such"})
        side.ask("SyncGroup", sync, f"a wrong protocol, {version}", **about | named | {"ProtocolName": "no-such"})
        side.ask("SyncGroup", sync, f"a wrong type, {version}", **about | named | {"ProtocolType": "no-such"})
        side.ask("SyncGroup", sync, f"the leader's, {version}", **about | named, Assignments=assignment)
        side.ask("SyncGroup", sync, f"again, {version}", **about | named)
        side.ask("SyncGroup", sync, f"without names, {version}", **about)
        side.ask("Heartbeat", heartbeat, f"when stable, {version}", **about)
        side.ask("Heartbeat", heartbeat, f"a wrong generation, {version}", **about | {"GenerationId": 99})
        side.ask("Heartbeat", heartbeat, f"generation -1, {version}", **about | {"GenerationId": -1})
        side.ask("Heartbeat", heartbeat, f"a wrong member, {version}", **about | {"MemberId": "no-such"})
        side.ask("Heartbeat", heartbeat, f"no member, {version}", **about | {"MemberId": ""})
        side.ask("Heartbeat", heartbeat, f"an unknown group, {version}", **about | {"GroupId": "no-such"})
        side.ask("Heartbeat", heartbeat, f"an instance that it has not, {version}", **about | {"GroupInstanceId": "i"})
        describe(side, f"when stable, {version}", group)
        join(side, version, "another type", group, MemberId="", ProtocolType="connect")
        join(side, version, "no protocol in common", group, MemberId="", Protocols=[{"Name": "x", "Metadata": b""}])
        again = join(side, version, "again", group, MemberId=id)
        generation = again["GenerationId"]
        about["GenerationId"] = generation
        leave = min(version, side.newest("LeaveGroup"))
        side.ask("LeaveGroup", leave, f"a wrong member, {version}", **leaving(group, "no-such"))
        side.ask("LeaveGroup", leave, f"an unknown group, {version}", **leaving("no-such", id))
        side.ask("LeaveGroup", leave, f"leaves, {version}", **leaving(group, id))
        side.ask("LeaveGroup", leave, f"leaves again, {version}", **leaving(group, id))
        describe(side, f"left, {version}", group)
        side.ask("Heartbeat", heartbeat, f"when it has left, {version}", **about)


def leaving(group: str, id: str) -> dict:
    return {"GroupId": group, "MemberId": id, "Members": [{"MemberId": id}]}


@script
def static_members(side: Side):
    """Members with an instance id (KIP-345)."""
    for version in side.versions("JoinGroup"):
        if version < 5:
            continue
        group = side.unique(f"group-{version}")
        side.wait_for_coordinator(group)
        first = join(side, version, "first", group, MemberId="", GroupInstanceId="one")
        old, generation = first["MemberId"], first["GenerationId"]
        about = {"GroupId": group, "GenerationId": generation, "MemberId": old, "GroupInstanceId": "one"}
        named = {"ProtocolType": "consumer", "ProtocolName": "range"}
        sync = min(version, side.newest("SyncGroup"))
        assignment = [{"MemberId": old, "Assignment": b"abc"}]
        side.ask("SyncGroup", sync, f"static, {version}", **about | named, Assignments=assignment)
        second = join(side, version, "the same instance anew", group, MemberId="", GroupInstanceId="one")
        describe(side, f"the instance came back, {version}", group)
        newest = side.newest("Heartbeat")
        side.ask("Heartbeat", newest, f"the id that was replaced, {version}", **about)
        side.ask("SyncGroup", sync, f"the id that was replaced, {version}", **about | named)
        join(side, version, "the id that was replaced", group, MemberId=old, GroupInstanceId="one")
        commit = {"Topics": [offsets_of(Topic("t"), (0, 1, None))]}
        committing = {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": old}
        committing = committing | commit | {"GroupInstanceId": "one"}
        side.ask("OffsetCommit", 9, f"the id that was replaced, {version}", **committing)
        ours = {"MemberId": second["MemberId"]}
        side.ask("Heartbeat", newest, f"the id of now, {version}", **about | ours)
        unknown = about | ours | {"GroupInstanceId": "x"}
        side.ask("Heartbeat", newest, f"an instance that is unknown, {version}", **unknown)
        members = [
            {"MemberId": "", "GroupInstanceId": "two"},
            {"MemberId": old, "GroupInstanceId": "one"},
            {"MemberId": "no-such", "GroupInstanceId": None},
            {"MemberId": "", "GroupInstanceId": "one"},
            {"MemberId": "", "GroupInstanceId": "one"},
        ]
        for leave in side.versions("LeaveGroup"):
            if leave >= 3 and version == side.newest("JoinGroup"):
                side.ask("LeaveGroup", leave, f"several, {leave}", GroupId=group, Members=members)
        describe(side, f"the instance has left, {version}", group)


@script_that_goes_on
def two_members(side: Side):
    """A second member: the first one has to come again."""
    group = side.unique("group")
    first, generation = member(side, group)
    newest = side.newest("JoinGroup")
    second = join(side, newest, "the second, first", group, MemberId="")["MemberId"]
    joined: list[Answer] = []
    waiting = threading.Thread(target=lambda: joined.append(joins_alone(side, newest, group, second)))
    waiting.start()
    about = {"GroupId": group, "GenerationId": generation, "MemberId": first}
    heartbeat = side.newest("Heartbeat")

    def is_rebalancing() -> bool:
        return side.do("Heartbeat", heartbeat, **about)["ErrorCode"] != 0

    side.wait_until(is_rebalancing, "the rebalance")
    side.ask("Heartbeat", heartbeat, "during the rebalance", **about)
    describe(side, "during the rebalance", group)
    commit = {"Topics": [offsets_of(Topic("t"), (0, 1, None))]}
    committing = {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": first}
    side.ask("OffsetCommit", 9, "during the rebalance", **committing, **commit)
    side.ask("SyncGroup", side.newest("SyncGroup"), "during the rebalance", **about)
    join(side, newest, "the first again", group, MemberId=first)
    waiting.join()
    about["GenerationId"] = joined[0]["GenerationId"]
    committing["GenerationIdOrMemberEpoch"] = about["GenerationId"]
    side.ask("OffsetCommit", 9, "before the sync", **committing, **commit)
    side.ask("LeaveGroup", side.newest("LeaveGroup"), "the second leaves", **leaving(group, second))
    side.ask("Heartbeat", heartbeat, "the second has left", **about)


def joins_alone(side: Side, version: int, group: str, id: str) -> Answer:
    connection = side.connect()
    try:
        values = JOIN | {"GroupId": group, "MemberId": id}
        return side.ask("JoinGroup", version, "the second", connection=connection, **values)
    finally:
        connection.close()


@script
def timeouts(side: Side):
    """How long a join waits for members that do not come, and how soon a silent member is gone."""
    groups = [side.unique(f"rebalance-{at}") for at in range(2)]
    members = [member(side, group, RebalanceTimeoutMs=1_500) for group in groups]
    silent, alone, quick = side.unique("silent"), side.unique("alone"), side.unique("quick")
    member(side, silent, SessionTimeoutMs=300)
    quick_id, quick_generation = member(side, quick)
    side.wait_for_coordinator(alone)

    def joining(request: str, group: str, **more) -> Ask:
        values = JOIN | {"GroupId": group, "MemberId": "", "RebalanceTimeoutMs": 1_500} | more
        return Ask("JoinGroup", 3, request, values, waits_ms=1_500)

    about = {"GroupId": quick, "GenerationId": quick_generation, "MemberId": quick_id}
    side.ask_together(
        [
            joining("the other member does not come", groups[0]),
            joining("alone", alone),
            joining("the only member again", groups[1], MemberId=members[1][0]),
            Ask("Heartbeat", 4, "a heartbeat", about, waits_ms=1_500),
        ]
    )
    answers = []

    def is_gone() -> bool:
        answers.append(side.do("DescribeGroups", 5, Groups=[silent]))
        return answers[-1]["Groups"][0]["GroupState"] == "Empty"

    side.wait_until(is_gone, "the silent member to be gone")
    describe(side, "the silent member is gone", silent)


def offsets_of(topic: Topic, *partitions: tuple[int, int, str | None]) -> dict:
    fields = ("PartitionIndex", "CommittedOffset", "CommittedMetadata")
    return topic.ref("Name") | {"Partitions": [dict(zip(fields, one)) for one in partitions]}


def wanted(topic: Topic, version: int, *indexes: int) -> dict:
    by = topic.ref("Name") if version >= 8 else {"Name": topic.name}
    return by | {"PartitionIndexes": list(indexes)}


@script
def commits(side: Side):
    """Offsets that are committed from outside, by members, and read back."""
    topic, absent = side.topic("topic", 2), side.absent()
    for version in side.versions("OffsetCommit"):
        group = side.unique(f"group-{version}")
        side.wait_for_coordinator(group)

        def commit(request: str, *topics: dict, **more):
            outside = {"GroupId": group, "GenerationIdOrMemberEpoch": -1, "MemberId": ""}
            return side.ask("OffsetCommit", version, request, **outside | {"Topics": list(topics)} | more)

        commit("from outside", offsets_of(topic, (0, 5, "m"), (1, 6, None)))
        commit("a negative offset", offsets_of(topic, (0, -1, ""), (1, -99, "")))
        commit("the largest offset", offsets_of(topic, (0, (1 << 63) - 1, "")))
        commit("an empty text", offsets_of(topic, (1, 7, "")))
        for length in (4_096, 4_097):
            commit(f"metadata of {length}", offsets_of(topic, (0, 1, "m" * length)))
            commit(f"metadata of {length} bytes beside another", offsets_of(topic, (0, 1, "m" * length), (1, 2, "n")))
        commit("metadata of 4096 two-byte letters", offsets_of(topic, (0, 1, "ü" * 4_096)))
        commit("metadata of 2049 pairs of units", offsets_of(topic, (0, 1, "\U0001f600" * 2_049)))
        commit("partitions out of range", offsets_of(topic, (2, 1, ""), (-1, 1, ""), (1 << 30, 1, "")))
        commit("a partition twice", offsets_of(topic, (0, 1, "a"), (0, 2, "b")))
        commit("a topic twice", offsets_of(topic, (0, 3, "a")), offsets_of(topic, (0, 4, "b")))
        commit("a topic twice, partly out of range", offsets_of(topic, (0, 3, ""), (9, 3, "")), offsets_of(topic, (1, 4, "")))
        commit("an unknown topic", offsets_of(absent, (0, 1, "")), offsets_of(topic, (0, 1, "")))
        commit("an empty name", offsets_of(Topic(""), (0, 1, "")))
        commit("no topics")
        commit("no partitions", offsets_of(topic))
        commit("an empty group", offsets_of(topic, (0, 1, "")), GroupId="")
        commit("a new group", offsets_of(topic, (0, 1, "")), GroupId=f"{group}-new")
        commit("a generation without a group", offsets_of(topic, (0, 1, "")), GroupId="no", GenerationIdOrMemberEpoch=1)
        commit("a member that is unknown", offsets_of(topic, (0, 1, "")), MemberId="no", GenerationIdOrMemberEpoch=1)
        commit("a member without a generation", offsets_of(topic, (0, 1, "")), MemberId="no")
        commit("a generation of an empty group", offsets_of(topic, (0, 1, "")), GenerationIdOrMemberEpoch=1)
        commit("an instance that is unknown", offsets_of(topic, (0, 1, "")), GroupInstanceId="no")
        of_epoch = offsets_of(topic, (0, 1, ""))
        of_epoch["Partitions"][0]["CommittedLeaderEpoch"] = 9
        commit("an epoch", of_epoch)
        commit("a retention", offsets_of(topic, (0, 1, "")), RetentionTimeMs=1_000)
        side.ask("OffsetFetch", 8, f"all, after {version}", Groups=[{"GroupId": group, "Topics": None}])


@script
def commits_of_members(side: Side):
    topic = side.topic("topic", 2)
    for version in side.versions("OffsetCommit"):
        group = side.unique(f"group-{version}")
        id, generation = member(side, group)
        ours = {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": id}
        for request, more in {
            "its own": {},
            "a generation before": {"GenerationIdOrMemberEpoch": generation - 1},
            "a generation to come": {"GenerationIdOrMemberEpoch": generation + 1},
            "no generation": {"GenerationIdOrMemberEpoch": -1},
            "a wrong member": {"MemberId": "no-such"},
            "no member": {"MemberId": ""},
            "from outside": {"MemberId": "", "GenerationIdOrMemberEpoch": -1},
        }.items():
            side.ask("OffsetCommit", version, request, **ours | more, Topics=[offsets_of(topic, (0, 5, "m"))])


@script
def committed(side: Side):
    """What is read back."""
    topic, other, absent = side.topic("topic", 3), side.topic("other"), side.absent()
    group = side.unique("group")
    side.wait_for_coordinator(group)
    partitions = offsets_of(topic, (0, 5, "m"), (1, 6, None))
    partitions["Partitions"][0]["CommittedLeaderEpoch"] = 0
    side.do("OffsetCommit", 9, GroupId=group, MemberId="", Topics=[partitions, offsets_of(other, (0, 1, ""))])
    id, generation = member(side, side.unique("with-a-member"))
    for version in side.versions("OffsetFetch"):

        def fetch(request: str, topics: list | None, group: str = group, **more):
            alone = {"GroupId": group, "Topics": topics}
            if version >= 8:
                inner = {name: more.pop(name) for name in ("MemberId", "MemberEpoch") if name in more}
                alone = {"Groups": [alone | inner]}
            side.ask("OffsetFetch", version, request, **alone | more)

        fetch("two partitions", [wanted(topic, version, 0, 1)])
        fetch("one without an offset", [wanted(topic, version, 2)])
        fetch("partitions out of range", [wanted(topic, version, 9, -1)])
        fetch("a partition twice", [wanted(topic, version, 0, 0)])
        fetch("a topic twice", [wanted(topic, version, 0), wanted(topic, version, 1)])
        fetch("an unknown topic", [wanted(absent, version, 0), wanted(topic, version, 0)])
        fetch("no partitions", [wanted(topic, version)])
        fetch("no topics", [])
        if version >= 2:
            fetch("all", None)
            fetch("all of an unknown group", None, "no-such")
        fetch("an unknown group", [wanted(topic, version, 0)], "no-such")
        fetch("an empty group", [wanted(topic, version, 0)], "")
        fetch("stable", [wanted(topic, version, 0)], RequireStable=True)
        if version >= 9:
            fetch("a member that is unknown", [wanted(topic, version, 0)], MemberId="no-such", MemberEpoch=1)
            fetch("an epoch without a member", [wanted(topic, version, 0)], MemberEpoch=1)
            with_member = side.unique("with-a-member")
            fetch("its own member", [wanted(topic, version, 0)], with_member, MemberId=id, MemberEpoch=generation)
            wrong = {"MemberId": id, "MemberEpoch": 99}
            fetch("its own member, a wrong epoch", [wanted(topic, version, 0)], with_member, **wrong)
        if version >= 8:
            both = [{"GroupId": name, "Topics": [wanted(topic, version, 0)]} for name in (group, "no-such", group)]
            side.ask("OffsetFetch", version, "several groups, one twice", Groups=both)
            side.ask("OffsetFetch", version, "no groups", Groups=[])
        if version >= 10:
            unknown = [{"Name": "", "TopicId": UNKNOWN_ID, "PartitionIndexes": [0]}]
            fetch("an unknown id", unknown)


@script
def described(side: Side):
    full, empty = side.unique("full"), side.unique("empty")
    member(side, full)
    side.wait_for_coordinator(empty)
    topic = side.topic("topic")
    side.do("OffsetCommit", 9, GroupId=empty, MemberId="", Topics=[offsets_of(topic, (0, 1, ""))])
    for version in side.versions("DescribeGroups"):
        for request, groups in {
            "with a member": [full],
            "without members": [empty],
            "unknown": ["no-such"],
            "without a name": [""],
            "none": [],
            "twice": [full, full, "no-such"],
        }.items():
            side.ask("DescribeGroups", version, request, Groups=groups)
            values = {"Groups": groups, "IncludeAuthorizedOperations": True}
            side.ask("DescribeGroups", version, f"{request}, operations", **values)


@script
def listed(side: Side):
    full, empty = side.unique("full"), side.unique("empty")
    member(side, full)
    side.wait_for_coordinator(empty)
    topic = side.topic("topic")
    side.do("OffsetCommit", 9, GroupId=empty, MemberId="", Topics=[offsets_of(topic, (0, 1, ""))])
    for version in side.versions("ListGroups"):
        side.ask("ListGroups", version, "all")
        if version >= 4:
            for states in (["Stable"], ["stable"], ["Empty", "Dead"], ["PreparingRebalance"], ["no-such"], [""]):
                side.ask("ListGroups", version, f"states {states}", StatesFilter=states)
        if version >= 5:
            for types in (["classic"], ["Classic"], ["consumer"], ["share", "classic"], ["no-such"], [""]):
                side.ask("ListGroups", version, f"types {types}", TypesFilter=types)


@script
def removed(side: Side):
    """Groups and offsets that are deleted."""
    topic, other, absent = side.topic("topic", 2), side.topic("other", 2), side.absent()
    for version in side.versions("DeleteGroups"):
        full, empty = side.unique(f"full-{version}"), side.unique(f"empty-{version}")
        member(side, full)
        side.wait_for_coordinator(empty)
        side.do("OffsetCommit", 9, GroupId=empty, MemberId="", Topics=[offsets_of(topic, (0, 1, ""))])
        for request, names in {
            "with a member": [full],
            "unknown": ["no-such"],
            "without a name": [""],
            "none": [],
            "one of each, one twice": [full, "no-such", empty, empty],
            "deleted already": [empty],
        }.items():
            side.ask("DeleteGroups", version, request, GroupsNames=names)
    group, subscribed = side.unique("offsets"), side.unique("subscribed")
    side.wait_for_coordinator(group)
    side.do("OffsetCommit", 9, GroupId=group, MemberId="", Topics=[offsets_of(topic, (0, 1, ""), (1, 2, ""))])
    # The metadata of a consumer that reads the topic: version 0, one topic, no user data.
    name = topic.name.encode()
    reads = b"\0\0\0\0\0\1" + len(name).to_bytes(2) + name + b"\xff\xff\xff\xff"
    id, _ = member(side, subscribed, Protocols=[{"Name": "range", "Metadata": reads}])
    odd = side.unique("odd")
    member(side, odd)
    for at in side.versions("OffsetDelete"):

        def delete(request: str, group: str, *topics: tuple[Topic, list[int]]):
            named = [
                {"Name": one.name, "Partitions": [{"PartitionIndex": index} for index in indexes]}
                for one, indexes in topics
            ]
            side.ask("OffsetDelete", at, request, GroupId=group, Topics=named)

        delete("one", group, (topic, [0]))
        delete("one again", group, (topic, [0]))
        delete("out of range", group, (topic, [9, -1]))
        delete("an unknown topic", group, (absent, [0]), (topic, [1]))
        delete("out of range beside one that is there", subscribed, (topic, [0, 9]))
        delete("a topic twice", subscribed, (absent, [0]), (other, [0]), (absent, [1]), (other, [1]))
        delete("a topic twice that is there", subscribed, (other, [0]), (other, [1]))
        delete("no partitions", subscribed, (topic, []), (absent, []))
        delete("an unknown group", "no-such", (topic, [0]))
        delete("an unknown topic of an unknown group", "no-such", (absent, [0]))
        delete("an empty group", "", (topic, [0]))
        delete("no topics", group)
        delete("a topic that is read", subscribed, (topic, [0]))
        delete("a topic that is not read", subscribed, (Topic("other"), [0]))
        delete("a group of no known metadata", odd, (topic, [0]))
    side.ask("OffsetFetch", 8, "after all", Groups=[{"GroupId": group, "Topics": None}])
