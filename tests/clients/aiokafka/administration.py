"""What aiokafka's admin client offers, as the shared cases call it."""

import atexit
import os

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.group import MemberAssignment
from loop import run

from client_cases.model import Group, GroupMember, Refused

__all__ = [
    "add_partitions",
    "broker_configs",
    "cluster",
    "create_topic",
    "delete_records",
    "delete_topic",
    "describe_group",
    "group_offsets",
    "groups",
    "list_offsets",
    "partitions",
    "set_topic_config",
    "topic_configs",
    "topics",
]

BOOTSTRAP = os.environ["BOOTSTRAP"]
# ConfigSource of KIP-226.
DEFAULT_CONFIG = 5


async def started_clients():
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    asker = AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP)
    await asker.start()
    return admin, asker


async def close_clients():
    await admin.close()
    await asker.stop()


admin, asker = run(started_clients())
atexit.register(lambda: run(close_clients()))


def raise_refusals(errors: list[tuple]):
    """Of (name, code, message) for each topic, as responses hold them."""
    for name, code, *message in errors:
        if code != 0:
            raise Refused(code, f"{name}: {message}")


def create_topic(topic: str, partitions: int, configs: dict[str, str]):
    wanted = NewTopic(topic, partitions, 1, topic_configs=configs)
    raise_refusals(run(admin.create_topics([wanted])).topic_errors)


def delete_topic(topic: str):
    raise_refusals(run(admin.delete_topics([topic])).topic_error_codes)


def topics() -> list[str]:
    return run(admin.list_topics())


def partitions(topic: str) -> list[int]:
    (described,) = run(admin.describe_topics([topic]))
    return sorted(found["partition"] for found in described["partitions"] if found["leader"] >= 0)


def add_partitions(topic: str, total: int):
    run(admin.create_partitions({topic: NewPartitions(total)}))


def configs_of(kind: ConfigResourceType, name: str) -> dict[str, tuple[str, int]]:
    """Each setting's value and source."""
    (response,) = run(admin.describe_configs([ConfigResource(kind, name)]))
    ((code, message, _, _, configs),) = response.resources
    if code != 0:
        raise Refused(code, message)
    return {setting: (value, source) for setting, value, _, source, *_ in configs}


def topic_configs(topic: str) -> dict[str, tuple[str, bool]]:
    """Each setting's value, and whether it is the default."""
    configs = configs_of(ConfigResourceType.TOPIC, topic)
    return {name: (value, source == DEFAULT_CONFIG) for name, (value, source) in configs.items()}


def set_topic_config(topic: str, name: str, value: str | None):
    """Makes it the topic's only setting, or without a value resets all: aiokafka knows the older AlterConfigs only."""
    configs = {} if value is None else {name: value}
    (response,) = run(admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)]))
    raise_refusals([(topic, code, message) for code, message, *_ in response.resources])


def broker_configs(node: int) -> dict[str, str]:
    configs = configs_of(ConfigResourceType.BROKER, str(node))
    return {name: value for name, (value, _) in configs.items()}


def cluster() -> tuple[str | None, list[tuple[int, str]], int]:
    """The cluster's id, its brokers with their addresses, and the controller."""
    described = run(admin.describe_cluster())
    brokers = [(broker["node_id"], f"{broker['host']}:{broker['port']}") for broker in described["brokers"]]
    return described.get("cluster_id"), brokers, described["controller_id"]


def list_offsets(topic: str, partition: int) -> tuple[int, int]:
    """The first and the next offset; only its consumer asks for them."""
    asked = TopicPartition(topic, partition)
    first, following = (run(ask([asked]))[asked] for ask in (asker.beginning_offsets, asker.end_offsets))
    return first, following


def delete_records(topic: str, partition: int, before: int) -> int:
    """Deletes what lies before an offset and returns the first that is left."""
    asked = TopicPartition(topic, partition)
    return run(admin.delete_records({asked: RecordsToDelete(before)}))[asked]


def groups() -> list[str]:
    return [group for group, *_ in run(admin.list_consumer_groups())]


def describe_group(group: str) -> Group:
    (response,) = run(admin.describe_consumer_groups([group]))
    (described,) = response.to_object()["groups"]
    members = [
        GroupMember(
            member["client_host"],
            None,
            {
                (topic, partition)
                for topic, partitions in MemberAssignment.decode(
                    member["member_assignment"]
                ).assignment
                for partition in partitions
            },
        )
        for member in described["members"]
    ]
    return Group(described["state"], described["protocol"], members)


def committed_offsets(group: str, places: list[tuple[str, int]] | None) -> dict[tuple[str, int], tuple[int, str]]:
    """Offsets with their metadata of the given partitions, or of all."""
    asked = places and [TopicPartition(*place) for place in places]
    found = run(admin.list_consumer_group_offsets(group, partitions=asked))
    return {
        (place.topic, place.partition): (offset.offset, offset.metadata)
        for place, offset in found.items()
        if offset.offset >= 0
    }


def group_offsets(group: str) -> dict[tuple[str, int], int]:
    return {place: offset for place, (offset, _) in committed_offsets(group, None).items()}
