"""What is said of the cluster: versions, brokers, quorum, log directories, elections, moves, features, producers."""

from conformance.batches import Batch
from conformance.definitions import NO_ID
from conformance.script import script
from conformance.side import UNKNOWN_ID, Side


@script
def versions(side: Side):
    """What is announced, features as well."""
    software = {"ClientSoftwareName": "conformance", "ClientSoftwareVersion": "1.0"}
    for version in side.versions("ApiVersions"):
        side.ask("ApiVersions", version, "announced", **software)
        for name in ("", "a b", "-a", "a.", "ü", "a/b", "a" * 300):
            side.ask("ApiVersions", version, f"software {name[:9]!r}", **software | {"ClientSoftwareName": name})
        side.ask("ApiVersions", version, "software of no version", **software | {"ClientSoftwareVersion": ""})


@script
def brokers(side: Side):
    for version in side.versions("DescribeCluster"):
        for kind in (1, 2, 0, 3, -1) if version else (1,):
            side.ask("DescribeCluster", version, f"endpoints of type {kind}", EndpointType=kind)
        side.ask("DescribeCluster", version, "with operations", IncludeClusterAuthorizedOperations=True)
        side.ask("DescribeCluster", version, "with fenced brokers", IncludeFencedBrokers=True)


@script
def quorum(side: Side):
    def of(name: str, *indexes: int) -> dict:
        return {"TopicName": name, "Partitions": [{"PartitionIndex": index} for index in indexes]}

    for version in side.versions("DescribeQuorum"):
        for request, topics in {
            "the metadata": [of("__cluster_metadata", 0)],
            "another partition": [of("__cluster_metadata", 1)],
            "two partitions": [of("__cluster_metadata", 0, 1)],
            "another topic": [of("no-such", 0)],
            "two topics": [of("__cluster_metadata", 0), of("no-such", 0)],
            "no topics": [],
            "no partitions": [of("__cluster_metadata")],
        }.items():
            side.ask("DescribeQuorum", version, request, Topics=topics)


@script
def members(side: Side):
    """Whoever is asked about is no member. What becomes of those that are is for clusters of several nodes."""
    for version in side.versions("UnregisterBroker"):
        for broker in (9, -1):
            side.ask("UnregisterBroker", version, f"broker {broker}", BrokerId=broker)
    endpoints = [{"Name": "CONTROLLER", "Host": "127.0.0.1", "Port": 9}]
    for api, more in (("AddRaftVoter", {"TimeoutMs": 1000, "Listeners": endpoints}), ("RemoveRaftVoter", {})):
        for version in side.versions(api):
            voter = {"ClusterId": None, "VoterId": 9, "VoterDirectoryId": UNKNOWN_ID} | more
            side.ask(api, version, "a vote of another node", **voter)
            side.ask(api, version, "a vote in another cluster", **voter | {"ClusterId": "another"})
            side.ask(api, version, "a vote of no number", **voter | {"VoterId": -1})
            side.ask(api, version, "a vote of no directory", **voter | {"VoterDirectoryId": NO_ID})
            if api == "AddRaftVoter":
                side.ask(api, version, "a vote without an address", **voter | {"Listeners": []})


@script
def log_dirs(side: Side):
    topic, absent = side.topic("topic", 2), side.absent()
    side.produce(topic, Batch(3))
    for version in side.versions("DescribeLogDirs"):
        for request, topics in {
            "one": [(topic.name, [0, 1])],
            "out of range": [(topic.name, [0, 9, -1])],
            "a partition twice": [(topic.name, [0, 0])],
            "no partitions": [(topic.name, [])],
            "an unknown one": [(absent.name, [0])],
            "an empty name": [("", [0])],
            "none": [],
        }.items():
            listed = [{"Topic": name, "Partitions": indexes} for name, indexes in topics]
            side.ask("DescribeLogDirs", version, request, Topics=listed)
    for version in side.versions("AlterReplicaLogDirs"):

        def move(request: str, path: str, *topics: tuple[str, list[int]]):
            listed = [{"Name": name, "Partitions": indexes} for name, indexes in topics]
            side.ask("AlterReplicaLogDirs", version, request, Dirs=[{"Path": path, "Topics": listed}])

        move("to where it is", side.data_dir, (topic.name, [0]))
        move("to an unknown directory", "/no/such", (topic.name, [0, 1]))
        move("to a path that is none", "no/such", (topic.name, [0]))
        move("to an empty path", "", (topic.name, [0]))
        move("out of range", side.data_dir, (topic.name, [9, -1]))
        move("an unknown topic", side.data_dir, (absent.name, [0]))
        move("an unknown topic to an unknown directory", "/no/such", (absent.name, [0]))
        move("no topics", side.data_dir)
        side.ask("AlterReplicaLogDirs", version, "none", Dirs=[])


