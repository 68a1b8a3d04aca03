"""Nodes join and leave, are drained and filled, under a verifying load, while nodes are killed."""

import os
import random
import time
import unittest

from confluent_kafka.admin import NewTopic

from harness.broker import BrokerFailed
from harness.cluster import Cluster, Node
from harness.cluster_status import status, wait_until_all_vote
from harness.load import DEADLINE_S, create_topics
from harness.seed import SEED
from harness.waiting import wait_until
from ours import bound_copies, ended, logway, spawn, unbound_copies
from test_tools import has_log, partitions_of, replicas_of
from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

ROUNDS = int(os.environ.get("ROUNDS", "1"))


def assert_no_log(node):
    """A node that has nothing of the topic: not in its directory either."""
    is_gone = lambda: not any(has_log(node, TOPIC, number) for number in range(PARTITIONS))
    wait_until(is_gone, f"a node has no logs of {TOPIC}", deadline_s=DEADLINE_S)


def wait_until_fenced(bootstrap: str, number: int):
    """Until the controller knows that a node is dead."""
    told = f"node {number} is not heard any more: others lead what it led, where they can"
    is_told = lambda: told in [event["text"] for event in logway(bootstrap, "cluster", "events")]
    wait_until(is_told, "it is known to be dead", deadline_s=DEADLINE_S)


