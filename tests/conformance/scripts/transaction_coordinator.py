"""Transactions: InitProducerId with transactional ids, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn,
DescribeTransactions and ListTransactions, and what Produce says of batches that are part of none."""

from conformance.batches import TRANSACTIONAL, Batch
from conformance.script import script, script_that_goes_on
from conformance.side import Side, Topic

TRANSACTION = 1


def wait_for_coordinator(side: Side, name: str):
    """Until the coordinator of a transactional id serves it; the first time, its topic is made."""

    def is_served() -> bool:
        found = side.do("FindCoordinator", 4, KeyType=TRANSACTION, CoordinatorKeys=[name])["Coordinators"][0]
        if found["ErrorCode"]:
            return False
        described = side.do("DescribeTransactions", TransactionalIds=[name])["TransactionStates"][0]
        return described["ErrorCode"] in (0, 105)

    side.wait_until(is_served, f"the coordinator of {name}")


def init(side: Side, name: str) -> dict:
    """A producer of a transactional id, as later requests name it."""
    wait_for_coordinator(side, name)
    answers = []

    def is_given() -> bool:
        # While the transaction before is ending, it is told to come again.
        answer = side.do("InitProducerId", 5, TransactionalId=name, TransactionTimeoutMs=60_000)
        answers.append(answer)
        return answer["ErrorCode"] == 0

    side.wait_until(is_given, f"a producer of {name}")
    return {"ProducerId": answers[-1]["ProducerId"], "ProducerEpoch": answers[-1]["ProducerEpoch"]}


def add(name: str, producer: dict, *topics: tuple[Topic, list[int]]) -> dict:
    named = [{"Name": topic.name, "Partitions": partitions} for topic, partitions in topics]
    return {
        "V3AndBelowTransactionalId": name,
        "V3AndBelowProducerId": producer["ProducerId"],
        "V3AndBelowProducerEpoch": producer["ProducerEpoch"],
        "V3AndBelowTopics": named,
    }


def wait_until_complete(side: Side, name: str):
    def is_complete() -> bool:
        described = side.do("DescribeTransactions", TransactionalIds=[name])["TransactionStates"][0]
        return described["TransactionState"] in ("CompleteCommit", "CompleteAbort", "Empty")

    side.wait_until(is_complete, f"the end of the transaction of {name}")


@script
def producers(side: Side):
    for version in side.versions("InitProducerId"):
        name = side.unique(f"id-{version}")
        wait_for_coordinator(side, name)

        def ask(request: str, **values):
            side.ask("InitProducerId", version, request, **{"TransactionalId": name, "TransactionTimeoutMs": 60_000} | values)

        ask("the first")
        ask("once more")
        ask("timeout 0", TransactionTimeoutMs=0)
        ask("timeout -1", TransactionTimeoutMs=-1)
        ask("a timeout beyond the broker's", TransactionTimeoutMs=900_001)
        ask("an empty id", TransactionalId="")
        ask("a producer that is none", ProducerId=987_654, ProducerEpoch=3)
        ask("an id without an epoch", ProducerId=5)


