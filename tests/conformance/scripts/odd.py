"""What no client sends: every API at every version with arguments made of its definition alone."""

import random
import uuid

from conformance.definitions import NO_ID, NUMBERS, Field, Message
from conformance.rules import KEYS
from conformance.script import script
from conformance.side import UNKNOWN_ID, Side
from harness.seed import SEED

LIMITS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "float64": (-1e300, 1e300),
    "bool": (False, True),
}

# What would make a request wait for long, change what other scripts look at, or go without an answer.
FIXED: dict[str, dict] = {
    "Fetch": {"MaxWaitMs": 0, "MinBytes": 0},
    "Produce": {"Acks": 1, "TimeoutMs": 1_000},
    "Metadata": {"AllowAutoTopicCreation": False},
    # These name all that there is if they name nothing, and that is asked for elsewhere.
    "DescribeLogDirs": {"Topics": [{"Topic": "no-such", "Partitions": [0]}]},
}
# One of 0 or less ends some of Kafka's requests before they begin; scripts/topics.py has that.
TIMEOUTS = {"TimeoutMs": 10_000, "timeoutMs": 10_000}
# What Kafka never answers; scripts/produce.py and scripts/configs.py have it.
TWICE = ("the same twice", "unknown names twice, minus one")
ALTER = ("AlterConfigs", "IncrementalAlterConfigs")
UNANSWERED = {("Produce", "nulls"), *((api, kind) for api in ALTER for kind in TWICE)}
# Where names are made into topics whatever the request says.
CREATES_UNASKED = {"Metadata": range(4)}

GROUP, TRANSACTION = 0, 1

# The numbers that mean something to Kafka. Random requests with others are told apart by their names.
MEANINGS = {
    "ElectionType": range(2),
    "IsolationLevel": range(2),
    "ResourceType": (2, 4, 8, 16, 32),
    # Kafka's cache of sessions finds its part by the id, and fails at the limits.
    "SessionId": range(-(1 << 31) + 1, (1 << 31) - 1),
    "PartitionIndex": range(-(1 << 31), (1 << 31) - 1),
    "LeaderEpoch": range(-1, 1 << 31),
}


class Kind:
    """How a request is filled."""

    def __init__(self, name: str, elements: int = 1, number: str = "default", text: str | None = None, null=False):
        self.name, self.elements, self.number, self.text, self.null = name, elements, number, text, null

    def values(self, fields: list[Field], version: int) -> dict:
        return {field.name: self._value(field, version) for field in fields if version in field.versions}

    def _value(self, field: Field, version: int) -> object:
        if self.null and version in field.nullable:
            return None
        if field.is_array:
            return [self._one(field, version) for _ in range(self.elements)]
        return self._one(field, version)

    def _one(self, field: Field, version: int) -> object:
        if field.fields is not None:
            return self.values(field.fields, version)
        if field.element in NUMBERS:
            return self._number(field)
        if field.element == "uuid":
            return UNKNOWN_ID if self.text else NO_ID
        if field.element == "string":
            return self.text if self.text is not None else ("" if field.is_array else field.default())
        return b""

    def _number(self, field: Field) -> object:
        smallest, largest = LIMITS[field.element]
        if self.number == "default":
            return 0 if field.is_array else field.default()
        if field.element == "bool":
            return self.number == "largest"
        return {"minus one": max(-1, smallest), "smallest": smallest, "largest": largest}[self.number]


KINDS = [
    Kind("nothing", elements=0),
    Kind("nulls", null=True),
    Kind("elements of defaults"),
    Kind("the same twice", elements=2),
    Kind("minus one", number="minus one"),
    Kind("smallest numbers", number="smallest"),
    Kind("largest numbers", number="largest"),
    Kind("unknown names", text="no-such"),
    Kind("unknown names twice, minus one", elements=2, number="minus one", text="no-such"),
    Kind("long names", text="x" * 300),
    Kind("names of other letters", text="ü ß/…"),
]


@script
def arguments(side: Side):
    for api in side.versions_of_all():
        request = side.protocol.requests[api]
        for version in side.versions(api):
            for kind in KINDS:
                if (api, kind.name) in UNANSWERED or (kind.text and version in CREATES_UNASKED.get(api, ())):
                    continue
                values = kind.values(request.fields, version) | fixed(api, request, version)
                side.ask(api, version, kind.name, **values)


def fixed(api: str, request: Message, version: int) -> dict:
    known = {field.name for field in request.fields if version in field.versions}
    values = TIMEOUTS | FIXED.get(api, {})
    return {name: value for name, value in values.items() if name in known}


