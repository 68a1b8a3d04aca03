"""Kafka's own tools move partitions, elect leaders, describe the quorum and compare replicas, unchanged."""

import time
import unittest

from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S, QUIET, admin_client, create_topics
from harness.waiting import wait_until
from ours import logway
from tools import elect_leaders, generated, plan_of, reassign, tool, verified_replicas
from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

def partitions_of(bootstrap: str, topic: str = TOPIC) -> dict:
    return admin_client(bootstrap).list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions


def replicas_of(bootstrap: str, topic: str = TOPIC) -> dict[int, list[int]]:
    return {number: partition.replicas for number, partition in partitions_of(bootstrap, topic).items()}


def wait_until_moved(bootstrap: str, plan: dict):
    def is_done() -> bool:
        said = reassign(bootstrap, "--verify", plan=plan)
        return "still in progress" not in said and said.count("is completed") == len(plan["partitions"])

    wait_until(is_done, "what is moved has arrived", deadline_s=DEADLINE_S)


def throttles(bootstrap: str, kind: ConfigResource.Type, name: str) -> dict[str, str]:
    """What is set that throttles something."""
    resource = ConfigResource(kind, name)
    # Held until it has answered: what it was asked ends with it.
    admin = admin_client(bootstrap)
    entries = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    own = {key: entry.value for key, entry in entries.items() if "throttled" in key and not entry.is_default}
    return {key: value for key, value in own.items() if value}


def has_log(node, topic: str, partition: int) -> bool:
    return (node.data_dir / f"{topic}-{partition}").exists()


