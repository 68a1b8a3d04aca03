"""A source of Kafka Connect writes exactly once (KIP-618), on three nodes: nodes and its two workers are killed.

    KILLS   how often something is killed (4)
    SEED    repeats what chance chose
"""

import json
import os
import unittest
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from harness.apache_kafka import SMALL_JVM, java, need_kafka
from harness.cluster import Cluster
from harness.exactly_once import DEADLINE_S, Application, outlive_kills
from harness.ports import free_addresses
from harness.program import Program
from harness.waiting import wait_until

SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2", "group.initial.rebalance.delay.ms": "0"}


class Worker(Program):
    """One of a distributed cluster of Connect."""

    def __init__(self, directory: Path, bootstrap: str):
        directory.mkdir()
        self.rest = free_addresses(1)[0]
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect-exact",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "offset.storage.partitions": "2",
            "status.storage.topic": "connect-status",
            "status.storage.partitions": "1",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "2000",
            "listeners": f"http://{self.rest}",
            "plugin.discovery": "service_load",
        }
        file = directory / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = java(need_kafka(), "org.apache.kafka.connect.cli.ConnectDistributed", [str(file)], *SMALL_JVM)
        super().__init__(command, directory / "log")

    def begin(self, connector: str, settings: dict[str, str]):
        """Has the cluster run a connector, when the worker answers."""
        request = urllib.request.Request(
            f"http://{self.rest}/connectors/{connector}/config",
            json.dumps(settings).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )

        def is_taken() -> bool:
            self.check()
            try:
                with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                    return answer.status == 201
            except urllib.error.HTTPError as refusal:
                # No worker leads yet, or somebody joins.
                if refusal.code not in (404, 409, 500, 503):
                    raise
                return False
            except OSError:
                return False

        wait_until(is_taken, "the connector to be taken", DEADLINE_S)


class FileSource(Application):
    """Its output is each line of a file."""

    name, sources, target = "connect-exact", (), "lines-of-file"

    def __init__(self, scratch: Path, bootstrap: str):
        self.file = scratch / "source.txt"
        self.file.touch()
        super().__init__(bootstrap, [Worker(scratch / f"worker-{number}", bootstrap) for number in range(2)])

    def start(self):
        super().start()
        settings = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(self.file),
            "topic": self.target,
            "exactly.once.support": "required",
        }
        self.programs[0].begin("lines", settings)

    def send(self, numbers: range):
        with self.file.open("a") as file:
            file.writelines(f"line {number}\n" for number in numbers)

    def wanted(self) -> Counter:
        return Counter(f"line {number}" for number in range(self.sent))


@unittest.skipUnless(os.environ.get("AGAINST", "logway") == "logway", "a cluster of ours")
class ExactlyOnce(unittest.TestCase):
    def test_a_file_is_read_exactly_once(self):
        cluster = Cluster("connect-exact", settings=SETTINGS)
        outlive_kills(self, cluster, lambda scratch, bootstrap: [FileSource(scratch, bootstrap)])
