"""Random operations on a cluster, and random faults, under a verifying load: all from a seed.

    PYTHONPATH=tests:tests/cluster:tests/operations tests/.work/venv/bin/python tests/operations/random_operations.py --nodes 9 --minutes 30 --seed 7

Each node is on a host of its own in a network of this process (root). One thread operates: it moves partitions, evens out, drains,
decommissions and lets another node join, replaces, cancels, elects leaders. Meanwhile one fault at a time befalls a node: it is killed,
stopped, paused, its cable is pulled, it and another one do not hear each other, or packets are lost. At the end all is well again, and the
checker looks: every record that was acknowledged is there once, in order, with its bytes; all replicas are in sync and nothing is on its way;
no node has panicked. Ends with 1 if anything is found. Each line is printed when it happens.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter

os.environ.setdefault("AGAINST", "logway")

from confluent_kafka.admin import NewTopic

from harness.cluster import Cluster, Node
from harness.cluster_status import status, wait_until_all_vote
from harness.load import Writer, create_topics
from harness.logway import BINARY
from harness.network import WITHOUT, Network, in_own_network, is_own
from harness.seed import SEED
from harness.waiting import wait_until
from ours import COPY_BOUND
from written import CLIENT, TOPIC, TWO_IN_SYNC

PARTITIONS = 12
RECORDS_PER_SECOND = 1_000
COMMAND_S = 30
# A cluster that is well again has everything in sync after this. Nodes come up and records are acknowledged in this time, too: where they have few
# processors to themselves, nine nodes may look for a leader of the quorum for a minute.
WELL_S = 180
PATIENT = {**CLIENT, "message.timeout.ms": WELL_S * 1_000}


class Found(Exception):
    """Something is wrong."""


class World:
    def __init__(self, network: Network, cluster: Cluster, seed: int):
        self.network, self.cluster = network, cluster
        self.operating, self.failing = random.Random(f"{seed} operations"), random.Random(f"{seed} faults")
        self.began = time.monotonic()
        self.done = Counter()
        # Held while a node is down, or comes and goes for good: one at a time.
        self.taken = threading.Lock()
        self.stopping = threading.Event()
        # Numbers of the nodes of the cluster, by host. A host has the number of its first node.
        self.ids = {host: host for host in network.hosts}

    def say(self, text: str):
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def node(self, host: int) -> Node:
        return self.cluster.nodes[host - 1]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.cluster.nodes if node.is_running())

    def ask(self, *arguments: str):
        """What a command prints; `None` if it failed, as it may while something is wrong."""
        command = [BINARY, *arguments, "--format", "json", "-b", self.bootstrap]
        try:
            done = subprocess.run(command, capture_output=True, timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            return None
        self.done["commands"] += 1
        if done.returncode != 0:
            self.done["commands that failed"] += 1
            return None
        return json.loads(done.stdout)

    # Operations.

    def operate(self):
        operations = [self.move, self.move, self.rebalance, self.drain, self.cancel, self.elect, self.rejoin, self.replace, self.pace]
        while not self.stopping.is_set():
            operation = self.operating.choice(operations)
            operation()
            self.done[operation.__name__] += 1
            self.stopping.wait(self.operating.random() * 3)

    def known(self) -> list[int]:
        return sorted(self.ids.values())

    def move(self):
        partition, to = self.operating.randrange(PARTITIONS), self.operating.sample(self.known(), 3)
        self.say(f"move {TOPIC}-{partition} to {to}")
        self.ask("cluster", "move", TOPIC, str(partition), "--to", ",".join(map(str, to)))

    def rebalance(self):
        self.say("rebalance")
        self.ask("cluster", "rebalance", "--yes")

    def drain(self):
        number = self.operating.choice(self.known())
        self.say(f"drain and undrain {number}")
        self.ask("cluster", "drain", str(number))
        self.stopping.wait(self.operating.random())
        self.ask("cluster", "undrain", str(number))

    def cancel(self):
        self.say("cancel moves")
        self.ask("cluster", "moves", "--cancel")

    def elect(self):
        self.say("preferred leaders lead")
        number = self.operating.choice(self.known())
        self.ask("cluster", "undrain", str(number))

    def pace(self):
        rate = self.operating.choice((65_536, 1_000_000, 67_108_864))
        self.say(f"copy at {rate} bytes/s")
        self.ask("config", "set", "broker", "default", f"{COPY_BOUND}={rate}")

    def rejoin(self):
        """A node is decommissioned, and another one joins on its host."""
        with self.taken:
            host = self.operating.choice(sorted(self.ids))
            number = self.ids[host]
            self.say(f"decommission {number}")
            self.ask("config", "delete", "broker", "default", COPY_BOUND)
            if self.ask("cluster", "decommission", str(number), "--yes") is None:
                self.say(f"{number} stays: it could not be emptied in time")
                self.ask("cluster", "decommission", str(number), "--cancel")
                if number in {node["id"] for node in status(self.bootstrap)["nodes"]}:
                    return
            self.node(host).kill()
            joined = self.begin_on(host)
            self.ids[host] = joined
            self.say(f"{joined} has joined in its place")

    def replace(self):
        """A disk is lost, and an empty node takes its place."""
        with self.taken:
            host = self.operating.choice(sorted(self.ids))
            number = self.ids[host]
            self.say(f"replace {number}")
            old = self.node(host)
            old.kill()
            deadline = time.monotonic() + WELL_S
            while True:
                try:
                    self.begin_on(host, "--node-id", str(number), "--replace")
                    return
                except Exception as error:
                    # While it alone has records of a partition, or others do not agree yet.
                    refused = str(error)
                    if "alone has all records" in refused:
                        self.say(f"{number} is needed and comes back")
                        self.cluster.nodes[host - 1] = old
                        old.start()
                        return
                    if "cannot be replaced" not in refused or time.monotonic() > deadline:
                        raise

    def begin_on(self, host: int, *flags: str) -> int:
        """Starts a node with an empty directory on a host; returns its number."""
        join = [node.nodes for node in self.cluster.nodes if node is not self.node(host)]
        node = Node(f"random-{host}-{time.monotonic_ns()}", join, self.cluster.settings, host, flags=flags)
        node.ready_deadline_s = WELL_S
        self.cluster.nodes[host - 1] = node
        node.start()
        number = int(node.log_since_start().split(" node=")[1].split()[0])
        # From now on it is started as any node.
        node.flags = ()
        return number

    # Faults.

    def fail(self):
        faults = [self.kill, self.kill, self.stop, self.pause, self.unplug, self.part, self.lose]
        while not self.stopping.is_set():
            fault = self.failing.choice(faults)
            with self.taken:
                if self.stopping.is_set():
                    return
                host = self.failing.choice(sorted(self.ids))
                lasts_s = self.failing.choice((0.05, 1, 3)) * (0.5 + self.failing.random())
                self.say(f"{fault.__name__} {self.ids[host]} for {lasts_s:.1f} s")
                fault(host, lasts_s)
            self.done[fault.__name__] += 1
            self.stopping.wait(1 + self.failing.random() * 4)

    def kill(self, host: int, lasts_s: float):
        self.node(host).kill()
        time.sleep(lasts_s)
        self.node(host).start()

    def stop(self, host: int, lasts_s: float):
        self.node(host).stop()
        time.sleep(lasts_s)
        self.node(host).start()

    def pause(self, host: int, lasts_s: float):
        self.node(host).pause()
        time.sleep(lasts_s)
        self.node(host).resume()

    def unplug(self, host: int, lasts_s: float):
        self.network.unplug(host)
        time.sleep(lasts_s)
        self.network.heal()

    def part(self, host: int, lasts_s: float):
        self.network.part(host, self.failing.choice([other for other in self.ids if other != host]))
        time.sleep(lasts_s)
        self.network.heal()

    def lose(self, host: int, lasts_s: float):
        self.network.lose(5)
        time.sleep(lasts_s)
        self.network.heal()

    # The end.

    def check_well(self):
        """All is well again in bounded time."""
        self.ask("config", "delete", "broker", "default", COPY_BOUND)
        for number in self.known():
            self.ask("cluster", "undrain", str(number))
        is_still = lambda: self.ask("cluster", "moves") == []
        wait_until(is_still, "nothing is on its way", deadline_s=WELL_S)
        wait_until(lambda: status(self.bootstrap)["healthy"], "the cluster is healthy", deadline_s=WELL_S)
        found = {node["id"] for node in status(self.bootstrap)["nodes"]}
        if found != set(self.ids.values()):
            raise Found(f"the cluster has the nodes {sorted(found)}, not {self.known()}")
        for node in self.cluster.nodes:
            if "panicked" in node.log_path.read_text(errors="replace"):
                raise Found(f"a node has panicked: {node.log_path}")


def guarded(run, failures: list, stopping: threading.Event) -> threading.Thread:
    def work():
        try:
            run()
        except BaseException as error:
            failures.append(error)
            stopping.set()

    return threading.Thread(target=work)


def live(nodes: int, minutes: float, seed: int) -> Counter:
    """Lives one world; returns what was done in it. Raises what was found."""
    with Network(nodes) as network, Cluster("random", nodes, hosted=True) as cluster:
        for node in cluster.nodes:
            node.ready_deadline_s = WELL_S
        wait_until_all_vote(cluster)
        create_topics(cluster.bootstrap, NewTopic(TOPIC, PARTITIONS, 3, config=TWO_IN_SYNC))
        world, failures = World(network, cluster, seed), []
        with Writer(cluster.bootstrap, TOPIC, PARTITIONS, client=PATIENT, records_per_second=RECORDS_PER_SECOND) as writer:
            threads = [guarded(run, failures, world.stopping) for run in (world.operate, world.fail)]
            for thread in threads:
                thread.start()
            world.stopping.wait(minutes * 60)
            world.stopping.set()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
            world.say("all faults are over")
            world.check_well()
            writer.wait_for_more_acks(500)
            writer.finish()
        writer.bootstrap = cluster.bootstrap
        writer.assert_all_there()
        world.done["records acknowledged"] = writer.acked_count()
        return world.done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=9)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    in_own_network()
    if not is_own():
        print(f"skipped: {WITHOUT}")
        return 0
    print(f"{arguments.nodes} nodes, {arguments.minutes} minutes, SEED={arguments.seed}")
    try:
        done = live(arguments.nodes, arguments.minutes, arguments.seed)
    except Exception as error:
        print(f"FOUND with SEED={arguments.seed}: {type(error).__name__}: {error}")
        return 1
    print("nothing found: " + ", ".join(f"{count} {what}" for what, count in sorted(done.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
