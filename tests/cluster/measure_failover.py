"""How long nobody takes writes with acks=all for partitions whose leader is gone, beside Apache Kafka.

    PYTHONPATH=tests tests/.work/venv/bin/python tests/cluster/measure_failover.py --rounds 50 --kafka-rounds 25

Each round takes the node that leads one partition: killed, paused (SIGSTOP), its cable cut, or stopped in good order. A
raw client asks the other nodes every few milliseconds who leads, and writes there until a write is acknowledged. So no
client's own retries are measured. Both clusters are up all the time, each on three hosts of one network, and have their
turns one after the other. Prints p50, p99 and the largest in seconds; of less than 100 rounds, p99 is the largest.

With --results FILE each measurement is a line of JSON in it. A run with the same file goes on where the last one was, so
--minutes can bound each. The cable needs network namespaces (root); without them it is left out.
"""

import argparse
import json
import os
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("AGAINST", "logway")

from confluent_kafka.admin import NewTopic
from written import TWO_IN_SYNC, wait_until_in_sync

from harness.apache_kafka import KafkaCluster, need_kafka
from harness.cluster import Cluster
from harness.load import DEADLINE_S, create_topics
from harness.network import WITHOUT, Network, in_own_network, is_own
from harness.protocol import METADATA, PRODUCE, Connection, batch_v2, leaders_v1, metadata_v1, produce_error_v3, produce_v3

TOPIC = "measured"
PARTITIONS = 3
BATCH = batch_v2([b"x" * 100], 1_700_000_000_000)
PAUSE_S = 0.002
TIMEOUT_S = 0.5
FAULTS = ("kill -9", "SIGSTOP", "cable", "clean stop")
KINDS = ("logway", "kafka")
# Where the hosts of each cluster begin.
FIRST_HOST = {"logway": 1, "kafka": 4}


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


class Measured:
    """One cluster, and what it is measured with."""

    def __init__(self, kind: str, cluster, network: Network | None):
        self.kind, self.cluster, self._network = kind, cluster, network
        self._turn = 0
        create_topics(cluster.bootstrap, NewTopic(TOPIC, PARTITIONS, 3, config=TWO_IN_SYNC))

    def round(self, fault: str) -> float:
        """Takes the leader of a partition, and says how long nobody took writes for it."""
        wait_until_in_sync(self.cluster, TOPIC)
        partition, self._turn = self._turn % PARTITIONS, self._turn + 1
        gone = leaders(self.cluster.nodes[0].bootstrap)[partition]
        node, host = self.cluster.node(gone), FIRST_HOST[self.kind] + gone - 1
        match fault:
            case "kill -9":
                node.process.kill()
            case "SIGSTOP":
                node.pause()
            case "cable":
                self._network.unplug(host)
            case "clean stop":
                node.process.terminate()
        took_s = time_until_written(self.cluster, partition, gone)
        match fault:
            case "SIGSTOP":
                node.resume()
            case "cable":
                self._network.plug(host)
            case _:
                node.process.wait(DEADLINE_S)
                node.start()
        return took_s


def measure(measured: list[Measured], faults: list[str], options) -> list[dict]:
    """Round after round, each cluster and fault in turn; those that the file has already are left out."""
    results = read_results(options.results)
    began = time.monotonic()
    for number in range(1, options.rounds + 1):
        wanted = {"logway": number, "kafka": number * options.kafka_rounds // options.rounds}
        for one in measured:
            for fault in faults:
                if len(times_of(results, one.kind, fault)) >= wanted[one.kind]:
                    continue
                if options.minutes and time.monotonic() - began > options.minutes * 60:
                    return results
                result = {"kind": one.kind, "fault": fault, "seconds": round(one.round(fault), 4)}
                results.append(result)
                if options.results:
                    with options.results.open("a") as file:
                        file.write(json.dumps(result) + "\n")
    return results


def read_results(path: Path | None) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def times_of(results: list[dict], kind: str, fault: str) -> list[float]:
    return sorted(result["seconds"] for result in results if (result["kind"], result["fault"]) == (kind, fault))


def report(results: list[dict]):
    for fault in FAULTS:
        for kind in KINDS:
            if times := times_of(results, kind, fault):
                p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
                figures = f"p50={statistics.median(times):.3f} p99={p99:.3f} max={times[-1]:.3f}"
                print(f"{fault:10} {kind:6} rounds={len(times)} {figures}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--kafka-rounds", type=int, help="of Kafka fewer, which takes ten times as long")
    parser.add_argument("--minutes", type=float, help="ends after so many, at the end of a round")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--faults", nargs="+", default=FAULTS, choices=FAULTS)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--report", action="store_true", help="measures nothing, and prints what the file of results has")
    options = parser.parse_args()
    if options.report:
        return report(read_results(options.results))
    options.kafka_rounds = options.kafka_rounds or options.rounds
    if "kafka" in options.kinds:
        # From a network of one's own nothing can be fetched.
        need_kafka()
    in_own_network()
    faults = [fault for fault in options.faults if fault != "cable" or is_own()]
    if len(faults) < len(options.faults):
        print(f"without the cable: {WITHOUT}")
    with ExitStack() as stack:
        network = stack.enter_context(Network(6)) if is_own() else None
        measured = []
        for kind in options.kinds:
            hosted = network is not None
            kafka_hosts = [FIRST_HOST["kafka"] + index for index in range(3)] if hosted else None
            cluster = Cluster("measure", hosted=hosted) if kind == "logway" else KafkaCluster("measure", kafka_hosts)
            measured.append(Measured(kind, stack.enter_context(cluster), network))
        results = measure(measured, faults, options)
    report(results)


if __name__ == "__main__":
    main()
