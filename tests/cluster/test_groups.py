import random
import threading
import time
import unittest

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from verifiable import consumer

from harness.load import DEADLINE_S, QUIET, admin_client, number_of
from harness.seed import SEED
from harness.waiting import wait_until
from written import wait_until_in_sync, written_cluster

TOPIC = "read"
PARTITIONS = 4
KILLS = 4
GROUP = "readers"
READER = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False, **QUIET}
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def committed(bootstrap: str) -> list[int]:
    asked = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    request = [ConsumerGroupTopicPartitions(GROUP, asked)]
    # A new one each time, which does not wait for a coordinator that it knew. It ends what it was asked when
    # it goes, so it has a name.
    admin = admin_client(bootstrap)
    found = admin.list_consumer_group_offsets(request)[GROUP].result(DEADLINE_S)
    return [partition.offset for partition in found.topic_partitions]


def coordinator(bootstrap: str) -> int:
    admin = admin_client(bootstrap)
    return admin.describe_consumer_groups([GROUP])[GROUP].result(DEADLINE_S).coordinator.id


class Groups(unittest.TestCase):
    def test_a_group_goes_on_when_its_coordinator_is_killed_and_no_committed_offset_goes_back(self):
        chance = random.Random(SEED)
        with written_cluster("groups-kill", TOPIC, PARTITIONS, settings=SETTINGS) as (cluster, _):
            reader = Consumer({"bootstrap.servers": cluster.bootstrap, **READER})
            reader.subscribe([TOPIC])
            seen = [0] * PARTITIONS

            def read(records: int):
                """Reads so many records more, each partition on from where it was, and commits."""
                deadline = time.monotonic() + DEADLINE_S
                left = records
                while left > 0:
                    self.assertLess(time.monotonic(), deadline, f"{left} of {records} records are not read: {seen}")
                    for message in reader.consume(1_000, timeout=0.1):
                        self.assertIsNone(message.error())
                        partition = message.partition()
                        # What was read and not committed comes again after a rebalance; nothing is left out.
                        self.assertLessEqual(message.offset(), seen[partition])
                        self.assertEqual(number_of(partition, message.value()), message.offset())
                        seen[partition] = max(seen[partition], message.offset() + 1)
                        left -= 1
                reader.commit(asynchronous=False)

            try:
                read(5_000)
                for _ in range(KILLS):
                    before = committed(cluster.bootstrap)
                    killed = coordinator(cluster.bootstrap)
                    cluster.node(killed).kill()
                    began = time.monotonic()
                    read(chance.randrange(1_000, 5_000))
                    print(f"read and committed {time.monotonic() - began:.2f} s after node {killed} was killed")
                    after = committed(cluster.bootstrap)
                    self.assertTrue(all(old <= new for old, new in zip(before, after)), f"{before}, then {after}")
                    cluster.node(killed).start()
                    wait_until_in_sync(cluster, "__consumer_offsets")
            finally:
                reader.close()

    def test_members_of_two_clients_go_on_and_no_confirmed_commit_is_lost(self):
        """Two members are Kafka's VerifiableConsumer, one is librdkafka's. Nodes are killed, the coordinator first."""
        chance = random.Random(SEED)
        pace = {"records_per_second": 2_000}
        with written_cluster("groups-mixed", TOPIC, PARTITIONS, settings=SETTINGS, **pace) as (cluster, _):
            java = lambda: consumer(cluster.bootstrap, TOPIC, GROUP, tells_records=False)
            with java() as one, java() as two:
                with Member(cluster.bootstrap) as third:

                    def confirmed() -> list[int]:
                        """How far some member was told, in each partition, that its commit is done."""
                        most = list(third.confirmed)
                        for member in (one, two):
                            for event in member.named("offsets_committed"):
                                for told in event["offsets"] if event["success"] else []:
                                    most[told["partition"]] = max(most[told["partition"]], told["offset"])
                        return most

                    def commits_go_on():
                        before = confirmed()
                        goes_on = lambda: all(now > then for now, then in zip(confirmed(), before))
                        wait_until(goes_on, f"commits of all partitions behind {before}", DEADLINE_S)

                    all_read = lambda: any(third.confirmed) and all(map(lambda it: it.named("offsets_committed"), (one, two)))
                    wait_until(all_read, "each member to commit something", DEADLINE_S)
                    for kill in range(KILLS):
                        commits_go_on()
                        killed = chance.randrange(1, 4) if kill % 2 else coordinator(cluster.bootstrap)
                        before = confirmed()
                        cluster.node(killed).kill()
                        began = time.monotonic()
                        commits_go_on()
                        print(f"all partitions are committed {time.monotonic() - began:.2f} s after node {killed} was killed")
                        after = committed(cluster.bootstrap)
                        self.assertTrue(all(old <= new for old, new in zip(before, after)), f"{before}, then {after}")
                        cluster.node(killed).start()
                        wait_until_in_sync(cluster, "__consumer_offsets")
                    self.assertEqual(third.failure, None)


class Member:
    """A member of the group with librdkafka, which reads and commits on a thread of its own."""

    def __init__(self, bootstrap: str):
        # In each partition, how far it was told that its commit is done.
        self.confirmed = [0] * PARTITIONS
        self.failure = None
        self._reader = Consumer({"bootstrap.servers": bootstrap, **READER})
        self._reader.subscribe([TOPIC])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join()
        self._reader.close()

    def _run(self):
        while not self._stopping.is_set():
            messages = self._reader.consume(1_000, timeout=0.1)
            errors = [message.error() for message in messages if message.error()]
            if errors:
                self.failure = str(errors[0])
                return
            if not messages:
                continue
            try:
                done = self._reader.commit(asynchronous=False)
            except KafkaException:
                # Not confirmed: its coordinator has gone, or the group divides the partitions anew.
                continue
            for told in done:
                if not told.error and told.offset >= 0:
                    self.confirmed[told.partition] = max(self.confirmed[told.partition], told.offset)
