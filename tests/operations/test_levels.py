"""The level of the metadata is finalised, by our command, by Kafka's tool, and by the cluster itself."""

import json
import re
import unittest

from harness.cluster import Cluster, Node
from harness.cluster_status import status
from harness.load import DEADLINE_S
from harness.logway import logway as run_logway
from harness.waiting import wait_until
from ours import logway
from tools import tool

OLDER, NEWEST = 1, 2
AFTER = "logway.auto.finalize.after.ms"


def features(bootstrap: str, *arguments: str, fails: bool = False) -> str:
    """`kafka-features`."""
    return tool(bootstrap, "FeatureCommand", *arguments, fails=fails)


class Levels(unittest.TestCase):
    def setUp(self):
        """Two brokers and a voter, at an older level: it is chosen before another node joins."""
        name = f"levels-{self._testMethodName}"
        self.cluster = Cluster(name, 1)
        self.cluster.__enter__()
        self.addCleanup(self.cluster.kill)
        first = self.cluster.node(1)
        self.assertIn(f"metadata was upgraded to {OLDER}.", features(first.bootstrap, "upgrade", "--feature", f"metadata={OLDER}"))
        second = Node(f"{name}-2", [first.nodes])
        self.voter = Node(f"{name}-3", [first.nodes], flags=("--role", "voter"))
        for node in (second, self.voter):
            self.addCleanup(node.kill)
            node.start()
        self.bootstrap = f"{first.bootstrap},{second.bootstrap}"
        all_vote = lambda: [node["voter"] for node in status(self.bootstrap)["nodes"]] == [True] * 3
        wait_until(all_vote, "all three vote", deadline_s=DEADLINE_S)

    def level(self) -> int:
        return logway(self.bootstrap, "cluster", "finalize")["finalized"]

    def is_finalised(self) -> bool:
        """Finalises it, if nothing stands in the way."""
        done = run_logway("cluster", "finalize", "--yes", "--format", "json", "-b", self.bootstrap)
        return done.returncode == 0 and json.loads(done.stdout)["done"]

    def described(self) -> tuple[int, int]:
        """The newest level that a broker knows, and the one that is finalised."""
        found = re.search(r"^Feature: metadata\s.*SupportedMaxVersion: (\d+)\s+FinalizedVersionLevel: (\d+)\s", features(self.bootstrap, "describe"), re.M)
        return int(found[1]), int(found[2])

    def test_it_is_shown_what_it_costs_and_done_for_good(self):
        shown = logway(self.bootstrap, "cluster", "finalize")
        self.assertEqual((shown["finalized"], shown["level"], shown["done"]), (OLDER, NEWEST, False))
        self.assertEqual(shown["brings"], ["eligible leader replicas (KIP-966)"])
        self.assertIn("no way back", shown["makes_impossible"])
        self.assertEqual(shown["nodes"], [{"id": 1, "newest": NEWEST}, {"id": 2, "newest": NEWEST}])
        self.assertEqual(self.level(), OLDER)

        # The voter reads the metadata, too.
        self.voter.kill()
        refused = run_logway("cluster", "finalize", "--yes", "-b", self.bootstrap)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("node 3 does not tell which levels it knows; it is away", refused.stderr.decode())
        self.voter.start()
        # Others connect to it again in their own time, and say until then that it does not tell.
        wait_until(self.is_finalised, "the voter answers", deadline_s=DEADLINE_S)
        self.assertEqual(self.level(), NEWEST)
        again = logway(self.bootstrap, "cluster", "finalize", "--yes")
        self.assertEqual((again["level"], again["done"]), (NEWEST, False))
        told = [event["text"] for event in logway(self.bootstrap, "cluster", "events")]
        finalised = f"the feature metadata is finalised at level {NEWEST}: nodes that do not know it cannot follow"
        self.assertIn(finalised, told)

    def test_kafkas_tool_upgrades_and_does_not_downgrade(self):
        self.assertEqual(self.described(), (NEWEST, OLDER))
        to = ("--feature", f"metadata={NEWEST}")
        self.assertIn(f"metadata can be upgraded to {NEWEST}.", features(self.bootstrap, "upgrade", *to, "--dry-run"))
        self.assertEqual(self.described(), (NEWEST, OLDER))
        newer = features(self.bootstrap, "upgrade", "--feature", f"metadata={NEWEST + 1}", fails=True)
        self.assertIn(f"this node knows the levels 0 to {NEWEST}", newer)
        both = ("--feature", f"metadata={NEWEST}", "--feature", "nonsense=1")
        self.assertIn("for feature nonsense. This node does not support this feature.", features(self.bootstrap, "upgrade", *both, fails=True))
        self.assertEqual(self.described(), (NEWEST, OLDER), "one that cannot be fails them all")
        self.assertIn(f"metadata was upgraded to {NEWEST}.", features(self.bootstrap, "upgrade", *to))
        self.assertEqual(self.described(), (NEWEST, NEWEST))
        down = ("downgrade", "--feature", f"metadata={OLDER}")
        for arguments in (down, (*down, "--unsafe"), ("disable", "--feature", "metadata", "--unsafe")):
            said = features(self.bootstrap, *arguments, fails=True)
            self.assertIn(f"level {NEWEST} is finalised, and there is no way back from it", said)
        # What Kafka's own release is made of is not ours.
        release = features(self.bootstrap, "upgrade", "--release-version", "4.3-IV0", fails=True)
        self.assertIn("for feature kraft.version. This node does not support this feature.", release)

    def test_it_is_done_by_itself_after_a_time_that_is_set(self):
        logway(self.bootstrap, "config", "set", "broker", "default", f"{AFTER}=1000")
        wait_until(lambda: self.level() == NEWEST, "the level is finalised", deadline_s=DEADLINE_S)