class Tools(unittest.TestCase):
    def test_what_the_tool_plans_is_moved_under_load(self):
        with written_cluster("tools-move", count=4) as (cluster, writer):
            writer.wait_for_more_acks(10_000)
            plan = generated(cluster.bootstrap, [TOPIC], [2, 3, 4])
            wanted = {one["partition"]: one["replicas"] for one in plan["partitions"]}
            said = reassign(cluster.bootstrap, "--execute", "--throttle", "20000000", plan=plan)
            self.assertIn("Successfully started partition reassignments", said)
            wait_until_moved(cluster.bootstrap, plan)
            self.assertEqual(replicas_of(cluster.bootstrap), wanted)
            # What the tool has set, it has taken back.
            self.assertEqual(throttles(cluster.bootstrap, ConfigResource.Type.TOPIC, TOPIC), {})
            self.assertEqual(throttles(cluster.node(2).bootstrap, ConfigResource.Type.BROKER, "2"), {})
            writer.wait_for_more_acks(1_000)
            gone = lambda: not any(has_log(cluster.node(1), TOPIC, number) for number in range(PARTITIONS))
            wait_until(gone, "node 1 has none of the topic's logs", deadline_s=DEADLINE_S)

    def test_a_throttled_move_is_slow_is_listed_and_leaves_nothing_when_it_is_cancelled(self):
        with Cluster("tools-throttle", count=3) as cluster:
            create_topics(cluster.bootstrap, NewTopic("slow", 1, replica_assignment=[[1, 2]]))
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET})
            for _ in range(80):
                producer.produce("slow", bytes(100_000), partition=0)
            self.assertEqual(producer.flush(DEADLINE_S), 0)
            plan = plan_of("slow", {0: [3, 2]})
            reassign(cluster.bootstrap, "--execute", "--throttle", "400000", plan=plan)
            began = time.monotonic()
            self.assertIn("still in progress", reassign(cluster.bootstrap, "--verify", plan=plan))
            listed = reassign(cluster.bootstrap, "--list")
            self.assertIn("slow-0: replicas: 3,2,1. adding: 3. removing: 1.", listed)
            self.assertEqual(replicas_of(cluster.bootstrap, "slow"), {0: [3, 2, 1]})
            copied = sum(path.stat().st_size for path in (cluster.node(3).data_dir / "slow-0").glob("*.log"))
            bound = 400_000 * (time.monotonic() - began + 5) + 1_500_000
            self.assertLess(copied, bound, "it goes no faster than the throttle")
            reassign(cluster.bootstrap, "--cancel", plan=plan)
            self.assertEqual(replicas_of(cluster.bootstrap, "slow"), {0: [1, 2]})
            wait_until(lambda: not has_log(cluster.node(3), "slow", 0), "the copy is gone", deadline_s=DEADLINE_S)

    def test_a_dead_broker_is_replaced_and_one_that_dies_meanwhile_is_put_back(self):
        with written_cluster("tools-dead", count=4) as (cluster, writer):
            writer.wait_for_more_acks(2_000)
            for number in range(PARTITIONS):
                logway(cluster.bootstrap, "cluster", "move", TOPIC, str(number), "--to", "1,2,3", "--wait")
            cluster.node(3).kill()
            alive = [cluster.node(number) for number in (1, 2, 4)]
            bootstrap = ",".join(node.bootstrap for node in alive)
            is_known = lambda: all(3 not in it.isrs for it in partitions_of(bootstrap).values())
            wait_until(is_known, "it is known to be dead", deadline_s=DEADLINE_S)
            wanted = {number: [1, 2, 4] for number in range(PARTITIONS)}
            plan = generated(bootstrap, [TOPIC], [1, 2, 4])
            self.assertEqual({one["partition"]: sorted(one["replicas"]) for one in plan["partitions"]}, wanted)
            reassign(bootstrap, "--execute", plan=plan)
            wait_until_moved(bootstrap, plan)
            moved = {one["partition"]: one["replicas"] for one in plan["partitions"]}
            self.assertEqual(replicas_of(bootstrap), moved)
            writer.wait_for_more_acks(500)
            # The tool names no broker that is dead when it begins.
            back = plan_of(TOPIC, {number: [1, 2, 3] for number in range(PARTITIONS)})
            self.assertIn("Unknown broker id 3", reassign(bootstrap, "--execute", plan=back, fails=True))

            cluster.node(3).start()
            serves = lambda: 3 in admin_client(bootstrap).list_topics(timeout=DEADLINE_S).brokers
            wait_until(serves, "it is back", deadline_s=DEADLINE_S)
            reassign(bootstrap, "--execute", "--throttle", "1", plan=back)
            cluster.node(3).kill()
            self.assertIn("still in progress", reassign(bootstrap, "--verify", plan=back))
            self.assertIn("adding: 3. removing: 4.", reassign(bootstrap, "--list"))
            reassign(bootstrap, "--cancel", "--preserve-throttles", plan=back)
            self.assertEqual(replicas_of(bootstrap), moved)
            self.assertIn("No partition reassignments found.", reassign(bootstrap, "--list"))
            writer.wait_for_more_acks(500)
            cluster.node(3).start()

    def test_the_quorum_is_described(self):
        with Cluster("tools-quorum") as cluster:
            wait_until_all_vote(cluster)
            said = tool(cluster.bootstrap, "MetadataQuorumCommand", "describe", "--status")
            told = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
            self.assertIn(int(told["LeaderId"]), (1, 2, 3))
            self.assertGreater(int(told["HighWatermark"]), 0)
            for number in (1, 2, 3):
                self.assertIn(f'"id": {number},', told["CurrentVoters"])
            said = tool(cluster.bootstrap, "MetadataQuorumCommand", "describe", "--replication", "--human-readable")
            self.assertEqual(said.count("Follower"), 2)
            self.assertEqual(said.count("Leader"), 1 + said.splitlines()[0].count("Leader"))

    def test_all_replicas_have_the_same(self):
        with written_cluster("tools-same") as (cluster, writer):
            writer.wait_for_more_acks(5_000)
            writer.finish()
            wait_until_in_sync(cluster)
            said = verified_replicas(cluster.bootstrap, TOPIC, reports=4)
            self.assertIn("verification process is started", said)
            last = [line for line in said.splitlines() if "max lag is" in line][-1]
            self.assertIn("max lag is 0 for partition", last)
            self.assertIn(f"among {PARTITIONS} partitions", last)
            for wrong in ("doesn't match", "unmatched checksum", "Error in processing", "but expected"):
                self.assertNotIn(wrong, said)

    def test_preferred_leaders_lead_again_and_unclean_ones_when_asked_for(self):
        with Cluster("tools-elect", settings={"auto.leader.rebalance.enable": "false"}) as cluster:
            wait_until_all_vote(cluster)
            create_topics(cluster.bootstrap, NewTopic("led", 2, replica_assignment=[[1, 2], [2, 1]]))
            asked = cluster.node(3).bootstrap

            def wait_for_leaders(*wanted: int):
                leaders = lambda: [it.leader for _, it in sorted(partitions_of(asked, "led").items())]
                wait_until(lambda: leaders() == list(wanted), f"{wanted} lead", deadline_s=DEADLINE_S)

            cluster.node(1).kill()
            wait_for_leaders(2, 2)
            cluster.node(1).start()
            in_sync = lambda: all(len(it.isrs) == 2 for it in partitions_of(asked, "led").values())
            wait_until(in_sync, "both are in sync", deadline_s=DEADLINE_S)
            wait_for_leaders(2, 2)
            said = elect_leaders(cluster.bootstrap, "preferred", "--all-topic-partitions")
            self.assertIn("led-0", said)
            wait_for_leaders(1, 2)

            cluster.node(2).kill()
            wait_for_leaders(1, 1)
            # Two of three are gone, and nothing is decided until node 2 is back, which is not in sync.
            cluster.node(1).kill()
            cluster.node(2).start()
            wait_for_leaders(-1, -1)
            elect_leaders(f"{asked},{cluster.node(2).bootstrap}", "unclean", "--topic", "led", "--partition", "0")
            wait_for_leaders(2, -1)
