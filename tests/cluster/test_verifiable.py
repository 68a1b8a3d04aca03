"""Kafka's own verifiable programs through the faults of its replication_test.py: clean stop, kill and bounces of a
partition's leader and of the controller."""

import time
import unittest

from confluent_kafka.admin import NewTopic
from verifiable import consumer, producer
from written import TWO_IN_SYNC, wait_until_in_sync

from harness.cluster import Cluster, Node
from harness.cluster_status import status, wait_until_all_vote
from harness.load import DEADLINE_S, admin_client, create_topics
from harness.waiting import wait_until

TOPIC = "verified"
PARTITIONS = 3
RECORDS_PER_SECOND = 1_000
BOUNCES = 2


def clean_stop(node: Node):
    node.stop()


def kill(node: Node):
    node.kill()


class VerifiablePrograms(unittest.TestCase):
    def test_stop_kill_and_bounce_of_leader_and_controller(self):
        settings = {"group.initial.rebalance.delay.ms": "0"}
        with Cluster("verifiable", settings=settings) as self.cluster:
            wait_until_all_vote(self.cluster)
            bootstrap = self.cluster.bootstrap
            create_topics(bootstrap, NewTopic(TOPIC, PARTITIONS, 3, config=TWO_IN_SYNC))
            with producer(bootstrap, TOPIC, RECORDS_PER_SECOND) as self.writing, consumer(bootstrap, TOPIC, "readers") as self.reading:
                self.wait_for_more()
                for victim in (self.leader, self.controller):
                    for fault, times in ((clean_stop, 1), (kill, 1), (clean_stop, BOUNCES), (kill, BOUNCES)):
                        for _ in range(times):
                            number = victim()
                            node = self.cluster.node(number)
                            fault(node)
                            if times == 1:
                                # What it led goes on without it. A bounce does not wait for that.
                                began = time.monotonic()
                                self.wait_for_more()
                                print(f"{victim.__name__} {number}, {fault.__name__}: {time.monotonic() - began:.2f} s")
                            node.start()
                            wait_until_in_sync(self.cluster, TOPIC)
                        self.wait_for_more()
                self.writing.stop()
                self.check_all()

    def leader(self) -> int:
        return admin_client(self.cluster.bootstrap).list_topics(timeout=DEADLINE_S).topics[TOPIC].partitions[0].leader

    def controller(self) -> int:
        return status(self.cluster.bootstrap)["controller"]

    def wait_for_more(self):
        """Records of each partition are acknowledged and consumed that were not before."""
        counts = lambda program, name: [
            sum(event["partition"] == partition for event in program.named(name)) for partition in range(PARTITIONS)
        ]
        for program, name in ((self.writing, "producer_send_success"), (self.reading, "record_data")):
            before = counts(program, name)
            wait_until(
                lambda: all(now > then for now, then in zip(counts(program, name), before)),
                f"more of {name}, of which there were {before}",
                DEADLINE_S,
            )

    def check_all(self):
        """Nothing that was acknowledged is lost, doubled or out of order, and no committed offset goes back."""
        self.assertEqual(self.writing.named("producer_send_error"), [])
        place = lambda event: (event["partition"], event["offset"])
        acked = {place(event): event["value"] for event in self.writing.named("producer_send_success")}
        self.assertGreater(len(acked), 0)

        def consumed() -> dict[tuple[int, int], str]:
            return {place(event): event["value"] for event in self.reading.named("record_data")}

        wait_until(lambda: acked.keys() <= consumed().keys(), f"{len(acked)} records to be consumed", DEADLINE_S)
        found = consumed()
        self.assertEqual({at: found[at] for at in acked}, acked)
        self.assertEqual(len(set(found.values())), len(found), "a record stands twice")
        for event in self.reading.named("record_data"):
            self.assertEqual(found[place(event)], event["value"], "what was read at an offset has changed")
        for partition in range(PARTITIONS):
            numbers = [int(value) for (of, _), value in sorted(found.items()) if of == partition]
            self.assertEqual(numbers, sorted(numbers))
        committed = {}
        for event in self.reading.named("offsets_committed"):
            if event["success"]:
                for offset in event["offsets"]:
                    before = committed.get(offset["partition"], 0)
                    self.assertGreaterEqual(offset["offset"], before, "a committed offset went back")
                    committed[offset["partition"]] = offset["offset"]
        print(f"{len(acked)} acknowledged, {len(found)} consumed, committed up to {committed}")
