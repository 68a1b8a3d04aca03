"""Flink's sink writes exactly once, on three nodes: nodes and the job are killed, which goes on from its newest checkpoint.

    KILLS   how often something is killed (4)
    SEED    repeats what chance chose
"""

import os
import unittest
from collections import Counter
from pathlib import Path

from job import UPPER_CASE

from harness.cluster import Cluster
from harness.exactly_once import PARTITIONS, Application, outlive_kills
from harness.program import Program

SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2"}


class Job(Application):
    """Its output is each line in upper case."""

    name, sources, target = "flink-exact", ("exact-in",), "exact-out"

    def __init__(self, scratch: Path, bootstrap: str):
        checkpoints = scratch / "checkpoints"
        checkpoints.mkdir()
        arguments = [bootstrap, self.name, *self.sources, self.target, str(checkpoints)]
        super().__init__(bootstrap, [Program([*UPPER_CASE, *arguments], scratch / "log")])

    def record(self, source: str, number: int) -> dict:
        return {"value": f"line {number}", "partition": number % PARTITIONS}

    def wanted(self) -> Counter:
        return Counter(f"LINE {number}" for number in range(self.sent))


@unittest.skipUnless(os.environ.get("AGAINST", "logway") == "logway", "a cluster of ours")
class ExactlyOnce(unittest.TestCase):
    def test_a_topic_is_copied_exactly_once(self):
        cluster = Cluster("flink-exact", settings=SETTINGS)
        outlive_kills(self, cluster, lambda scratch, bootstrap: [Job(scratch, bootstrap)])
