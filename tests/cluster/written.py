"""A cluster of three nodes with one topic, and a verifying load on it."""

from contextlib import contextmanager
from itertools import chain

from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S, Writer, create_topics
from harness.protocol import METADATA, Connection, metadata_v1, partitions_v1
from harness.waiting import wait_until

TOPIC = "kept"
PARTITIONS = 6
TWO_IN_SYNC = {"min.insync.replicas": "2"}

# A node that does not answer in this time is asked again.
ANSWER_S = 2

# What is on the way to a node that hangs is given up after this time. Before, the client sends it nowhere else, for
# 60 s unless it is told.
CLIENT = {"socket.timeout.ms": 2_000}


@contextmanager
def written_cluster(name: str, topic: str = TOPIC, partitions: int = PARTITIONS, **options):
    """Gives the cluster and the writer. Behind the block all that was written must be there once and in order.

    `options` are those of `Cluster`; `replicas` and `config` of the topic; the pace of the writer.
    """
    replicas, config = options.pop("replicas", 3), options.pop("config", TWO_IN_SYNC)
    pace = {name: options.pop(name) for name in ("burst_interval_s", "records_per_second") if name in options}
    with Cluster(name, **options) as cluster:
        wait_until_all_vote(cluster)
        create_topics(cluster.bootstrap, NewTopic(topic, partitions, replicas, config=config))
        writer = Writer(cluster.bootstrap, topic, partitions, client=CLIENT, **pace)
        with writer:
            yield cluster, writer
            writer.finish()
        writer.assert_all_there()


def wait_until_in_sync(cluster, topic: str = TOPIC, count: int = 3):
    """Waits until each node says that each partition of a topic has a leader and so many replicas in sync.

    Each is asked itself: one that has just come back may tell for a moment what was.
    """

    def partitions(node) -> dict:
        with Connection(node.bootstrap, ANSWER_S) as connection:
            return partitions_v1(connection.request(METADATA, 1, metadata_v1([topic])))[topic]

    def is_in_sync():
        try:
            known = [list(partitions(node).values()) for node in cluster.nodes]
        except OSError:
            return False
        # One that has not heard of the topic yet knows none of them.
        return all(known) and all(leader >= 0 and len(in_sync) == count for leader, in_sync in chain(*known))

    wait_until(is_in_sync, f"{count} replicas of {topic} in sync on every node", deadline_s=DEADLINE_S)
