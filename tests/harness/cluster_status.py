"""What `logway cluster status` tells."""

import json
import os
import subprocess

from harness.cluster import Cluster
from harness.logway import BINARY
from harness.waiting import wait_until

DEADLINE_S = 60
MOST_VOTERS = 5


def status(bootstrap: str) -> dict:
    """Also of a cluster that is not healthy, for which the command fails."""
    environment = {**os.environ, "LOGWAY_BROKERS": bootstrap}
    command = [BINARY, "cluster", "status", "--format", "json"]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=DEADLINE_S)
    if not done.stdout:
        raise AssertionError(done.stderr.decode())
    return json.loads(done.stdout)


def wait_until_all_vote(cluster: Cluster):
    """Until then one node that is killed may be the only one that votes. An even number of nodes has a voter less."""
    count = min((len(cluster.nodes) - 1) // 2 * 2 + 1, MOST_VOTERS)
    voters = lambda: [node["id"] for node in status(cluster.bootstrap)["nodes"] if node["voter"]]
    wait_until(lambda: len(voters()) == count, f"{count} voters", deadline_s=DEADLINE_S)
