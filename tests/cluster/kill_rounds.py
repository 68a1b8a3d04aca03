"""Nodes of a cluster of three are killed under a verifying load of librdkafka, Java's client and franz-go at once.

    PYTHONPATH=tests tests/.work/venv/bin/python tests/cluster/kill_rounds.py --rounds 200 --seed 7

Each topic has three replicas, two of which must have a record; producers are idempotent. Three of four rounds kill one
node, the fourth kills two of the three, so that appends stop until one of them is back. Prints one line a round, and at
the end for each client what was acknowledged, and how much of it was lost, doubled, out of order, or shown and taken
back. Ends with 1 if anything was.

With --kinesis the load is PutRecords, by AWS's SDKs. They have no idempotence: what an SDK has sent again may be there twice.
"""

import argparse
import os
import random
import sys
import time

os.environ.setdefault("AGAINST", "logway")

from client_writers import Load, stopped_acks, wait_until_all_go_on, written_by_all_clients, wrong
from kinesis_writers import KINESIS, StreamLoad, written_by_all_sdks
from written import wait_until_in_sync

from harness.cluster import Cluster, Node
from harness.cluster_status import status, wait_until_all_vote
from harness.seed import SEED

STILL_S = 0.5
# Of each partition, so that none is left out.
GOES_ON_RECORDS = 20


class Rounds:
    def __init__(self, cluster: Cluster, loads: list[Load] | list[StreamLoad], seed: int):
        self.cluster, self.loads = cluster, loads
        self.chance = random.Random(seed)
        self.longest_s = {load.client: 0.0 for load in loads}

    def run(self, number: int) -> str:
        """One round; returns what to print of it."""
        wait_until_all_go_on(self.loads, self.chance.randrange(20, 200))
        controller = status(self.cluster.bootstrap)["controller"]
        if number % 4 == 3:
            killed = self.chance.sample(range(1, 4), 2)
            went_on = self.kill_two(killed)
        else:
            killed = [self.chance.randrange(1, 4)]
            went_on = self.kill_one(killed[0])
        began = time.monotonic()
        for load in self.loads:
            wait_until_in_sync(self.cluster, load.topic)
        in_sync_s = time.monotonic() - began
        verdicts = [load.verdict() for load in self.loads]
        bad = [f"{load.client}: {dict(verdict)}" for load, verdict in zip(self.loads, verdicts) if wrong(verdict)]
        if bad:
            raise AssertionError(f"round {number}: {'; '.join(bad)}")
        who = " and ".join(f"{node}{' (controller)' if node == controller else ''}" for node in killed)
        times = ", ".join(f"{client} {seconds:.2f}" for client, seconds in went_on.items())
        acked = sum(verdict["acknowledged"] for verdict in verdicts)
        return f"round {number}: killed {who}; s until acks: {times}; in sync {in_sync_s:.2f} s later; {acked} acknowledged"

    def kill_one(self, number: int) -> dict[str, float]:
        node = self.cluster.node(number)
        node.kill()
        went_on = wait_until_all_go_on(self.loads, GOES_ON_RECORDS)
        for client, seconds in went_on.items():
            self.longest_s[client] = max(self.longest_s[client], seconds)
        node.start()
        return went_on

    def kill_two(self, numbers: list[int]) -> dict[str, float]:
        """Returns the times from when one of them is ready again."""
        nodes = [self.cluster.node(number) for number in numbers]
        for node in nodes:
            node.kill()
        stopped_acks(self.loads, STILL_S)
        begin_together = self.chance.random() < 0.5
        back, last = self.chance.sample(nodes, 2)
        back.begin()
        if begin_together:
            last.begin()
        back.wait_until_ready()
        went_on = wait_until_all_go_on(self.loads, GOES_ON_RECORDS)
        self.start(last, begin_together)
        return went_on

    def start(self, node: Node, is_begun: bool):
        if not is_begun:
            node.begin()
        node.wait_until_ready()


def run_rounds(rounds: int, seed: int, records_per_second: int, name: str = "kill-rounds", is_kinesis: bool = False):
    """Runs and judges them; an AssertionError says what is wrong."""
    print(f"SEED={seed}", flush=True)
    settings, written = (KINESIS, written_by_all_sdks) if is_kinesis else (None, written_by_all_clients)
    with Cluster(name, settings=settings) as cluster, written(cluster, records_per_second) as loads:
        wait_until_all_vote(cluster)
        run = Rounds(cluster, loads, seed)
        for number in range(rounds):
            print(run.run(number), flush=True)
        for load in loads:
            load.writer.finish()
        verdicts = {load.client: load.verdict(from_the_start=True) for load in loads}
        for client, verdict in verdicts.items():
            counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in verdict.items())
            print(f"{client}: {counts}; longest without acks after one kill {run.longest_s[client]:.2f} s", flush=True)
        bad = [client for client, verdict in verdicts.items() if wrong(verdict)]
        if bad:
            raise AssertionError(f"SEED={seed}: something is wrong with what {', '.join(bad)} wrote")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second of each client")
    parser.add_argument("--kinesis", action="store_true", help="PutRecords of AWS's SDKs, and not Kafka's clients")
    options = parser.parse_args()
    try:
        run_rounds(options.rounds, options.seed, options.rate, is_kinesis=options.kinesis)
    except AssertionError as error:
        print(f"FAILED SEED={options.seed}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
