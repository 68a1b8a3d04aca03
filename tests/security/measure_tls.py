"""What producing and fetching through TLS costs the broker, beside Apache Kafka and beside plain text.

    PYTHONPATH=tests:tests/security tests/.work/venv/bin/python tests/security/measure_tls.py --rounds 5

Both brokers are up all the time, and have their turns one after the other, each with a listener of either kind. Clients are
Kafka's own: kafka-producer-perf-test and kafka-consumer-perf-test. Each turn has a new topic of one partition, which is
removed behind it. Logway leaves flushing to the operating system, too, as Kafka does. Prints, by broker, listener and direction, the medians of the client's MB/s and of the seconds of
processor time that the broker took for a GB, and of each pair their ratio.
"""

import argparse
import re
import socket
import ssl
import statistics
import subprocess
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from secure import SecureLogway

from harness.apache_kafka import ApacheKafka, java, need_kafka
from harness.ports import free_addresses
from harness.protocol import parse_address

RECORD_BYTES = 1_000
LISTENERS = ("PLAINTEXT", "SSL")
DEADLINE_S = 600
AS_KAFKA_FLUSHES = {"log.flush.interval.messages": "9223372036854775807"}


class SecureKafka(ApacheKafka):
    """With the certificates of another broker."""

    def __init__(self, name: str, like: SecureLogway):
        plain, tls, controller = free_addresses(3)
        super().__init__(name, {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(like.key),
            "listeners": f"PLAINTEXT://{plain},SSL://{tls},CONTROLLER://{controller}",
            "controller.quorum.voters": f"1@{controller}",
        })
        self.bootstrap, self.addresses = plain, {"PLAINTEXT": plain, "SSL": tls}


def turn(broker, listener: str, authority: Path, records: int, topic: str) -> dict[str, tuple[float, float]]:
    """By direction, the client's MB/s and the broker's CPU seconds for a GB."""
    client = AdminClient({"bootstrap.servers": broker.addresses["PLAINTEXT"]})
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    config = broker.directory / "client.properties"
    tls = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
    config.write_text(tls if listener == "SSL" else "")
    common = ["--bootstrap-server", broker.addresses[listener], "--topic", topic, "--num-records", str(records),
              "--command-config", str(config)]
    produce = ["--record-size", str(RECORD_BYTES), "--throughput", "-1", "--command-property", "batch.size=65536",
               "linger.ms=5", "acks=all"]
    figures = {}
    for direction, tool, words in (("produce", "ProducerPerformance", produce),
                                   ("fetch", "ConsumerPerformance", ["--timeout", "60000"])):
        before_s = broker.cpu_s()
        command = java(need_kafka(), f"org.apache.kafka.tools.{tool}", [*common, *words], "-Xmx512m")
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        if done.returncode != 0:
            raise AssertionError(f"{tool}: {done.stdout}{done.stderr}")
        took_s = broker.cpu_s() - before_s
        figures[direction] = megabytes_a_second(direction, done.stdout, records), took_s / (records * RECORD_BYTES / 1e9)
    client.delete_topics([topic])[topic].result(60)
    return figures


def megabytes_a_second(direction: str, printed: str, records: int) -> float:
    """Kafka's tools say MB and mean MiB; the consumer's is the figure of the fetching alone."""
    if direction == "produce":
        return float(re.findall(r"\(([\d.]+) MB/sec\)", printed)[-1]) * 1.048576
    header, values = (line.split(", ") for line in printed.splitlines()[-2:])
    figures = dict(zip(header, values, strict=True))
    if int(figures["data.consumed.in.nMsg"]) < records:
        raise AssertionError(printed)
    return float(figures["fetch.MB.sec"]) * 1.048576


def agreed(address: str, authority: Path) -> str:
    """What a client and the broker agree on."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    plain = socket.create_connection(parse_address(address), 10)
    with context.wrap_socket(plain) as session:
        return f"{session.version()} {session.cipher()[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warming", type=int, default=4, help="rounds before those, which do not count")
    parser.add_argument("--records", type=int, default=500_000, help="of 1,000 bytes, in each turn")
    options = parser.parse_args()
    figures = {}
    with SecureLogway("measure-tls", AS_KAFKA_FLUSHES) as logway, SecureKafka("measure-tls", logway) as kafka:
        authority = logway.authority.file
        for broker in (logway, kafka):
            print(broker.kind, agreed(broker.addresses["SSL"], authority), flush=True)
        # Kafka's code is compiled meanwhile.
        for round in range(options.warming + options.rounds):
            for listener in LISTENERS:
                for broker in (logway, kafka):
                    told = turn(broker, listener, authority, options.records, f"tls-{listener.lower()}-{round}")
                    for direction, (speed, cpu) in told.items():
                        print(f"round {round}: {broker.kind} {listener} {direction}: {speed:.0f} MB/s, {cpu:.2f} s/GB",
                              flush=True)
                        if round >= options.warming:
                            figures.setdefault((direction, listener, broker.kind), []).append((speed, cpu))
    print("| | Logway MB/s | Kafka MB/s | ratio of pairs | Logway CPU s/GB | Kafka CPU s/GB | ratio of pairs |")
    print("|---|---|---|---|---|---|---|")
    for direction in ("produce", "fetch"):
        for listener in LISTENERS:
            pairs = [zip(*figures[direction, listener, kind], strict=True) for kind in ("logway", "kafka")]
            cells = []
            for ours, theirs in zip(*pairs, strict=True):
                ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
                cells += [f"{statistics.median(ours):.2f}", f"{statistics.median(theirs):.2f}", f"{ratio:.2f}"]
            print(f"| {direction}, {listener} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
