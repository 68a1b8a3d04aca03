import random
import time
import unittest

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from harness.load import DEADLINE_S, QUIET, admin_client, number_of
from harness.seed import SEED
from written import wait_until_in_sync, written_cluster

TOPIC = "read"
PARTITIONS = 4
KILLS = 4
GROUP = "readers"


class Groups(unittest.TestCase):
    def test_a_group_goes_on_when_its_coordinator_is_killed_and_no_committed_offset_goes_back(self):
        chance = random.Random(SEED)
        settings = {"group.initial.rebalance.delay.ms": "0"}
        with written_cluster("groups-kill", TOPIC, PARTITIONS, settings=settings) as (cluster, _):
            reader = Consumer(
                {
                    "bootstrap.servers": cluster.bootstrap,
                    "group.id": GROUP,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    **QUIET,
                }
            )
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

            def committed() -> list[int]:
                asked = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
                request = [ConsumerGroupTopicPartitions(GROUP, asked)]
                # A new one each time, which does not wait for a coordinator that it knew. It ends what it was asked when
                # it goes, so it has a name.
                admin = admin_client(cluster.bootstrap)
                found = admin.list_consumer_group_offsets(request)[GROUP].result(DEADLINE_S)
                return [partition.offset for partition in found.topic_partitions]

            try:
                read(5_000)
                for _ in range(KILLS):
                    before = committed()
                    admin = admin_client(cluster.bootstrap)
                    described = admin.describe_consumer_groups([GROUP])[GROUP]
                    coordinator = described.result(DEADLINE_S).coordinator.id
                    cluster.node(coordinator).kill()
                    began = time.monotonic()
                    read(chance.randrange(1_000, 5_000))
                    print(f"read and committed {time.monotonic() - began:.2f} s after node {coordinator} was killed")
                    after = committed()
                    self.assertTrue(all(old <= new for old, new in zip(before, after)), f"{before}, then {after}")
                    cluster.node(coordinator).start()
                    wait_until_in_sync(cluster, "__consumer_offsets")
            finally:
                reader.close()