@script
def elections(side: Side):
    topic, absent = side.topic("topic", 2), side.absent()
    for version in side.versions("ElectLeaders"):
        for kind in (0, 1, 2, -1) if version else (0,):
            for request, topics in {
                "one": [(topic.name, [0])],
                "out of range": [(topic.name, [1, 9, -1])],
                "an unknown one": [(absent.name, [0]), (topic.name, [0])],
                "a partition twice": [(topic.name, [0, 0])],
                "an empty name": [("", [0])],
                "no partitions": [(topic.name, [])],
                "none": [],
                "all": None,
            }.items():
                listed = topics and [{"Topic": name, "Partitions": indexes} for name, indexes in topics]
                side.ask("ElectLeaders", version, f"{request}, type {kind}", ElectionType=kind, TopicPartitions=listed)


@script
def moves(side: Side):
    topic, absent = side.topic("topic", 2), side.absent()
    for version in side.versions("AlterPartitionReassignments"):

        def ask(request: str, *topics: tuple[str, list[tuple[int, list | None]]], **more):
            listed = [
                {"Name": name, "Partitions": [dict(zip(("PartitionIndex", "Replicas"), one)) for one in partitions]}
                for name, partitions in topics
            ]
            side.ask("AlterPartitionReassignments", version, request, Topics=listed, **more)

        ask("to where it is", (topic.name, [(0, [1])]))
        ask("cancelled", (topic.name, [(0, None)]))
        ask("to an unknown broker", (topic.name, [(0, [99])]))
        ask("to one more broker", (topic.name, [(0, [1, 99])]))
        ask("to nobody", (topic.name, [(0, [])]))
        ask("twice to one", (topic.name, [(0, [1, 1])]))
        ask("to broker -1", (topic.name, [(0, [-1])]))
        ask("out of range", (topic.name, [(9, [1]), (-1, [1])]))
        ask("a partition twice", (topic.name, [(0, [1]), (0, [1])]))
        ask("an unknown topic", (absent.name, [(0, [1])]), (topic.name, [(0, [1])]))
        ask("an unknown topic, cancelled", (absent.name, [(0, None)]))
        ask("no partitions", (topic.name, []))
        ask("none")
        ask("another number of replicas", (topic.name, [(0, [1, 2])]), AllowReplicationFactorChange=False)
        ask("none, another number of replicas", AllowReplicationFactorChange=False)
        ask("no partitions, another number of replicas", (topic.name, []), AllowReplicationFactorChange=False)
    for version in side.versions("ListPartitionReassignments"):
        for request, topics in {
            "all": None,
            "none": [],
            "one": [(topic.name, [0])],
            "out of range": [(topic.name, [9, -1])],
            "an unknown one": [(absent.name, [0])],
        }.items():
            listed = topics if not topics else [dict(zip(("Name", "PartitionIndexes"), one)) for one in topics]
            side.ask("ListPartitionReassignments", version, request, Topics=listed)


@script
def features(side: Side):
    for version in side.versions("UpdateFeatures"):

        def ask(request: str, *updates: tuple[str, int], kind: int = 1, only: bool = True):
            listed = [{"Feature": name, "MaxVersionLevel": level, "UpgradeType": kind} for name, level in updates]
            # What changes features would change what is compared.
            if version >= 1:
                side.ask("UpdateFeatures", version, request, FeatureUpdates=listed, ValidateOnly=only)

        ask("none")
        ask("an unknown feature", ("no-such", 1))
        ask("an empty name", ("", 1))
        ask("a level that is too high", ("metadata.version", 32_767))
        ask("a level that is too low", ("metadata.version", 1))
        ask("a negative level", ("metadata.version", -1))
        for kind in (0, 2, 3, 9, -1):
            ask(f"an unknown feature by type {kind}", ("no-such", 1), kind=kind)
        ask("a feature twice", ("no-such", 1), ("no-such", 2))


@script
def producers(side: Side):
    topic, absent = side.topic("topic", 2), side.absent()
    for at in range(2):
        side.produce(topic, Batch(2, producer_id=4_242, producer_epoch=3, base_sequence=2 * at))
    for version in side.versions("DescribeProducers"):
        for request, topics in {
            "one": [(topic.name, [0, 1])],
            "a partition twice": [(topic.name, [0, 0])],
            "out of range": [(topic.name, [9, -1])],
            "an unknown one": [(absent.name, [0]), (topic.name, [0])],
            "a name that cannot be": [("a/b", [0])],
            "an empty name": [("", [0])],
            "no partitions": [(topic.name, [])],
            "none": [],
        }.items():
            listed = [dict(zip(("Name", "PartitionIndexes"), one)) for one in topics]
            side.ask("DescribeProducers", version, request, Topics=listed)
