"""Consumers in the racks of followers read there (KIP-392), and nothing that could be taken back."""

import re
import time
import unittest
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from verifiable import consumer
from written import TWO_IN_SYNC, wait_until_in_sync, written_cluster

from harness.cluster import Cluster, Node
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S, QUIET, admin_client, create_topics, number_of
from harness.protocol import FETCH, Connection, fetch_v11
from harness.waiting import wait_until

TOPIC = "near"
SELECTOR = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "group.initial.rebalance.delay.ms": "0",
}
RECORDS = 2_000
# A client forgets the replica that it was sent to, and asks the leader again, after this time.
METADATA_AGE_MS = 2_000


def leader_of(bootstrap: str) -> int:
    return admin_client(bootstrap).list_topics(TOPIC, timeout=DEADLINE_S).topics[TOPIC].partitions[0].leader


def follower_of(bootstrap: str) -> int:
    """The number of a node that follows."""
    leader = leader_of(bootstrap)
    return next(number for number in (1, 2, 3) if number != leader)


def bytes_out(node: Node) -> int:
    """How many bytes of the topic's records the node has sent to consumers."""
    found = re.search(rf'^logway_topic_bytes_out_total{{topic="{TOPIC}"}} (\d+)$', node.metrics(), re.MULTILINE)
    return int(found[1]) if found else 0


def rack(number: int) -> dict[str, str]:
    return {"client.rack": f"rack-{number}"}


@contextmanager
def reading(bootstrap: str, config: dict, offset: int = OFFSET_BEGINNING):
    """A librdkafka consumer of the partition."""
    fixed = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET}
    ages = {"topic.metadata.refresh.interval.ms": METADATA_AGE_MS, "metadata.max.age.ms": 3 * METADATA_AGE_MS}
    reader = Consumer({**fixed, **ages, **config})
    reader.assign([TopicPartition(TOPIC, 0, offset)])
    try:
        yield reader
    finally:
        reader.close()


def read(reader: Consumer, count: int) -> list[tuple[int, bytes]]:
    """So many records, with their offsets."""
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(found)} of {count} records are read")
        for message in reader.consume(1_000, timeout=0.2):
            if message.error():
                raise AssertionError(message.error())
            found.append((message.offset(), message.value()))
    return found


def write(bootstrap: str, values: list[bytes], **config) -> list[int]:
    """Writes to the partition, and gives the offsets."""
    offsets, errors = [], []
    told = lambda error, message: errors.append(error) if error else offsets.append(message.offset())
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **config})
    for value in values:
        producer.produce(TOPIC, value, partition=0, on_delivery=told)
    left = producer.flush(DEADLINE_S)
    if errors or left:
        raise AssertionError(f"{left} unanswered, {errors[:1]}")
    return offsets