@script
def versions_that_do_not_exist(side: Side):
    for api in side.versions_of_all():
        versions = side.versions(api)
        # Kafka announces versions of Produce that it does not have; older ones than those have no header of today's.
        for version in {-1, versions[0] - 1, versions[-1] + 1, (1 << 15) - 1}:
            side.ask_raw(api, version, "no such version", b"\0" * 8)


@script
def random_arguments(side: Side):
    """The long form: fields filled at random, from what exists and what does not.

    The name of a request says what is odd about it (see `oddities`), so that differences.toml can name a kind.
    """
    if not side.is_long:
        return
    topic = side.topic("known", 2)
    names = [topic.name, "no-such", "", "conformance"]
    chosen = random.Random(SEED)
    for api in sorted(side.versions_of_all()):
        if api == "OffsetDelete":
            keep_groups(side, names)
        request = side.protocol.requests[api]
        for round in range(300):
            version = chosen.choice(side.versions(api))
            fill = Random(chosen, names, [topic.id, UNKNOWN_ID])
            values = fill.values(request.fields, version) | fixed(api, request, version)
            settle(api, values, round)
            if api not in DANGEROUS:
                side.ask(api, version, ", ".join([f"round {round}", *oddities(values)]), **values)


def keep_groups(side: Side, names: list[str]):
    """Gives each group an offset that stays. Without any it is gone at once; in Kafka some minutes later."""
    offset = {"Name": "settled", "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 1}]}
    for group in filter(None, names):
        side.wait_for_coordinator(group)
        side.do("OffsetCommit", 9, GroupId=group, MemberId="", Topics=[offset])


def settle(api: str, values: dict, round: int):
    """Changes what would make answers hang on the clock, or on what is not served yet."""
    if api == "JoinGroup" and values["GroupId"]:
        # Its session is the shortest that is allowed. Whether a later round meets the member is chance.
        values["GroupId"] += f"-{round}"
    # Transactions: Kafka would make a topic for them, which other requests then show.
    if api == "FindCoordinator" and values.get("KeyType") == TRANSACTION:
        values["KeyType"] = GROUP
    if api == "InitProducerId":
        values["TransactionTimeoutMs"] = 0


def oddities(values: dict) -> list[str]:
    """What is odd about a request: names that are empty or come twice, lists and fields without anything, numbers that
    mean nothing."""
    found: set[str] = set()

    def look(name: str, value: object):
        if isinstance(value, dict):
            for field, inner in value.items():
                look(field, inner)
        elif isinstance(value, list):
            keys = [key_of(item) for item in value]
            if not value:
                found.add(f"no {name}")
            if len({str(key) for key in keys}) < len(keys):
                found.add(f"{name} twice")
            for item in value:
                look(name, item)
        elif value is None:
            found.add(f"null {name}")
        elif value == "":
            found.add(f"empty {name}")
        elif name in MEANINGS and value not in MEANINGS[name]:
            found.add(f"meaningless {name}")

    look("", values)
    return sorted(found)


def key_of(item: object) -> object:
    """By which it is found that the element of a list comes twice. An entity has each type once."""
    if not isinstance(item, dict):
        return item
    keys = [("EntityType",), *KEYS]
    names = next((names for names in keys if all(name in item for name in names)), item.keys())
    return [item[name] for name in names]


# What would last, or touch what the harness needs. The quorum's members are among that: a voter without a name of a
# listener ends Kafka's process.
DANGEROUS = {
    *("DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs", "CreateTopics", "CreatePartitions", "Metadata"),
    *("AddRaftVoter", "RemoveRaftVoter", "UnregisterBroker"),
}


class Random(Kind):
    def __init__(self, chosen: random.Random, names: list[str], ids: list[uuid.UUID]):
        super().__init__("random")
        self._chosen, self._names, self._ids = chosen, names, ids

    def _value(self, field: Field, version: int) -> object:
        if version in field.nullable and self._chosen.random() < 0.15:
            return None
        if field.is_array:
            return [self._one(field, version) for _ in range(self._chosen.choice([0, 1, 1, 1, 2]))]
        return self._one(field, version)

    def _one(self, field: Field, version: int) -> object:
        if field.element == "uuid":
            return self._chosen.choice(self._ids)
        if field.element == "string":
            return self._chosen.choice(self._names)
        return super()._one(field, version)

    def _number(self, field: Field) -> object:
        smallest, largest = LIMITS[field.element]
        if field.element == "bool":
            return self._chosen.random() < 0.5
        return self._chosen.choice([0, 0, 1, 2, max(-1, smallest), max(-2, smallest), 100, smallest, largest])