@script
def a_transaction(side: Side):
    for version in side.versions("EndTxn"):
        topic, absent = side.topic(f"written-{version}", 2), side.absent()
        name = side.unique(f"writer-{version}")
        add_version = min(version, 3)

        def ask_add(request: str, producer: dict, *topics: tuple[Topic, list[int]], name=name):
            values = add(name, producer, *topics)
            return side.ask("AddPartitionsToTxn", add_version, f"{request}, for EndTxn {version}", **values)

        def end(request: str, producer: dict, committed: bool, name=name):
            return side.ask("EndTxn", version, request, TransactionalId=name, Committed=committed, **producer)

        def describe(request: str):
            side.ask("DescribeTransactions", 0, f"{request}, for EndTxn {version}", TransactionalIds=[name])

        producer = init(side, name)
        describe("of an id without a transaction")
        other = {"ProducerId": producer["ProducerId"] + 77_000, "ProducerEpoch": 0}
        stale = {**producer, "ProducerEpoch": producer["ProducerEpoch"] + 5}
        end("commits nothing", producer, True)
        ask_add("an unknown topic beside a known one", producer, (topic, [0]), (absent, [0]))
        ask_add("a partition out of range", producer, (topic, [7]))
        ask_add("a partition", producer, (topic, [0]))
        # Kafka tells several in no order.
        describe("of a transaction")
        ask_add("two partitions", producer, (topic, [0, 1]))
        ask_add("one of them again", producer, (topic, [1]))
        ask_add("no partitions", producer)
        ask_add("a topic without partitions", producer, (topic, []))
        ask_add("a topic without partitions beside another", producer, (topic, [0]), (absent, []))
        ask_add("a topic without partitions beside an unknown one", producer, (absent, [0]), (topic, []))
        ask_add("a partition twice", producer, (topic, [0, 0]), (topic, [0]))
        ask_add("an unknown partition twice", producer, (topic, [7, 7]), (topic, [7]))
        ask_add("by another producer", other, (topic, [0]))
        ask_add("in another epoch", stale, (topic, [0]))
        ask_add("of an id that nobody has", producer, (topic, [0]), name=side.unique("nobody"))
        ask_add("of an empty id", producer, (topic, [0]), name="")
        end("by another producer", other, True)
        end("in another epoch", stale, True)
        end("of an id that nobody has", producer, True, name=side.unique("nobody"))
        end("of an empty id", producer, True, name="")
        end("commits", producer, True)
        wait_until_complete(side, name)
        describe("of one that is complete")
        end("commits again", producer, True)
        end("aborts what is committed", producer, False)
    side.ask("DescribeTransactions", 0, "of ids that nobody has", TransactionalIds=[side.unique("no-such"), ""])
    side.ask("DescribeTransactions", 0, "of none", TransactionalIds=[])


@script
def offsets(side: Side):
    topic, group = side.topic("read", 2), side.unique("group")
    side.wait_for_coordinator(group)
    for version in side.versions("TxnOffsetCommit"):
        name = side.unique(f"committer-{version}")
        producer = init(side, name)
        partitions = [{"PartitionIndex": number, "CommittedOffset": 5 + number, "CommittedMetadata": "m"} for number in (0, 7)]
        topics = [{"Name": topic.name, "Partitions": partitions}, {"Name": side.absent().name, "Partitions": partitions[:1]}]

        def commit(request: str, **more):
            values = {"TransactionalId": name, "GroupId": group, "GenerationId": -1, "MemberId": "", "Topics": topics}
            side.ask("TxnOffsetCommit", version, request, **values | producer | more)

        add_version = min(version, 4)
        if version < 5:
            commit("not added yet")
            values = {"TransactionalId": name, "GroupId": group}
            side.ask("AddOffsetsToTxn", add_version, "of a group", **values | producer)
            side.ask("AddOffsetsToTxn", add_version, "of an id that nobody has", **values | producer | {"TransactionalId": side.unique("nobody")})
            side.ask("AddOffsetsToTxn", add_version, "in another epoch", **values | producer | {"ProducerEpoch": 9})
        commit("of partitions, of which some exist")
        commit("no topics", Topics=[])
        commit("of an empty group", GroupId="")
        if version >= 3:
            commit("of a generation that there is not", GenerationId=4, MemberId="somebody")
        for fetch_version in (7, 8, 9):
            for stable in (False, True):
                one = [{"Name": topic.name, "PartitionIndexes": [0, 1]}]
                values = {"GroupId": group, "Topics": one, "Groups": [{"GroupId": group, "Topics": one}]}
                request = f"while version {version} is open, stable {stable}"
                side.ask("OffsetFetch", fetch_version, request, RequireStable=stable, **values)
        side.do("EndTxn", 3, TransactionalId=name, Committed=False, **producer)
        wait_until_complete(side, name)


