"""A cluster is upgraded node by node under a verifying load, goes back, and forward again.

OLD_LOGWAY is the program of an older version, as built from an earlier commit:

    git worktree add /tmp/old COMMIT && cargo build --release -p logway --manifest-path /tmp/old/Cargo.toml
    OLD_LOGWAY=/tmp/old/target/release/logway tests/operations/run.sh test_upgrade.py

NODES=N has so many nodes, at least 3. Prints how long each way took, and the p99 of acknowledgements before and meanwhile.
"""

import hashlib
import itertools
import os
import random
import subprocess
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import NewTopic

from harness.broker import BrokerFailed
from harness.cluster import Cluster, Node
from harness.cluster_status import status, wait_until_all_vote
from harness.load import DEADLINE_S, create_topics
from harness.logway import BINARY
from harness.seed import SEED
from harness.waiting import wait_until
from ours import logway
from test_tools import replicas_of
from written import PARTITIONS, TOPIC, wait_until_in_sync, written_cluster

OLD = os.environ.get("OLD_LOGWAY")
WITHOUT_OLD = "OLD_LOGWAY does not name the program of an older version"
NODES = int(os.environ.get("NODES", "3"))
RECORDS_PER_SECOND = 2_000


def roll(cluster: Cluster, binary: str, then: Callable[[int], None] = lambda number: None):
    """One node after the other is stopped in good order and started as another version. `then` has the number of each that has just started."""
    for number, node in enumerate(cluster.nodes, 1):
        others = ",".join(other.bootstrap for other in cluster.nodes if other is not node)
        safe = lambda: {it["id"]: it["safe_to_stop"] for it in status(others)["nodes"]}[number]
        wait_until(safe, f"node {number} is safe to stop", deadline_s=DEADLINE_S)
        node.stop()
        node.binary = binary
        node.start()
        then(number)
        wait_until_in_sync(cluster)


def way(binary: str) -> str:
    return "forward" if binary == BINARY else "back"


def version(binary: str) -> str:
    return subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def tree(directory: Path) -> dict[str, tuple[str, int]]:
    """Every file with its digest and the time of its last change."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


@unittest.skipUnless(OLD, WITHOUT_OLD)
class Upgrade(unittest.TestCase):
    def test_forward_and_back_and_forward_again(self):
        print(f"from {version(OLD)} to {version(BINARY)}")
        with written_cluster("upgrade", binary=OLD, count=NODES) as (cluster, writer):
            for binary in (BINARY, OLD, BINARY):
                writer.wait_for_more_acks(2_000)
                began = time.monotonic()
                roll(cluster, binary)
                print(f"{way(binary)} in {time.monotonic() - began:.1f} s")
                # Whoever leads now takes changes of all.
                create_topics(cluster.bootstrap, NewTopic(f"at-{time.time_ns()}", 2, 3))
            writer.wait_for_more_acks(2_000)

    def test_a_node_is_killed_at_each_step_forward_and_back(self):
        """It is the one that has just changed, the controller and another one, in turn."""
        chance = random.Random(f"{SEED} upgrade")
        with written_cluster("upgrade-kill", binary=OLD, count=NODES, records_per_second=RECORDS_PER_SECOND) as (cluster, writer):

            def kill_one(changed: int):
                controller = status(cluster.bootstrap)["controller"]
                bystander = next(number for number in range(1, NODES + 1) if number not in (changed, controller))
                victims.append(next(kinds))
                killed = cluster.node({"changed": changed, "controller": controller, "bystander": bystander}[victims[-1]])
                time.sleep(chance.random())
                killed.kill()
                time.sleep(chance.random())
                killed.start()

            kinds = itertools.cycle(("changed", "controller", "bystander"))
            for binary in (BINARY, OLD, BINARY):
                victims = []
                before = time.monotonic()
                writer.wait_for_more_acks(2 * RECORDS_PER_SECOND)
                began = time.monotonic()
                roll(cluster, binary, then=kill_one)
                done = time.monotonic()
                writer.wait_for_more_acks(500)
                p99 = writer.p99_ms(before, began), writer.p99_ms(began, done)
                print(f"{way(binary)}, {', '.join(victims)} killed: {done - began:.1f} s; p99 of acks {p99[0]:.0f} ms before, {p99[1]:.0f} ms meanwhile")

    def test_nodes_of_both_versions_join_each_other_and_partitions_move_between_them(self):
        with written_cluster("upgrade-mixed", binary=OLD) as (cluster, writer):
            for number, binary in ((4, BINARY), (5, OLD)):
                node = Node(f"upgrade-mixed-{number}", [other.nodes for other in cluster.nodes])
                node.binary = binary
                self.addCleanup(node.kill)
                node.start()
                cluster.nodes.append(node)
            wait_until_all_vote(cluster)
            writer.wait_for_more_acks(1_000)
            # A new one leads what old ones follow, and the other way round.
            for partition, replicas in ((0, "4,5,1"), (1, "5,4,2"), (2, "4,2,3")):
                logway(cluster.bootstrap, "cluster", "move", TOPIC, str(partition), "--to", replicas, "--wait")
            logway(cluster.bootstrap, "config", "set", "broker", "default", "log.retention.ms=86400000")
            writer.wait_for_more_acks(1_000)
            # The new one is the controller when all old ones but two are gone for a moment.
            for number in (1, 2, 3, 5):
                cluster.node(number).kill()
                writer.wait_for_more_acks(200)
                cluster.node(number).start()
                wait_until_in_sync(cluster)
            self.assertEqual(sorted(replicas_of(cluster.bootstrap)[0]), [1, 4, 5])
            roll(cluster, BINARY)
            writer.wait_for_more_acks(1_000)


class NewerDirectory(unittest.TestCase):
    def test_a_directory_of_a_newer_version_is_refused_by_a_sentence_and_not_touched(self):
        with Cluster("upgrade-newer", 1) as cluster:
            node = cluster.node(1)
            create_topics(node.bootstrap, NewTopic(TOPIC, PARTITIONS, 1))
            node.stop()
            properties = node.data_dir / "meta.properties"
            properties.write_text(properties.read_text().replace("version=1\n", "version=2\n"))
            before = tree(node.data_dir)
            for binary in filter(None, (BINARY, OLD)):
                node.binary = binary
                with self.assertRaises(BrokerFailed) as failed:
                    node.start()
                self.assertEqual(node.process.returncode, 1)
                self.assertIn(f"{properties}", str(failed.exception))
                self.assertIn("unknown version '2'", str(failed.exception))
                if binary == BINARY:
                    self.assertIn("hint: a newer version of Logway has written it", str(failed.exception))
                self.assertEqual(tree(node.data_dir), before)
