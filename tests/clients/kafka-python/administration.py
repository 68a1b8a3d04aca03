"""What kafka-python's admin client offers, as the shared cases call it."""

import os

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetSpec
from refusal import raise_refusal, refusals

from client_cases.model import Code, Group, GroupMember, Refused

__all__ = [
    "add_partitions",
    "alter_group_offset",
    "broker_configs",
    "cluster",
    "create_topic",
    "delete_group",
    "delete_group_offset",
    "delete_records",
    "delete_topic",
    "describe_group",
    "describe_missing",
    "elect_preferred_leader",
    "end_of_epoch",
    "group_offsets",
    "groups",
    "last_sequences",
    "list_offsets",
    "log_dir_bytes",
    "partitions",
    "reassign",
    "reassignments",
    "set_topic_config",
    "topic_configs",
    "topics",
]

BOOTSTRAP = os.environ["BOOTSTRAP"]
admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)


def create_topic(topic: str, partitions: int, configs: dict[str, str]):
    wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
    with refusals():
        admin.create_topics({topic: wanted})


def delete_topic(topic: str):
    with refusals():
        admin.delete_topics([topic])


def topics() -> list[str]:
    return admin.list_topics()


def partitions(topic: str) -> list[int]:
    (described,) = admin.describe_topics([topic])
    return sorted(found["partition_index"] for found in described["partitions"] if found["leader_id"] >= 0)


def describe_missing(topic: str):
    (described,) = admin.describe_topics([topic])
    raise Refused(described["error_code"], "in the description")


def add_partitions(topic: str, total: int):
    with refusals():
        admin.create_partitions({topic: total})


def configs_of(kind: ConfigResourceType, name: str) -> dict[str, dict]:
    with refusals():
        described = admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
    return described[kind.name.lower()][name]


def topic_configs(topic: str) -> dict[str, tuple[str, bool]]:
    """Each setting's value, and whether it is the default."""
    configs = configs_of(ConfigResourceType.TOPIC, topic)
    return {name: (config["value"], config["config_source"] == "DEFAULT_CONFIG") for name, config in configs.items()}


def set_topic_config(topic: str, name: str, value: str | None):
    """Sets it, or without a value resets it to its default."""
    with refusals():
        if value is None:
            admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, [name])])
        else:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])


def broker_configs(node: int) -> dict[str, str]:
    return {name: config["value"] for name, config in configs_of(ConfigResourceType.BROKER, str(node)).items()}


def cluster() -> tuple[str, list[tuple[int, str]], int]:
    """The cluster's id, its brokers with their addresses, and the controller."""
    described = admin.describe_cluster()
    brokers = [(broker["broker_id"], f"{broker['host']}:{broker['port']}") for broker in described["brokers"]]
    return described["cluster_id"], brokers, described["controller_id"]


def list_offsets(topic: str, partition: int) -> tuple[int, int]:
    """The first and the next offset."""
    asked = TopicPartition(topic, partition)
    with refusals():
        first, following = (
            admin.list_partition_offsets({asked: spec})[asked].offset for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
    return first, following


def delete_records(topic: str, partition: int, before: int) -> int:
    """Deletes what lies before an offset and returns the first that is left."""
    asked = TopicPartition(topic, partition)
    with refusals():
        return admin.delete_records({asked: before})[asked]["low_watermark"]


def log_dir_bytes(topic: str, partition: int) -> int:
    (broker,) = admin.describe_log_dirs({topic: [partition]})
    return sum(
        found["partition_size"]
        for directory in broker["log_dirs"]
        for described in directory["topics"]
        for found in described["partitions"]
    )


def reassign(topic: str, partition: int, nodes: list[int]):
    asked = TopicPartition(topic, partition)
    with refusals():
        raise_refusal(admin.alter_partition_reassignments({asked: nodes})[asked])


def reassignments() -> dict:
    with refusals():
        return admin.list_partition_reassignments()


def elect_preferred_leader(topic: str, partition: int) -> int:
    """The error code of the partition's election."""
    with refusals():
        (result,) = admin.elect_leaders(0, {topic: [partition]}).replica_election_results
    (elected,) = result.partition_result
    return elected.error_code


def last_sequences(topic: str, partition: int) -> list[int]:
    """The last sequence of each producer that is known to the partition."""
    asked = TopicPartition(topic, partition)
    with refusals():
        return [producer.last_sequence for producer in admin.describe_producers([asked])[asked].active_producers]


def groups() -> list[str]:
    with refusals():
        return [group["group_id"] for group in admin.list_groups()]


def describe_group(group: str) -> Group:
    with refusals():
        described = admin.describe_groups([group])[group]
    members = [
        GroupMember(
            member["client_host"],
            member["group_instance_id"],
            {
                (topic["topic"], partition)
                for topic in member["member_assignment"]["assigned_partitions"]
                for partition in topic["partitions"]
            },
        )
        for member in described["members"]
    ]
    return Group(described["group_state"], described["protocol_data"], members)


def delete_group(group: str):
    # It answers with the name of the error's class.
    answer = admin.delete_groups([group])[group]
    codes = {"NonEmptyGroupError": Code.NON_EMPTY_GROUP, "GroupIdNotFoundError": Code.GROUP_ID_NOT_FOUND}
    if answer != "OK":
        raise Refused(codes.get(answer, -1), answer)


def group_offsets(group: str) -> dict[tuple[str, int], int]:
    with refusals():
        found = admin.list_group_offsets(group)[group]
    return {(place.topic, place.partition): committed.offset for place, committed in found.items()}


def alter_group_offset(group: str, topic: str, partition: int, offset: int):
    asked = TopicPartition(topic, partition)
    with refusals():
        raise_refusal(admin.alter_group_offsets(group, {asked: OffsetAndMetadata(offset, "", -1)})[asked])


def delete_group_offset(group: str, topic: str, partition: int):
    asked = TopicPartition(topic, partition)
    with refusals():
        raise_refusal(admin.delete_group_offsets(group, [asked])[asked])


def end_of_epoch(topic: str, partition: int, current_leader_epoch: int) -> int:
    """OffsetForLeaderEpoch, which only its fetcher uses, sent by hand; returns the end of epoch 0."""
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    asked = kind.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=0
    )
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[kind(topic=topic, partitions=[asked])])
    manager, node = admin._manager, cluster()[2]
    response = manager.run(lambda: manager.send(request, node_id=node))
    (answered,) = response.topics
    (result,) = answered.partitions
    if result.error_code:
        raise Refused(result.error_code, "OffsetForLeaderEpoch")
    return result.end_offset
