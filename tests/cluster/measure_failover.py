"""How long nobody takes writes with acks=all for partitions whose leader is gone, beside Apache Kafka.

    PYTHONPATH=tests tests/.work/venv/bin/python tests/cluster/measure_failover.py [--rounds N] [logway] [kafka]

Each round takes the node that leads one partition: killed, stopped in good order, or paused. A raw client asks the other
nodes every few milliseconds who leads, and writes there until a write is acknowledged. So no client's own retries are
measured. Prints the median and the 99th percentile (the largest of less than 100 rounds) in seconds.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("AGAINST", "logway")

from confluent_kafka.admin import NewTopic

from harness.apache_kafka import ApacheKafka, free_addresses
from harness.cluster import Cluster
from harness.load import DEADLINE_S, create_topics
from harness.protocol import METADATA, PRODUCE, Connection, batch_v2, leaders_v1, metadata_v1, produce_error_v3, produce_v3
from written import TWO_IN_SYNC, wait_until_in_sync

TOPIC = "measured"
PARTITIONS = 3
BATCH = batch_v2([b"x" * 100], 1_700_000_000_000)
PAUSE_S = 0.002
TIMEOUT_S = 0.5


class KafkaCluster:
    """Three combined nodes of Apache Kafka."""

    def __init__(self, name: str):
        addresses = free_addresses(6)
        voters = ",".join(f"{number}@{addresses[number + 2]}" for number in (1, 2, 3))
        self.nodes = []
        for number in (1, 2, 3):
            bootstrap, controller = addresses[number - 1], addresses[number + 2]
            settings = {
                "node.id": str(number),
                "listeners": f"PLAINTEXT://{bootstrap},CONTROLLER://{controller}",
                "controller.quorum.voters": voters,
                "offsets.topic.replication.factor": "3",
            }
            node = SmallKafka(f"{name}-{number}", settings)
            node.bootstrap = bootstrap
            self.nodes.append(node)

    def __enter__(self):
        for node in self.nodes:
            node.process = node.spawn()
        deadline = time.monotonic() + 60
        while not all(node.is_ready() for node in self.nodes) and time.monotonic() < deadline:
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.resume()
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def node(self, number: int):
        return self.nodes[number - 1]


class SmallKafka(ApacheKafka):
    def command(self) -> list[str]:
        return ["-Xmx700m" if word == "-Xmx1g" else word for word in super().command()]

    def pause(self):
        self.process.send_signal(19)

    def resume(self):
        self.process.send_signal(18)


def leaders(bootstrap: str) -> list[int] | None:
    try:
        with Connection(bootstrap, TIMEOUT_S) as connection:
            return leaders_v1(connection.request(METADATA, 1, metadata_v1([TOPIC]))).get(TOPIC)
    except (OSError, ValueError):
        return None


def time_until_written(cluster, partition: int, gone: int) -> float:
    """From now until another node has acknowledged a write to a partition."""
    began = time.monotonic()
    others = [number for number in (1, 2, 3) if number != gone]
    turn = 0
    while time.monotonic() - began < DEADLINE_S:
        turn += 1
        found = leaders(cluster.node(others[turn % 2]).bootstrap)
        leader = found[partition] if found and len(found) > partition else -1
        if leader in others:
            try:
                with Connection(cluster.node(leader).bootstrap, TIMEOUT_S) as connection:
                    request = produce_v3(TOPIC, partition, BATCH)
                    if produce_error_v3(connection.request(PRODUCE, 3, request)) == 0:
                        return time.monotonic() - began
            except (OSError, ValueError):
                pass
        time.sleep(PAUSE_S)
    raise AssertionError(f"no other node took a write within {DEADLINE_S} s")


def measure(cluster, rounds: int):
    create_topics(cluster.bootstrap, NewTopic(TOPIC, PARTITIONS, 3, config=TWO_IN_SYNC))
    for fault in ("kill -9", "stop", "pause"):
        times = []
        for round in range(rounds):
            wait_until_in_sync(cluster, TOPIC)
            time.sleep(0.5)
            partition = round % PARTITIONS
            gone = (leaders(cluster.nodes[0].bootstrap) or [1] * PARTITIONS)[partition]
            node = cluster.node(gone)
            match fault:
                case "kill -9":
                    node.process.kill()
                case "stop":
                    node.process.terminate()
                case "pause":
                    node.pause()
            times.append(time_until_written(cluster, partition, gone))
            match fault:
                case "pause":
                    node.resume()
                case _:
                    node.process.wait(DEADLINE_S)
                    node.process = node.spawn()
                    ready_by = time.monotonic() + DEADLINE_S
                    while not node.is_ready() and time.monotonic() < ready_by:
                        time.sleep(0.05)
        times.sort()
        p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
        print(f"  {fault:8} rounds={rounds} p50={statistics.median(times):.3f} p99={p99:.3f} max={times[-1]:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("kinds", nargs="*", default=["logway", "kafka"])
    options = parser.parse_args()
    for kind in options.kinds:
        print(kind, flush=True)
        with Cluster("measure") if kind == "logway" else KafkaCluster("measure") as cluster:
            measure(cluster, options.rounds)


if __name__ == "__main__":
    main()