@script_that_goes_on
def offsets_of_members(side: Side):
    """Producers commit for members of a consumer group (KIP-848), each in the epoch that the member had when it read."""
    topic, group = side.topic("read", 2), side.unique("group")
    side.wait_for_coordinator(group)
    side.settle()

    def beat(member: str, epoch: int, has: list[int] | None, **more) -> dict:
        held = None if has is None else [{"TopicId": topic.id, "Partitions": has}] if has else []
        values = {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, "RebalanceTimeoutMs": -1, "TopicPartitions": held}
        return side.do("ConsumerGroupHeartbeat", **values | more)

    def told(answer: dict) -> list[int]:
        return [number for one in (answer["Assignment"] or {"TopicPartitions": []})["TopicPartitions"] for number in one["Partitions"]]

    joining = {"RebalanceTimeoutMs": 60_000, "SubscribedTopicNames": [topic.name]}
    # Kafka counts epochs from 2 on, and Logway from 1 on.
    first = beat("a", 0, [], **joining)["MemberEpoch"]
    beat("b", 0, [], **joining)
    kept = told(beat("a", first, [0, 1]))
    beat("a", first, kept)
    got = told(beat("b", first + 1, []))
    if (len(kept), len(got)) != (1, 1):
        raise AssertionError(f"{side.kind}: a has {kept} and b has {got}")
    for version in (version for version in side.versions("TxnOffsetCommit") if version >= 3):
        name = side.unique(f"committer-{version}")
        producer = init(side, name)
        if version < 5:
            side.do("AddOffsetsToTxn", min(version, 4), TransactionalId=name, GroupId=group, **producer)
        for request, member, epoch, partitions in [
            ("a member", "a", first + 1, kept),
            ("of a partition of another member", "a", first + 1, got),
            ("an epoch too large", "a", first + 2, kept),
            ("the epoch before, of what it had then", "a", first, kept),
            ("the epoch before, of what it has given up", "a", first, got),
            ("the epoch before, of what it did not have yet", "b", first, got),
            ("an unknown member", "c", first + 1, kept),
            ("a member without an epoch", "a", -1, kept),
            ("nobody in an epoch", "", first + 1, kept),
            ("nobody", "", -1, kept),
            ("nobody in epoch -2", "", -2, kept),
        ]:
            named = [{"PartitionIndex": number, "CommittedOffset": 5, "CommittedMetadata": ""} for number in partitions]
            values = {"TransactionalId": name, "GroupId": group, "GenerationId": epoch, "MemberId": member}
            values |= {"Topics": [{"Name": topic.name, "Partitions": named}]}
            side.ask("TxnOffsetCommit", version, request, **values | producer)
        side.do("EndTxn", 3, TransactionalId=name, Committed=False, **producer)
        wait_until_complete(side, name)


@script
def batches(side: Side):
    """Batches of a transaction that no coordinator knows, and of one that it knows."""
    for version in side.versions("Produce"):
        topic = side.topic(f"batches-{version}")
        name = side.unique(f"batches-{version}")
        producer = init(side, name)
        batch = Batch(
            2,
            attributes=TRANSACTIONAL,
            producer_id=producer["ProducerId"],
            producer_epoch=producer["ProducerEpoch"],
            base_sequence=0,
        ).encode()
        stranger = Batch(2, attributes=TRANSACTIONAL, producer_id=876_543, producer_epoch=0, base_sequence=0).encode()

        def ask(request: str, records: bytes, name: str | None = name):
            data = [topic.ref("Name") | {"PartitionData": [{"Index": 0, "Records": records}]}]
            values = {"Acks": -1, "TimeoutMs": 5_000, "TopicData": data, "TransactionalId": name}
            side.ask("Produce", version, request, **values)

        ask("of an id that nobody has", batch, side.unique("nobody"))
        ask("of another producer", stranger)
        ask("without an id", batch, None)
        if version < 12:
            ask("a partition that was not added", batch)
            side.do("AddPartitionsToTxn", 3, **add(name, producer, (topic, [0])))
        ask("a partition of the transaction", batch)
        ask("the same again", batch)
        side.do("EndTxn", 3, TransactionalId=name, Committed=False, **producer)


@script
def lists(side: Side):
    name = side.unique("listed")
    producer = init(side, name)
    nobody = 765_432
    for version in side.versions("ListTransactions"):

        def ask(request: str, **values):
            values = {"StateFilters": [], "ProducerIdFilters": [producer["ProducerId"]], "DurationFilter": -1} | values
            side.ask("ListTransactions", version, request, **values)

        ask("of a producer")
        ask("of a producer that is none", ProducerIdFilters=[nobody])
        ask("of a state", StateFilters=["Empty"])
        ask("of another state", StateFilters=["Ongoing"])
        ask("of states that are none", StateFilters=["Empty", "empty", "Nonsense"])
        ask("of a long time", DurationFilter=1 << 40)
        if version >= 2:
            ask("by a pattern", TransactionalIdPattern=".*listed.*")
            ask("by a pattern that it does not match", TransactionalIdPattern="other")
            ask("by a pattern that is none", TransactionalIdPattern="(")
