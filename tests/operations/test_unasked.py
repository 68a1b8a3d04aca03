"""A cluster that moves partitions by itself, under a verifying load."""

import unittest

from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster, Node
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S, create_topics
from harness.waiting import wait_until
from ours import bound_copies, logway, unbound_copies
from test_tools import replicas_of
from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

SETTINGS = "logway.auto.balance."


def balance(bootstrap: str, **settings: str):
    """Puts settings in force, with the last part of their names. The disk that tests run on is no occasion unless one says so."""
    settings = {"disk_percent": "100", **settings}
    changes = [f"{SETTINGS}{name.replace('_', '.')}={value}" for name, value in settings.items()]
    logway(bootstrap, "config", "set", "broker", "default", *changes)


def begun(bootstrap: str) -> list[str]:
    """Why the cluster has balanced itself, each time."""
    return [event["text"] for event in logway(bootstrap, "cluster", "events") if event["kind"] == "balance_begun"]


def held(bootstrap: str, number: int) -> int:
    return sum(number in replicas for replicas in replicas_of(bootstrap).values())


class Unasked(unittest.TestCase):
    def test_a_node_that_joins_gets_its_share_and_what_is_cancelled_is_not_begun_again(self):
        with written_cluster("unasked-join") as (cluster, writer):
            bootstrap = cluster.bootstrap
            writer.wait_for_more_acks(5_000)
            before = replicas_of(bootstrap)
            balance(bootstrap, enable="true")
            # It is there to be cancelled.
            bound_copies(bootstrap, 65_536)
            for number in (4, 5):
                new = Node(f"unasked-join-{number}", [cluster.node(1).nodes])
                self.addCleanup(new.kill)
                new.start()
                cluster.nodes.append(new)
                reasons = number - 3
                wait_until(lambda: len(begun(bootstrap)) == reasons, "it balances itself", deadline_s=DEADLINE_S)
                self.assertIn(f"because node {number} has joined and holds nothing: ", begun(bootstrap)[-1])
                if number == 4:
                    self.assertNotEqual(logway(bootstrap, "cluster", "moves", "--cancel"), [])
                    wait_until(lambda: replicas_of(bootstrap) == before, "all is as it was", deadline_s=DEADLINE_S)
                    unbound_copies(bootstrap)
            # For the second one the plan is for both.
            wait_until(lambda: held(bootstrap, 4) and held(bootstrap, 5), "both have a share", deadline_s=DEADLINE_S)
            logway(bootstrap, "cluster", "moves", "--wait")
            wait_until_in_sync(cluster)
            self.assertEqual(logway(bootstrap, "cluster", "rebalance")["moves"], [])
            self.assertEqual(len(begun(bootstrap)), 2)
            writer.wait_for_more_acks(500)

    def test_others_get_the_replicas_of_a_node_that_is_gone(self):
        with written_cluster("unasked-gone", count=4) as (cluster, writer):
            writer.wait_for_more_acks(2_000)
            gone = cluster.node(4)
            held_before = held(cluster.bootstrap, 4)
            self.assertGreater(held_before, 0)
            balance(cluster.bootstrap, enable="true", gone_ms="3000")
            gone.kill()
            bootstrap = ",".join(cluster.node(number).bootstrap for number in (1, 2, 3))
            wait_until(lambda: held(bootstrap, 4) == 0, "it has nothing", deadline_s=DEADLINE_S)
            reasons = begun(bootstrap)
            self.assertEqual(len(reasons), 1)
            self.assertIn(f"because node 4 is gone for too long: {held_before} partitions to move", reasons[0])
            # It comes back with nothing, and gets its share.
            gone.start()
            wait_until(lambda: held(bootstrap, 4) > 0, "it has a share", deadline_s=DEADLINE_S)
            logway(bootstrap, "cluster", "moves", "--wait")
            wait_until_in_sync(cluster)
            writer.wait_for_more_acks(500)

    def test_a_disk_that_is_fuller_than_a_setting_allows_is_an_occasion_and_nothing_is_done_unasked_for(self):
        with Cluster("unasked-disk", count=2) as cluster:
            wait_until_all_vote(cluster)
            bootstrap = cluster.bootstrap
            # Another topic has both nodes, so that none is new.
            create_topics(bootstrap, NewTopic(TOPIC, PARTITIONS, replica_assignment=[[1]] * PARTITIONS), NewTopic("both", 1, 2))
            self.assertEqual(begun(bootstrap), [])
            # Any disk of a machine that runs tests is as full as that.
            balance(bootstrap, disk_percent="1")
            self.assertEqual(held(bootstrap, 2), 0, "it is not turned on")
            balance(bootstrap, enable="true", disk_percent="1")
            wait_until(lambda: held(bootstrap, 2) == PARTITIONS // 2, "each has half", deadline_s=DEADLINE_S)
            self.assertRegex(begun(bootstrap)[0], r"because a disk of node \d is \d+ % full: 3 partitions")
