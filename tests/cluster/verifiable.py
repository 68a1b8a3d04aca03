"""Kafka's own VerifiableProducer and VerifiableConsumer, which print each record as a line of JSON."""

import itertools
import json
from pathlib import Path

from harness.apache_kafka import SMALL_JVM, java, need_kafka
from harness.broker import fresh_directory
from harness.program import LoggedProcess

NUMBERS = itertools.count(1)
PRODUCER = {
    # Without these it gives up what cannot be sent at once, as Kafka's own tests have it.
    "retries": "2147483647",
    "enable.idempotence": "true",
    "reconnect.backoff.max.ms": "200",
    "request.timeout.ms": "2000",
    # So much goes to one partition before the next one has its turn.
    "batch.size": "512",
}


class Verifiable(LoggedProcess):
    """One of the two programs. `events` are those that it has printed so far."""

    def __init__(self, tool: str, bootstrap: str, topic: str, arguments: list[str], config: dict[str, str]):
        directory = fresh_directory(f"{tool}-{topic}-{next(NUMBERS)}")
        super().__init__(directory / "events.log")
        properties = directory / "client.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        where = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(properties)]
        self._command = java(need_kafka(), f"org.apache.kafka.tools.{tool}", [*where, *arguments], *SMALL_JVM)
        self._events: list[dict] = []
        self._read_bytes = 0

    def command(self) -> list[str]:
        return self._command

    def events(self) -> list[dict]:
        """All that it has printed. What is no JSON are warnings of the client."""
        with Path(self.log_path).open("rb") as log:
            log.seek(self._read_bytes)
            whole, _, _ = log.read().rpartition(b"\n")
        if whole:
            self._read_bytes += len(whole) + 1
            self._events += [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]
        return self._events

    def named(self, name: str) -> list[dict]:
        return [event for event in self.events() if event["name"] == name]


def producer(bootstrap: str, topic: str, records_per_second: int) -> Verifiable:
    arguments = ["--throughput", str(records_per_second), "--acks", "-1"]
    return Verifiable("VerifiableProducer", bootstrap, topic, arguments, PRODUCER)


def consumer(
    bootstrap: str,
    topic: str,
    group: str,
    tells_records: bool = True,
    config: dict[str, str] | None = None,
    protocol: str = "classic",
) -> Verifiable:
    of_group = ["--group-id", group, "--group-protocol", protocol]
    arguments = [*of_group, "--reset-policy", "earliest", *(["--verbose"] if tells_records else [])]
    config = {"reconnect.backoff.max.ms": "200", **(config or {})}
    return Verifiable("VerifiableConsumer", bootstrap, topic, arguments, config)
