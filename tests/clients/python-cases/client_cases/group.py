import time

import client

from client_cases.case import ClientCase, numbered, produce
from client_cases.member import Member
from client_cases.model import fresh, wait_until

FLOW_RECORDS = 100_000
CHUNK_RECORDS = 2_000
FLOW_DEADLINE_S = 60


class Group(ClientCase):
    def join(self, group: str, topic: str, **settings) -> Member:
        member = Member(group, topic, **settings)
        self.addCleanup(member.close)
        return member

    def committed(self, group: str, topic: str, partitions: int) -> list[int | None]:
        """The committed offset of each partition, as a consumer outside the group fetches it."""
        outside = self.consumer(group=group)
        found = [outside.committed(topic, partition) for partition in range(partitions)]
        return [offset and offset[0] for offset in found]

    def test_group_resume(self):
        topic, group = self.create_topic("resume", partitions=3), fresh("resume")
        for partition in range(3):
            produce(topic, numbered(100), partition)
        first = self.join(group, topic)
        first.wait_until(lambda: len(first.records) == 300, "300 records")
        first.leave()
        self.assertEqual(self.committed(group, topic, 3), [100, 100, 100])
        for partition in range(3):
            produce(topic, numbered(10), partition)
        second = self.join(group, topic)
        second.wait_until(lambda: len(second.records) >= 30, "30 records")
        second.leave()
        self.assertEqual(
            sorted((record.partition, record.offset) for record in second.records),
            [(partition, offset) for partition in range(3) for offset in range(100, 110)],
        )

    def test_group_rebalance(self):
        self.run_flow("range")

    def test_group_cooperative(self):
        if "cooperative-sticky" not in client.STRATEGIES:
            self.skipTest("no cooperative assignor")
        first, second = self.run_flow("cooperative-sticky")
        moved = set().union(*first.lost)
        self.assertEqual(len(moved), 2, f"the first member lost {first.lost}")
        self.assertLessEqual(moved, set().union(*second.gained))

    def run_flow(self, strategy: str) -> tuple[Member, Member]:
        """Records flow while a second member joins and leaves; returns the members before the first has left."""
        topic, group = self.create_topic("flow", partitions=4), fresh("flow")
        first = self.join(group, topic, strategy=strategy)
        first.wait_for_partitions(4)
        flow = Flow(topic)
        self.addCleanup(flow.close)
        flow.send_up_to(20_000)
        second = self.join(group, topic, strategy=strategy)
        flow.send_up_to(60_000)
        second.wait_for_partitions(2)
        flow.send_up_to(80_000)
        second.wait_until(lambda: second.records, "records")
        second.leave()
        flow.send_up_to(FLOW_RECORDS)
        began = time.monotonic()
        while len(seen := {int(record.key) for member in (first, second) for record in member.records}) < FLOW_RECORDS:
            self.assertIsNone(first.error)
            self.assertLess(time.monotonic() - began, FLOW_DEADLINE_S, f"{len(seen)} of the records were seen")
            time.sleep(0.05)
        first.wait_for_partitions(4)
        self.assertTrue(first.records and second.records)
        ends = [client.list_offsets(topic, partition)[1] for partition in range(4)]
        self.assertEqual(sum(ends), FLOW_RECORDS)
        wait_until(lambda: self.committed(group, topic, 4) == ends, f"the committed offsets to be {ends}")
        return first, second

    def test_group_static(self):
        topic, group = self.create_topic("static", partitions=4), fresh("static")
        stays = self.join(group, topic, instance_id="stays")
        stays.wait_for_partitions(4)
        restarts = self.join(group, topic, instance_id="restarts")
        restarts.wait_for_partitions(2)
        stays.wait_for_partitions(2)
        had, callbacks = restarts.assigned, len(stays.gained) + len(stays.lost)
        restarts.leave()
        restarted = self.join(group, topic, instance_id="restarts")
        restarted.wait_for_partitions(2)
        self.assertEqual(restarted.assigned, had)
        produce(topic, numbered(1), partition=min(stays.assigned))
        stays.wait_until(lambda: stays.records, "a record")
        self.assertEqual(len(stays.gained) + len(stays.lost), callbacks, "the other member saw a rebalance")

    def test_group_metadata(self):
        topic, group = self.create_topic("metadata", partitions=2), fresh("metadata")
        produce(topic, numbered(10))
        text = "read by host-1 at 12:00, ünïcode"
        self.consumer(group=group).commit({(topic, 0): (7, text)})
        self.assertEqual(self.consumer(group=group).committed(topic, 0), (7, text))
        self.assertIsNone(self.consumer(group=group).committed(topic, 1))


class Flow:
    """Numbered records to a topic of four partitions, acknowledged chunk by chunk."""

    def __init__(self, topic: str):
        self.topic, self.sent = topic, 0
        self.producer = client.Producer()

    def send_up_to(self, count: int):
        while self.sent < count:
            for record in numbered(CHUNK_RECORDS, start=self.sent):
                self.producer.send(self.topic, int(record.key) % 4, record)
            self.producer.flush()
            self.sent += CHUNK_RECORDS

    def close(self):
        self.producer.close()