class Ours(unittest.TestCase):
    def test_a_node_is_decommissioned_while_others_are_killed(self):
        chance = random.Random(SEED)
        print(f"SEED={SEED}")
        for round in range(ROUNDS):
            with written_cluster(f"ours-decommission-{round}", count=4) as (cluster, writer):
                writer.wait_for_more_acks(chance.randrange(2_000, 20_000))
                leaving = 4
                others = ",".join(cluster.node(number).bootstrap for number in (1, 2, 3))
                planned = logway(others, "cluster", "decommission", str(leaving))
                self.assertEqual((planned["removed"], planned["cancelled"]), (False, False))
                self.assertTrue(all(leaving not in move["to"] for move in planned["moves"]), planned)
                # The bound makes it last, so that it is hit in the middle.
                bound_copies(others, 400_000)
                arguments = ("cluster", "decommission", str(leaving), "--yes")
                process = spawn(others, *arguments)
                controller = status(others)["controller"]
                bystander = next(number for number in (1, 2, 3) if number != controller)
                for number in [number for number in (controller, bystander) if number != leaving]:
                    time.sleep(chance.random())
                    cluster.node(number).kill()
                    writer.wait_for_more_acks(500)
                    cluster.node(number).start()
                    alive = [node for node in cluster.nodes if node.is_running()]
                    wait_until(lambda: status(others)["has_controller"], "there is a controller", deadline_s=DEADLINE_S)
                    self.assertGreaterEqual(len(alive), 3)
                # Whoever has asked for it goes; the cluster goes on, and so does who asks again.
                process.kill()
                process.wait()
                unbound_copies(others)
                self.assertTrue(logway(others, *arguments)["removed"])
                for replicas in replicas_of(others).values():
                    self.assertTrue(leaving not in replicas and len(replicas) == 3, replicas)
                assert_no_log(cluster.node(leaving))
                cluster.nodes.pop().kill()
                wait_until_in_sync(cluster)
                writer.wait_for_more_acks(500)

    def test_nothing_is_moved_to_a_node_that_is_to_leave(self):
        with written_cluster("ours-leaving", count=4, config={}) as (cluster, writer):
            writer.wait_for_more_acks(5_000)
            others = ",".join(cluster.node(number).bootstrap for number in (1, 2, 3))
            bound_copies(others, 65_536)
            process = spawn(others, "cluster", "decommission", "4", "--yes")
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            wait_until(lambda: logway(others, "cluster", "moves"), "it is on its way out", deadline_s=DEADLINE_S)
            # It is going to have nothing, which is less than others have.
            planned = logway(others, "cluster", "rebalance")
            self.assertTrue(all(4 not in move["to"] for move in planned["moves"]), planned)
            logway(others, "cluster", "decommission", "4", "--cancel")
            writer.wait_for_more_acks(500)

    def test_a_new_node_gets_its_share_and_is_killed_meanwhile(self):
        chance = random.Random(SEED + 1)
        with written_cluster("ours-rebalance", count=4, replicas=2, config={}) as (cluster, writer):
            writer.wait_for_more_acks(5_000)
            # As it was before node 4 had joined.
            for number, replicas in replicas_of(cluster.bootstrap).items():
                if 4 in replicas or len(set(replicas)) < 2:
                    to = [1 + number % 3, 1 + (number + 1) % 3]
                    logway(cluster.bootstrap, "cluster", "move", TOPIC, str(number), "--to", ",".join(map(str, to)), "--wait")
            assert_no_log(cluster.node(4))
            planned = logway(cluster.bootstrap, "cluster", "rebalance")
            self.assertFalse(planned["begun"])
            self.assertEqual(sum(node["replicas"] for node in planned["nodes"]), 2 * PARTITIONS)
            arguments = ("cluster", "rebalance", "--yes", "--wait")
            process = spawn(cluster.bootstrap, *arguments)
            # Before that the plan may leave out a node that is dead.
            has_begun = lambda: logway(cluster.bootstrap, "cluster", "moves") or process.poll() is not None
            wait_until(has_begun, "it has begun", deadline_s=DEADLINE_S)
            time.sleep(chance.random() / 2)
            cluster.node(4).kill()
            cluster.node(4).start()
            ended(arguments, process)

            def counts() -> list[int]:
                replicas = replicas_of(cluster.bootstrap).values()
                return [sum(id in of_partition for of_partition in replicas) for id in (1, 2, 3, 4)]

            # Each node learns of the end in its own time.
            wait_until(lambda: counts() == [3, 3, 3, 3], "each has its share", deadline_s=DEADLINE_S)
            wait_until_in_sync(cluster, count=2)
            self.assertEqual(logway(cluster.bootstrap, "cluster", "moves"), [])
            again = logway(cluster.bootstrap, "cluster", "rebalance")
            self.assertEqual(again["moves"], [])
            writer.wait_for_more_acks(500)

    def test_a_node_whose_disk_is_lost_is_replaced_while_others_are_killed(self):
        chance = random.Random(SEED + 2)
        print(f"SEED={SEED}")
        for round in range(ROUNDS):
            with written_cluster(f"ours-replace-{round}") as (cluster, writer):
                writer.wait_for_more_acks(chance.randrange(2_000, 20_000))
                lost = chance.choice((1, 2, 3))
                old, others = cluster.node(lost), [node for node in cluster.nodes if node is not cluster.node(lost)]
                flags = ("--node-id", str(lost), "--replace")
                new = Node(f"ours-replace-{round}-new", [node.nodes for node in others], flags=flags)
                self.addCleanup(new.kill)
                bootstrap = ",".join(node.bootstrap for node in others)
                self.assert_fails(new, f"node {lost} cannot be replaced: it is alive, so stop it first")
                old.kill()
                nodes = lambda: {node["id"]: node for node in status(bootstrap)["nodes"]}
                wait_until_fenced(bootstrap, lost)
                before = replicas_of(bootstrap)
                # The bound makes it last, so that somebody is killed in the middle.
                bound_copies(bootstrap, 400_000)
                new.start()
                cluster.nodes[lost - 1] = new
                wait_until(lambda: nodes()[lost]["state"] == "active", "the new one serves", deadline_s=DEADLINE_S)
                self.assertEqual(replicas_of(bootstrap), before)
                killed = chance.choice((new, chance.choice(others)))
                time.sleep(chance.random())
                killed.kill()
                if killed is new:
                    writer.wait_for_more_acks(500)
                # With the same command line, as a supervisor starts it.
                killed.start()
                unbound_copies(bootstrap)
                wait_until_in_sync(cluster)
                wait_until(lambda: status(bootstrap)["healthy"], "all is well", deadline_s=DEADLINE_S)
                self.assertEqual([node["out_of_sync"] for node in nodes().values()], [0, 0, 0])
                voters = lambda: [id for id, node in nodes().items() if node["voter"]]
                wait_until(lambda: voters() == [1, 2, 3], "all three vote", deadline_s=DEADLINE_S)
                self.assert_fails(old, f"node {lost} was removed from the cluster")
                writer.wait_for_more_acks(500)

    def test_nobody_is_replaced_who_alone_has_records_or_whom_nobody_knows(self):
        with Cluster("ours-not-replaced", count=3) as cluster:
            create_topics(cluster.bootstrap, NewTopic("single", 3, 1))
            bootstrap = ",".join(cluster.node(number).bootstrap for number in (1, 2))
            wait_until_all_vote(cluster)
            new = lambda number: Node(
                f"ours-not-replaced-{number}-new", [cluster.node(1).nodes], flags=("--node-id", str(number), "--replace")
            )
            self.assert_fails(new(9), "node 9 cannot be replaced: the cluster has no such node")
            cluster.node(3).kill()
            state = lambda: {node["id"]: node["state"] for node in status(bootstrap)["nodes"]}[3]
            wait_until_fenced(bootstrap, 3)
            third = new(3)
            self.addCleanup(third.kill)
            self.assert_fails(third, "node 3 cannot be replaced: Broker 3 alone has all records of 1 partition(s)")
            logway(bootstrap, "cluster", "remove", "3", "--force", "--yes")
            third.start()
            wait_until(lambda: state() == "active", "the new one serves", deadline_s=DEADLINE_S)

    def assert_fails(self, node: Node, reason: str):
        with self.assertRaises(BrokerFailed) as failed:
            node.start()
        self.assertIn(reason, str(failed.exception))

    def test_a_drained_node_leads_nothing_until_it_is_undrained_or_starts_again(self):
        with written_cluster("ours-drain") as (cluster, writer):
            writer.wait_for_more_acks(1_000)
            leads = lambda: sum(it.leader == 2 for it in partitions_of(cluster.bootstrap).values())
            self.assertGreater(leads(), 0)
            drained = logway(cluster.bootstrap, "cluster", "drain", "2")
            self.assertEqual((drained["drained"], drained["leads"]), (True, []))
            self.assertEqual(leads(), 0)
            in_sync = [it.isrs for it in partitions_of(cluster.bootstrap).values()]
            self.assertTrue(all(2 in isrs for isrs in in_sync), in_sync)
            undrained = logway(cluster.bootstrap, "cluster", "undrain", "2")
            self.assertFalse(undrained["drained"])
            wait_until(lambda: leads() > 0, "node 2 leads again", deadline_s=DEADLINE_S)
            logway(cluster.bootstrap, "cluster", "drain", "2")
            cluster.node(2).kill()
            cluster.node(2).start()
            wait_until_in_sync(cluster)
            logway(cluster.bootstrap, "cluster", "rebalance", "--yes")
            logway(cluster.bootstrap, "cluster", "undrain", "2")
            wait_until(lambda: leads() > 0, "node 2 leads again", deadline_s=DEADLINE_S)

    def test_what_has_changed_is_told_also_of_a_node_that_is_dead_and_after_restarts(self):
        with written_cluster("ours-events") as (cluster, writer):
            writer.wait_for_more_acks(500)
            others = ",".join(cluster.node(number).bootstrap for number in (1, 2))
            lines = lambda: [event["text"] for event in logway(others, "cluster", "events")]
            self.assertIn("node 3 has joined the cluster", lines())
            cluster.node(3).kill()
            fenced = "node 3 is not heard any more: others lead what it led, where they can"
            wait_until(lambda: fenced in lines(), "the dead node is told of", deadline_s=DEADLINE_S)
            told = logway(others, "cluster", "events")
            self.assertTrue(all(event["time"] for event in told if event["kind"] == "node_fenced"), told)
            cluster.node(3).start()
            wait_until_in_sync(cluster)
            # One after the other: what a restarted node has no time of, another one knows.
            for number in (1, 2):
                cluster.node(number).kill()
                cluster.node(number).start()
                wait_until_in_sync(cluster)
            self.assertIn(fenced, lines())

    def test_a_move_that_somebody_else_cancels_is_not_taken_for_done(self):
        with written_cluster("ours-cancelled-move", partitions=1, count=4) as (cluster, writer):
            logway(cluster.bootstrap, "cluster", "move", TOPIC, "0", "--to", "1,2,3", "--wait")
            writer.wait_for_more_acks(5_000)
            bound_copies(cluster.bootstrap, 65_536)
            process = spawn(cluster.bootstrap, "cluster", "move", TOPIC, "0", "--to", "1,2,4", "--wait")
            wait_until(lambda: logway(cluster.bootstrap, "cluster", "moves"), "it has begun", deadline_s=DEADLINE_S)
            logway(cluster.bootstrap, "cluster", "moves", "--cancel")
            _, told = process.communicate(timeout=DEADLINE_S)
            self.assertEqual(process.returncode, 1, told)
            self.assertIn("was cancelled by somebody else", told.decode())
            kinds = [event["kind"] for event in logway(cluster.bootstrap, "cluster", "events")]
            self.assertIn("moves_cancelled", kinds)

    def test_topics_of_one_replica_get_three_also_those_of_groups(self):
        with Cluster("ours-factor", count=3) as cluster:
            create_topics(cluster.bootstrap, NewTopic("single", 2, 1))
            create_topics(cluster.bootstrap, NewTopic("other", 1, 1))
            arguments = ("--topic", "single", "--replication-factor", "3")
            logway(cluster.bootstrap, "cluster", "rebalance", *arguments, "--yes", "--wait")
            wait_until_in_sync(cluster, "single", 3)
            self.assertEqual(len(replicas_of(cluster.bootstrap, "other")[0]), 1)
            logway(cluster.bootstrap, "cluster", "rebalance", *arguments[:3], "2", "--yes", "--wait")
            wait_until_in_sync(cluster, "single", 2)

    def test_a_dead_replica_that_stays_holds_no_move_up(self):
        with written_cluster("ours-dead", partitions=2, count=4) as (cluster, writer):
            for number in range(2):
                logway(cluster.bootstrap, "cluster", "move", TOPIC, str(number), "--to", "1,2,3", "--wait")
            writer.wait_for_more_acks(1_000)
            cluster.node(3).kill()
            alive = ",".join(cluster.node(number).bootstrap for number in (1, 2, 4))
            logway(alive, "cluster", "move", TOPIC, "0", "--to", "1,4,3", "--wait")
            logway(alive, "cluster", "move", TOPIC, "1", "--to", "4,2,3", "--wait")
            writer.wait_for_more_acks(500)
            cluster.node(3).start()
            wait_until_in_sync(cluster)
            self.assertEqual(replicas_of(alive), {0: [1, 4, 3], 1: [4, 2, 3]})

    def test_what_was_moved_away_while_a_node_was_down_is_deleted_when_it_is_back(self):
        with written_cluster("ours-away", partitions=1, count=4) as (cluster, writer):
            logway(cluster.bootstrap, "cluster", "move", TOPIC, "0", "--to", "1,2,4", "--wait")
            writer.wait_for_more_acks(1_000)
            cluster.node(4).kill()
            alive = ",".join(cluster.node(number).bootstrap for number in (1, 2, 3))
            logway(alive, "cluster", "move", TOPIC, "0", "--to", "1,2,3", "--wait")
            self.assertTrue(has_log(cluster.node(4), TOPIC, 0))
            cluster.node(4).start()
            assert_no_log(cluster.node(4))
            wait_until_in_sync(cluster)

    def test_a_cancelled_decommission_leaves_everything_where_it_was(self):
        with written_cluster("ours-cancel", count=4) as (cluster, writer):
            writer.wait_for_more_acks(5_000)
            before = replicas_of(cluster.bootstrap)
            bound_copies(cluster.bootstrap, 65_536)
            process = spawn(cluster.bootstrap, "cluster", "decommission", "1", "--yes")
            wait_until(lambda: logway(cluster.bootstrap, "cluster", "moves"), "it has begun", deadline_s=DEADLINE_S)
            process.kill()
            process.wait()
            self.assertTrue(logway(cluster.bootstrap, "cluster", "decommission", "1", "--cancel")["cancelled"])
            self.assertEqual(logway(cluster.bootstrap, "cluster", "moves"), [])
            # What had arrived meanwhile stays there. Each node learns of the end in its own time.
            after = {}

            def is_told() -> bool:
                after.update(replicas_of(cluster.bootstrap))
                return all(len(replicas) == 3 for replicas in after.values())

            wait_until(is_told, "nothing is on its way", deadline_s=DEADLINE_S)
            self.assertTrue(any(after[number] == before[number] and 1 in before[number] for number in before))
            create_topics(cluster.bootstrap, NewTopic("new", 4, 4))
