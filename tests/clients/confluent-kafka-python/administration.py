"""What confluent-kafka's admin client offers, as the shared cases call it."""

from clients import DEADLINE_S, admin, description
from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from refusal import refusals

from client_cases.model import Code, Group, GroupMember, Refused

__all__ = [
    "add_partitions",
    "alter_group_offset",
    "broker_configs",
    "cluster",
    "create_topic",
    "delete_group",
    "delete_records",
    "delete_topic",
    "describe_group",
    "describe_missing",
    "elect_preferred_leader",
    "group_offsets",
    "groups",
    "list_offsets",
    "partitions",
    "set_topic_config",
    "topic_configs",
    "topics",
]


def only(futures: dict):
    """The result of the only future that an admin call returned."""
    (future,) = futures.values()
    with refusals():
        return future.result(DEADLINE_S)


def create_topic(topic: str, partitions: int, configs: dict[str, str]):
    only(admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]))


def delete_topic(topic: str):
    only(admin.delete_topics([topic]))


def topics() -> list[str]:
    return list(admin.list_topics(timeout=DEADLINE_S).topics)


def partitions(topic: str) -> list[int]:
    described = description(topic)
    return [partition.id for partition in described.partitions if partition.leader] if described else []


def describe_missing(topic: str):
    if description(topic) is None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "in the description")


def add_partitions(topic: str, total: int):
    only(admin.create_partitions([NewPartitions(topic, total)]))


def topic_configs(topic: str) -> dict[str, tuple[str, bool]]:
    """Each setting's value, and whether it is the default."""
    configs = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    default = ConfigSource.DEFAULT_CONFIG.value
    return {name: (config.value, config.source == default) for name, config in configs.items()}


def set_topic_config(topic: str, name: str, value: str | None):
    """Sets it, or without a value resets it to its default."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=operation)
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))


def broker_configs(node: int) -> dict[str, str]:
    configs = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]))
    return {name: config.value for name, config in configs.items()}


def cluster() -> tuple[str, list[tuple[int, str]], int]:
    """The cluster's id, its brokers with their addresses, and the controller."""
    with refusals():
        described = admin.describe_cluster().result(DEADLINE_S)
    brokers = [(node.id, f"{node.host}:{node.port}") for node in described.nodes]
    return described.cluster_id, brokers, described.controller.id


def list_offsets(topic: str, partition: int) -> tuple[int, int]:
    """The first and the next offset."""
    asked = TopicPartition(topic, partition)
    first, following = (
        only(admin.list_offsets({asked: spec})).offset for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return first, following


def delete_records(topic: str, partition: int, before: int) -> int:
    """Deletes what lies before an offset and returns the first that is left."""
    return only(admin.delete_records([TopicPartition(topic, partition, before)])).low_watermark


def elect_preferred_leader(topic: str, partition: int) -> int:
    """The error code of the partition's election."""
    with refusals():
        (error,) = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, partition)]).result().values()
    return error.code() if error else 0


def groups() -> list[str]:
    with refusals():
        return [group.group_id for group in admin.list_consumer_groups().result(DEADLINE_S).valid]


def describe_group(group: str) -> Group:
    described = only(admin.describe_consumer_groups([group]))
    members = [
        GroupMember(
            member.host,
            member.group_instance_id,
            {(place.topic, place.partition) for place in member.assignment.topic_partitions},
        )
        for member in described.members
    ]
    return Group(described.state.name.capitalize(), described.partition_assignor, members)


def delete_group(group: str):
    only(admin.delete_consumer_groups([group]))


def group_offsets(group: str) -> dict[tuple[str, int], int]:
    found = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    return {(place.topic, place.partition): place.offset for place in found.topic_partitions}


def alter_group_offset(group: str, topic: str, partition: int, offset: int):
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
    only(admin.alter_consumer_group_offsets([wanted]))
