"""What of an answer is compared, and what cannot be the same on two brokers: the rules by which it is normalised.

An answer becomes a tree of dicts. The elements of a list have a key, by which the same ones of both brokers are found:
Kafka gives most lists in the order of a hash table, so order is not compared, unless the elements have no key.
"""

import re
import time
import uuid
from pathlib import Path

from conformance.batches import read_batches
from conformance.definitions import NO_ID, Field
from harness.broker import TESTS

ERROR_CODES = TESTS.parent / "crates" / "model" / "src" / "error_code.rs"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[\w-]{22}$")
DAY_MS = 24 * 60 * 60 * 1000

# By these the elements of a list are told apart, where the definition names no key; the first that fits.
KEYS = [
    ("ResourceType", "ResourceName"),
    ("ResourceName",),
    ("Entity",),
    ("EntityType", "EntityName"),
    ("MemberId", "GroupInstanceId"),
    ("Name",),
    ("Topic",),
    ("TopicName",),
    ("TopicId",),
    ("GroupId",),
    ("Key",),
    ("User",),
    ("PartitionIndex",),
    ("Partition",),
    ("PartitionId",),
    ("Index",),
    ("ProducerId",),
    ("LogDir",),
    ("ReplicaId",),
]

# Whether there is one is compared, and an empty one is none; its words are each broker's own.
TEXTS = {"ErrorMessage", "BatchIndexErrorMessage", "Documentation"}
# Different on any two brokers, wherever the field has a value at all.
OWN = {
    "ClusterId": "the cluster's",
    "Host": "a host",
    "Port": "a port",
    "LogDir": "a log directory",
    "TotalBytes": "the disk's",
    "UsableBytes": "the disk's",
    "SessionId": "a session",
    "SubscriptionId": "a subscription",
    "FinalizedFeaturesEpoch": "an epoch",
}
OWN_IN = {
    "InitProducerId": {"ProducerId": "a producer"},
    # Of the log of metadata.
    "DescribeQuorum": {"HighWatermark": "an offset", "LogEndOffset": "an offset", "LeaderEpoch": "an epoch"},
}
NOTHING = (None, "", 0, -1)


def error_names() -> dict[int, str]:
    rows = re.findall(r'^ {4}\w+ = (-?\d+), "(\w+)"', Path(ERROR_CODES).read_text(), re.MULTILINE)
    return {int(code): name for code, name in rows}


class Rules:
    """Normalises the answers of one broker; it knows what its topics' ids stand for."""

    def __init__(self, api_names: dict[int, str]):
        self.topic_ids: dict[uuid.UUID, str] = {}
        self._api_names, self._error_names = api_names, error_names()

    def tree(self, api: str, fields: list[Field], values: dict) -> dict:
        known = {field.name: field for field in fields}
        return {name: self._value(api, known.get(name), name, value) for name, value in values.items()}

    def _value(self, api: str, field: Field | None, name: str, value: object) -> object:
        if isinstance(value, list) and (api, name) == ("Fetch", "Responses"):
            value = merged(value)
        if isinstance(value, list) and field.fields is not None:
            return self._keyed(field.fields, [self.tree(api, field.fields, item) for item in value])
        if isinstance(value, list):
            return [self._leaf(api, name, item) for item in value]
        if isinstance(value, dict):
            return self.tree(api, field.fields, value)
        if name == "Records" and field.type == "records":
            return self._batches(api, value)
        return self._leaf(api, name, value)

    def _batches(self, api: str, raw: bytes | None) -> object:
        batches = read_batches(raw)
        if batches is None:
            return None
        return {
            f"[{at}]": {name: self._leaf(api, name, value) for name, value in batch.items()}
            for at, batch in enumerate(batches)
        }

    def _keyed(self, fields: list[Field], items: list[dict]) -> dict:
        keyed = {}
        if items and "MemberId" in items[0]:
            # Their ids say nothing of which is which.
            items = sorted(items, key=str)
        for position, item in enumerate(items):
            names = [field.name for field in fields if field.is_key and field.name in item] or next(
                (names for names in KEYS if all(name in item for name in names)), []
            )
            # A topic without a name is found by its id.
            if names == ["Name"] and item["Name"] in (None, "") and "TopicId" in item:
                names = ["TopicId"]
            key = ",".join(readable(item[name]) for name in names) if names else str(position)
            twin = 1
            while f"[{key}{'' if twin == 1 else f' #{twin}'}]" in keyed:
                twin += 1
            keyed[f"[{key}{'' if twin == 1 else f' #{twin}'}]"] = item
        return keyed

    def _leaf(self, api: str, name: str, value: object) -> object:
        own = OWN_IN.get(api, {}).get(name) or OWN.get(name)
        if own and value not in NOTHING:
            return f"<{own}>"
        if name.endswith("ErrorCode"):
            return self._error_names.get(value, value)
        if name == "ThrottleTimeMs":
            return "<some>" if value else 0
        if name == "ApiKey":
            return self._api_names.get(value, value)
        if name in TEXTS:
            return "<text>" if value else None
        if isinstance(value, uuid.UUID):
            return self._id(value)
        if isinstance(value, bytes):
            return f"0x{value.hex()}"
        if isinstance(value, str) and name in ("MemberId", "Leader"):
            return UUID.sub("<uuid>", value)
        if "Time" in name and isinstance(value, int) and abs(value - time.time() * 1000) < DAY_MS:
            return "<now>"
        return value

    def _id(self, value: uuid.UUID) -> str:
        if value == NO_ID:
            return "<no id>"
        return f"<id of {self.topic_ids[value]}>" if value in self.topic_ids else "<an id>"


def merged(topics: list[dict]) -> list[dict]:
    """Fetch's answers with each topic once: Kafka tells it again when another one has come between its partitions."""
    found: dict[tuple, dict] = {}
    for topic in topics:
        key = topic.get("Topic"), topic.get("TopicId")
        found[key] = topic | {"Partitions": [*found.get(key, {}).get("Partitions", []), *topic["Partitions"]]}
    return list(found.values())


def readable(value: object) -> str:
    if isinstance(value, dict):
        return "+".join(sorted(key.strip("[]") for key in value))
    return str(value)
