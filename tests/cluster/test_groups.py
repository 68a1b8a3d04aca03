"""Groups while nodes are killed, by the classic protocol and by the newer one (KIP-848)."""

import random
import threading
import time
import unittest

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from verifiable import Verifiable, consumer

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


# A partition, the first and the last offset: of records that somebody has read one after another.
Range = tuple[int, int, int]


class Groups(unittest.TestCase):
    def test_a_group_goes_on_when_its_coordinator_is_killed_and_no_committed_offset_goes_back(self):
        self.kill_coordinators("classic")

    def test_so_does_a_group_of_the_newer_protocol(self):
        self.kill_coordinators("consumer")

    def kill_coordinators(self, protocol: str):
        chance = random.Random(SEED)
        with written_cluster(f"groups-kill-{protocol}", TOPIC, PARTITIONS, settings=SETTINGS) as (cluster, _):
            reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.protocol": protocol, **READER})
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
        self.kill_under_two_clients("classic")

    def test_so_do_members_of_the_newer_protocol(self):
        self.kill_under_two_clients("consumer")

    def kill_under_two_clients(self, protocol: str):
        """Two members are Kafka's VerifiableConsumer, one is librdkafka's. Nodes are killed, the coordinator first."""
        chance = random.Random(SEED)
        pace = {"records_per_second": 2_000}
        with written_cluster(f"groups-mixed-{protocol}", TOPIC, PARTITIONS, settings=SETTINGS, **pace) as (cluster, _):
            java = lambda: consumer(cluster.bootstrap, TOPIC, GROUP, tells_records=False, protocol=protocol)
            with java() as one, java() as two:
                with Member(cluster.bootstrap, protocol) as third:

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
                # Commits go on meanwhile: first how far they are, then what was read.
                ends = committed(cluster.bootstrap)
                self.assert_nothing_skipped(third.read + ranges_read(one) + ranges_read(two), ends)

    def assert_nothing_skipped(self, ranges: list[Range], ends: list[int]):
        """Some member has read each record before what is committed."""
        reached = [0] * PARTITIONS
        for partition, first, last in sorted(ranges):
            self.assertLessEqual(first, reached[partition], f"SEED={SEED}: partition {partition}: records before {first} were skipped")
            reached[partition] = max(reached[partition], last + 1)
        self.assertTrue(all(end <= most for end, most in zip(ends, reached)), f"SEED={SEED}: {ends} committed, {reached} read")


def ranges_read(member: Verifiable) -> list[Range]:
    """What a VerifiableConsumer tells of each poll."""
    told = [part for event in member.named("records_consumed") for part in event["partitions"]]
    return [(part["partition"], part["minOffset"], part["maxOffset"]) for part in told]


class Member:
    """A member of the group with librdkafka, which reads and commits on a thread of its own."""

    def __init__(self, bootstrap: str, protocol: str):
        # In each partition, how far it was told that its commit is done.
        self.confirmed = [0] * PARTITIONS
        self.failure = None
        self.read: list[Range] = []
        self._reader = Consumer({"bootstrap.servers": bootstrap, "group.protocol": protocol, **READER})
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
            for partition in {message.partition() for message in messages}:
                offsets = [message.offset() for message in messages if message.partition() == partition]
                # A partition may have been taken away and given back in between.
                starts = [at for at, offset in enumerate(offsets) if at == 0 or offset != offsets[at - 1] + 1]
                parts = zip(starts, [*starts[1:], len(offsets)])
                self.read += [(partition, offsets[start], offsets[end - 1]) for start, end in parts]
            try:
                done = self._reader.commit(asynchronous=False)
            except KafkaException:
                # Not confirmed: its coordinator has gone, or the group divides the partitions anew.
                continue
            for told in done:
                if not told.error and told.offset >= 0:
                    self.confirmed[told.partition] = max(self.confirmed[told.partition], told.offset)
