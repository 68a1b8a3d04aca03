"""One of the two brokers, as a script sees it: it is asked, and what it answers is kept under the request's name."""

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from conformance.batches import Batch
from conformance.connection import CLIENT_ID, PATIENCE_S, Answer, Connection, User
from conformance.definitions import NO_ID, Protocol
from conformance.rules import Rules
from harness.broker import Broker

STATE_DEADLINE_S = 30
NODE_ID = 1
# How the groups of the script that lists groups begin.
LISTED_GROUPS = "groups-listed-"
UNKNOWN_ID = uuid.UUID("deadbeef-0000-4000-8000-00000000abcd")


@dataclass(frozen=True, order=True)
class Key:
    """By which the answers of the two brokers to one request are found."""

    api: str
    request: str
    version: int


@dataclass
class Topic:
    """A topic, or the name and id of one that does not exist."""

    name: str
    id: uuid.UUID = UNKNOWN_ID

    def ref(self, field: str = "Topic") -> dict:
        """How requests name it: by its name at old versions, by its id at new ones."""
        return {field: self.name, "TopicId": self.id}


@dataclass
class Ask:
    """One of several requests that are sent at the same time."""

    api: str
    version: int
    request: str
    values: dict
    waits_ms: int | None = None


class Side:
    """`versions` are those that both brokers announce, by API. What is compared is asked by `stranger` at its listener, if
    there is one; the state is made by who may do everything."""

    def __init__(self, broker: Broker, protocol: Protocol, versions: dict[str, range], is_long: bool,
                 stranger: User | None = None):
        self.kind, self.protocol, self.is_long = broker.kind, protocol, is_long
        self.data_dir = str(broker.data_dir)
        self.rules = Rules(protocol.names)
        self.answers: dict[Key, object] = {}
        # Who may do everything comes by the first listener, and a stranger by the last.
        self._bootstrap, *_, self._strangers = broker.bootstrap.split(",") * 2
        self._versions, self._stranger = versions, stranger
        self.connection = Connection(self._bootstrap, protocol)
        self.asking = self.connect() if stranger else self.connection
        self._script = ""
        self._settled = 0

    def begin(self, script: str):
        """Begins a script, after which the topics and the requests that follow are named."""
        self._script = script
        self.connection.close()
        self.asking.close()

    def connect(self, client_id: str | None = CLIENT_ID, patience_s: float = PATIENCE_S) -> Connection:
        if self._stranger:
            return Connection(self._strangers, self.protocol, client_id, patience_s, self._stranger)
        return Connection(self._bootstrap, self.protocol, client_id, patience_s)

    @property
    def is_stranger(self) -> bool:
        """Whether what is compared is asked by somebody who may do nothing."""
        return self._stranger is not None

    def versions(self, api: str) -> range:
        return self._versions[api]

    def versions_of_all(self) -> list[str]:
        """The APIs that both serve."""
        return list(self._versions)

    def newest(self, api: str) -> int:
        return self._versions[api][-1]

    def unique(self, name: str) -> str:
        return f"{self._script.replace('.', '-').replace('_', '-')}-{name}"

    # Requests that are compared.

    def ask(
        self,
        api: str,
        version: int,
        request: str,
        is_answered: bool = True,
        waits_ms: int | None = None,
        connection: Connection | None = None,
        **values,
    ) -> Answer:
        """Asks, and keeps the answer. `waits_ms` is how long the request may be waited with: then that is compared."""
        answer = (connection or self.asking).ask(api, version, values, is_answered)
        return self._keep(Ask(api, version, request, values, waits_ms), answer)

    def ask_raw(self, api: str, version: int, request: str, body: bytes) -> Answer:
        return self._keep(Ask(api, version, request, {}), self.asking.ask_raw(api, version, body))

    def ask_together(self, asks: list[Ask], patience_s: float = PATIENCE_S) -> list[Answer]:
        """Sends requests at the same time, each by a connection of its own: so that what waits, waits together."""

        def one(ask: Ask) -> Answer:
            connection = self.connect(patience_s=patience_s)
            try:
                # The time that it takes to connect is not the request's.
                connection.ask("ApiVersions", 0, {})
                return connection.ask(ask.api, ask.version, ask.values)
            finally:
                connection.close()

        with ThreadPoolExecutor(max(len(asks), 1)) as pool:
            answers = list(pool.map(one, asks))
        return [self._keep(ask, answer) for ask, answer in zip(asks, answers)]

    def _keep(self, ask: Ask, answer: Answer) -> Answer:
        kept: dict = {"(outcome)": answer.outcome}
        if answer.outcome == "answered":
            body = answer.body
            if ask.api == "ListGroups":
                # The groups of other scripts come and go by the clock.
                body = body | {"Groups": [one for one in body["Groups"] if one["GroupId"].startswith(LISTED_GROUPS)]}
            kept |= self.rules.tree(ask.api, self.protocol.responses[ask.api].fields, body)
        elif answer.body:
            kept |= answer.body
        if ask.waits_ms is not None:
            kept["(wait)"] = wait_class(answer.took_ms, ask.waits_ms)
        key = Key(ask.api, f"{self._script}: {ask.request}", ask.version)
        if key in self.answers:
            raise ValueError(f"{key} is asked twice")
        self.answers[key] = kept
        return answer

    # Requests that make the state, whose answers are not compared.

    def do(self, api: str, version: int | None = None, **values) -> Answer:
        """Asks at the newest version, or the given one; what is not answered ends the script."""
        version = self.newest(api) if version is None else version
        answer = self.connection.ask(api, version, values)
        if answer.outcome != "answered":
            raise AssertionError(f"{self.kind}: {api} {version} got: {answer.outcome}")
        return answer

    def topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        """Makes a topic, named after the script, and waits until its partitions are led."""
        return self.named_topic(self.unique(name), partitions, **configs)

    def named_topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        settings = [{"Name": key.replace("_", "."), "Value": value} for key, value in configs.items()]
        made = {"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": settings}
        (result,) = self.do("CreateTopics", Topics=[made])["Topics"]
        if result["ErrorCode"]:
            raise AssertionError(f"{self.kind}: {name} gets {result['ErrorCode']}: {result['ErrorMessage']}")
        topic = Topic(name, result["TopicId"])
        self.rules.topic_ids[topic.id] = name
        self.wait_for_leaders(topic, partitions)
        return topic

    def absent(self, name: str = "absent") -> Topic:
        """A topic that does not exist."""
        return Topic(self.unique(name))

    def wait_for_leaders(self, topic: Topic, partitions: int):
        """Kafka answers before its broker has heard of it, and tells of a leader before that leads."""
        asked = {
            "Name": topic.name,
            "Partitions": [{"PartitionIndex": index, "Timestamp": -2} for index in range(partitions)],
        }

        def is_led() -> bool:
            answer = self.do("ListOffsets", 7, ReplicaId=-1, Topics=[asked])
            return not any(one["ErrorCode"] for topic in answer["Topics"] for one in topic["Partitions"])

        self.wait_until(is_led, f"{topic.name} to be led")

    def wait_until(self, condition, what: str):
        deadline = time.monotonic() + STATE_DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.kind}: waited {STATE_DEADLINE_S} s for {what}")
            time.sleep(0.005)

    def settle(self):
        """Waits until what the controller has answered so far is known to the broker."""
        self._settled += 1
        about, value = {"ResourceType": 2, "ResourceName": "settled"}, str((1 << 40) + self._settled)
        changed = [{"Name": "retention.ms", "ConfigOperation": 0, "Value": value}]
        self.do("IncrementalAlterConfigs", Resources=[about | {"Configs": changed}])

        def is_known() -> bool:
            asked = about | {"ConfigurationKeys": ["retention.ms"]}
            (told,) = self.do("DescribeConfigs", Resources=[asked])["Results"]
            return told["Configs"][0]["Value"] == value

        self.wait_until(is_known, "the broker to follow the controller")

    def produce(self, topic: Topic, *batches: Batch, partition: int = 0, acks: int = -1):
        """Appends batches, one after the other."""
        for batch in batches:
            data = [{"Index": partition, "Records": batch.encode()}]
            told = [{"Name": topic.name, "PartitionData": data}]
            answer = self.do("Produce", 8, Acks=acks, TimeoutMs=10_000, TopicData=told)
            error = answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"]
            if error:
                raise AssertionError(f"{self.kind}: producing to {topic.name} gets {error}")

    def wait_for_coordinator(self, group: str):
        """Until the group's coordinator serves it; the first time, its topic is made."""

        def is_served() -> bool:
            found = self.do("FindCoordinator", 4, KeyType=0, CoordinatorKeys=[group])["Coordinators"][0]
            if found["ErrorCode"]:
                return False
            answer = self.do("OffsetFetch", 8, Groups=[{"GroupId": group, "Topics": None}])
            return answer["Groups"][0]["ErrorCode"] == 0

        self.wait_until(is_served, f"the coordinator of {group}")


def wait_class(took_ms: float, waits_ms: int) -> str:
    """Coarse, because machines are busy: whether the wait was waited for."""
    if took_ms < waits_ms * 0.6:
        return "at once"
    if took_ms < waits_ms * 0.95:
        return "before the wait is over"
    return "after the wait" if took_ms < waits_ms * 2 + 1_000 else "long after the wait"


def shown(value: object) -> str:
    """A value of a tree, as differences.toml spells it."""
    return value if isinstance(value, str) else json.dumps(value)