class FollowerReads(unittest.TestCase):
    def cluster(self, name: str) -> Cluster:
        cluster = self.enterContext(Cluster(name, settings=SELECTOR, racks=True))
        create_topics(cluster.bootstrap, NewTopic(TOPIC, 1, 3, config=TWO_IN_SYNC))
        wait_until_in_sync(cluster, TOPIC)
        wait_until_all_vote(cluster)
        return cluster

    def test_all_bytes_of_librdkafka_and_java_come_from_the_follower_in_their_rack(self):
        cluster = self.cluster("near-clients")
        bootstrap = cluster.bootstrap
        values = [f"{number}".encode() * 20 for number in range(RECORDS)]
        write(bootstrap, values)
        follower = follower_of(bootstrap)
        others = [node for node in cluster.nodes if node is not cluster.node(follower)]
        with reading(bootstrap, rack(follower)) as reader:
            self.assertEqual([value for _, value in read(reader, RECORDS)], values)
        by_one = bytes_out(cluster.node(follower))
        self.assertGreater(by_one, sum(map(len, values)))
        self.assertEqual([bytes_out(node) for node in others], [0, 0])
        with consumer(bootstrap, TOPIC, "java", config=rack(follower)) as java:
            seen = lambda: java.named("record_data")
            wait_until(lambda: len(seen()) >= RECORDS, f"{RECORDS} records to be read by Java", DEADLINE_S)
            self.assertEqual([event["value"].encode() for event in seen()], values)
        by_both = bytes_out(cluster.node(follower))
        self.assertGreater(by_both, 1.9 * by_one)
        self.assertEqual([bytes_out(node) for node in others], [0, 0])
        print(f"node {follower} has sent {by_one} bytes to one and {by_both} to both, the others none")

    def test_who_reads_what_is_committed_sees_no_aborted_transaction_at_a_follower(self):
        cluster = self.cluster("near-transactions")
        bootstrap = cluster.bootstrap
        follower = follower_of(bootstrap)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "one", **QUIET})
        producer.init_transactions(DEADLINE_S)
        kept = []
        for number in range(10):
            producer.begin_transaction()
            value = f"{number}".encode()
            producer.produce(TOPIC, value, partition=0)
            producer.flush(DEADLINE_S)
            if number % 2:
                producer.abort_transaction(DEADLINE_S)
            else:
                producer.commit_transaction(DEADLINE_S)
                kept.append(value)
        producer.begin_transaction()
        producer.produce(TOPIC, b"open", partition=0)
        producer.flush(DEADLINE_S)
        with reading(bootstrap, {**rack(follower), "isolation.level": "read_committed"}) as reader:
            self.assertEqual([value for _, value in read(reader, len(kept))], kept)
            self.assertEqual(reader.consume(1, timeout=2), [], "a transaction is open")
            producer.commit_transaction(DEADLINE_S)
            self.assertEqual([value for _, value in read(reader, 1)], [b"open"])
        self.assertEqual([bytes_out(node) > 0 for node in cluster.nodes], [n == follower for n in (1, 2, 3)])

    def test_a_reader_goes_on_when_its_follower_is_killed_and_when_the_leader_is(self):
        options = {"settings": SELECTOR, "racks": True, "records_per_second": 500}
        with written_cluster("near-kills", TOPIC, 1, **options) as (cluster, _):
            bootstrap = cluster.bootstrap
            wait_until_in_sync(cluster, TOPIC)
            near = follower_of(bootstrap)
            with reading(bootstrap, rack(near)) as reader:
                next_offset = 0

                def read_on(count: int):
                    nonlocal next_offset
                    for offset, value in read(reader, count):
                        self.assertEqual((offset, number_of(0, value)), (next_offset, next_offset))
                        next_offset += 1

                read_on(500)
                self.assertGreater(bytes_out(cluster.node(near)), 0)
                for name, victim in (("follower", lambda: near), ("leader", lambda: leader_of(bootstrap))):
                    number = victim()
                    cluster.node(number).kill()
                    began = time.monotonic()
                    read_on(500)
                    print(f"{name} {number} was killed: 500 records more in {time.monotonic() - began:.2f} s")
                    cluster.node(number).start()
                    wait_until_in_sync(cluster, TOPIC)
                    read_on(500)
                before = bytes_out(cluster.node(near))

                def is_read_there() -> bool:
                    read_on(100)
                    return bytes_out(cluster.node(near)) > before

                if leader_of(bootstrap) != near:
                    wait_until(is_read_there, f"records to come from node {near} again", DEADLINE_S)

    def test_what_a_follower_has_to_cut_off_is_never_shown(self):
        cluster = self.cluster("near-cut")
        bootstrap = cluster.bootstrap
        first = write(bootstrap, [b"first"] * 10)
        old = leader_of(bootstrap)
        others = [node for node in cluster.nodes if node is not cluster.node(old)]
        for node in others:
            node.kill()
        # The others never get these: who leads next gives their offsets to other records.
        lost = write(cluster.node(old).bootstrap, [b"lost"] * 10, acks="1")
        self.assertEqual(lost, list(range(10, 20)))
        cluster.node(old).kill()
        for node in others:
            node.begin()
        for node in others:
            node.wait_until_ready()
        left = ",".join(node.bootstrap for node in others)
        wait_until(lambda: leader_of(left) not in (-1, old), "another to lead", DEADLINE_S)
        kept = write(left, [b"kept"] * 15, acks="all")
        self.assertEqual((first[0], kept), (0, list(range(10, 25))))
        back = cluster.node(old)
        back.start()
        asked = 0
        # From the first moment on it is asked itself, until it has all.
        with Connection(back.bootstrap) as connection:

            def shows_all() -> bool:
                nonlocal asked
                asked += 1
                answer = connection.request(FETCH, 11, fetch_v11(TOPIC, 0, 0, 1 << 20))
                self.assertNotIn(b"lost", answer, "what is not committed is shown")
                return answer.count(b"kept") == len(kept)

            wait_until(shows_all, "the node to show all that is committed", DEADLINE_S)
        print(f"node {old} was asked {asked} times while it cut its log off")
        wait_until_in_sync(cluster, TOPIC)
        with reading(bootstrap, rack(old)) as reader:
            found = read(reader, 25)
        self.assertEqual(found, [*enumerate([b"first"] * 10), *((at, b"kept") for at in kept)])
