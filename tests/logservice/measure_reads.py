"""One reader of one partition, from its start to its end: the log service beside Kafka's clients and `cat`, cached and cold.

Records of 100 B are written once to Logway and to Apache Kafka by Kafka's own producer, in the same batches. Then each reader reads all of
them in turn, round by round. The time is that of a whole process, but for Java's, which tells what it took behind its start.

    python3 tests/logservice/measure_reads.py [--megabytes 1000] [--rounds 3]
    python3 tests/logservice/measure_reads.py --filters        # what a filter spares that passes 1 of 100 records
"""

import argparse
import glob
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from harness.apache_kafka import ApacheKafka, java, need_kafka
from harness.broker import TESTS, Broker
from harness.load import create_topics
from harness.logway import Logway

TOPIC = "read"
RECORD_BYTES = 100
BATCH_BYTES = 64 << 10
DEADLINE_S = 600
HERE = Path(__file__).parent


@dataclass
class Took:
    """What a reader took, and the broker for it."""

    seconds: float
    reader_cpu_s: float
    broker_cpu_s: float
    printed: str


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000, help="of values: 1000")
    parser.add_argument("--rounds", type=int, default=3, help="how often each reader reads: 3")
    parser.add_argument("--filters", action="store_true", help="measure filters instead")
    options = parser.parse_args()
    with Logway("measure-reads", {"logservice.listen": "127.0.0.1:0"}) as ours:
        if options.filters:
            filters(ours, options)
            return
        with ApacheKafka("measure-reads") as kafka:
            reads(ours, kafka, options)


def reads(ours: Logway, kafka: ApacheKafka, options: argparse.Namespace):
    subprocess.run([TESTS / "harness" / "need", "kcat"], check=True, stdout=subprocess.DEVNULL)
    for broker in (ours, kafka):
        write(broker, options.megabytes)
    go, grpc = go_readers(), grpc_reader()
    readers = [("cat", ours, cat(ours)), ("the log service, batches, Go", ours, [grpc, "read", ours.log_service, TOPIC, "batches"]),
               ("the log service, records, Go", ours, [grpc, "read", ours.log_service, TOPIC, "records"])]
    for broker in (ours, kafka):
        readers += [
            ("librdkafka (kcat)", broker, kcat(broker)),
            ("Java", broker, java_reader(broker, options.megabytes)),
            ("franz-go", broker, [go, "franz-go", broker.bootstrap, TOPIC]),
            ("Sarama", broker, [go, "sarama", broker.bootstrap, TOPIC]),
        ]
    print("| reader | of | | MB/s | reader's CPU s/GB | broker's CPU s/GB |\n|---|---|---|---|---|---|")
    for is_cold in (False, True):
        took = {index: [] for index in range(len(readers))}
        for _ in range(options.rounds):
            for index, (_, broker, command) in enumerate(readers):
                prepare(broker, is_cold)
                took[index].append(run(broker, command))
        for index, (name, broker, _) in enumerate(readers):
            row(name, broker.kind, "cold" if is_cold else "cached", took[index], options.megabytes)


def filters(ours: Logway, options: argparse.Namespace):
    """The keys of every hundredth record, and its value's field `n`, are those that are asked for."""
    create_topics(ours.bootstrap, NewTopic(TOPIC, 1, 1))
    producer = Producer({"bootstrap.servers": ours.bootstrap, "linger.ms": 50, "batch.size": BATCH_BYTES,
                         "queue.buffering.max.messages": 1_000_000})
    count = options.megabytes * 1_000_000 // RECORD_BYTES
    filler = "x" * (RECORD_BYTES - len('{"n":00,"f":""}'))
    for number in range(count):
        kind = number % 100
        producer.produce(TOPIC, f'{{"n":{kind:2},"f":"{filler}"}}', key=f"{kind:02}", partition=0)
        producer.poll(0)
    producer.flush()
    grpc = grpc_reader()
    asked = [("all records", ["records"]), ("one key of a hundred", ["key", "42"]),
             ("an expression over JSON that passes one of a hundred", ["expression", "value.n == 42"])]
    took = {name: [] for name, _ in asked}
    for _ in range(options.rounds):
        for name, words in asked:
            prepare(ours, is_cold=False)
            took[name].append(run(ours, [grpc, "read", ours.log_service, TOPIC, *words]))
    print("| read | records | bytes of messages | s | reader's CPU s | broker's CPU s |\n|---|---|---|---|---|---|")
    for name, _ in asked:
        records, _, message_bytes = took[name][0].printed.split()
        figures = [median(took[name], what) for what in ("seconds", "reader_cpu_s", "broker_cpu_s")]
        print(f"| {name} | {records} | {message_bytes} | " + " | ".join(f"{figure:.2f}" for figure in figures) + " |")


def write(broker: Broker, megabytes: int):
    create_topics(broker.bootstrap, NewTopic(TOPIC, 1, 1))
    arguments = ["--topic", TOPIC, "--num-records", str(megabytes * 1_000_000 // RECORD_BYTES), "--record-size", str(RECORD_BYTES),
                 "--throughput", "-1", "--producer-props", f"bootstrap.servers={broker.bootstrap}", f"batch.size={BATCH_BYTES}",
                 "linger.ms=50", "acks=all"]
    command = java(need_kafka(), "org.apache.kafka.tools.ProducerPerformance", arguments, "-Xmx256m")
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)


def segments(broker: Broker) -> list[str]:
    found = sorted(glob.glob(f"{broker.data_dir}/**/{TOPIC}-0/*.log", recursive=True))
    if not found:
        raise SystemExit(f"{broker.data_dir} has no segments of {TOPIC}")
    return found


def prepare(broker: Broker, is_cold: bool):
    """Has all segments in memory, or none."""
    os.sync()
    for path in segments(broker):
        with open(path, "rb") as segment:
            if is_cold:
                os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            else:
                while segment.read(1 << 20):
                    pass


def run(broker: Broker, command: list[str]) -> Took:
    broker_began, began = broker.cpu_s(), time.monotonic()
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")
    seconds, after = time.monotonic() - began, os.times()
    if command[0] == "java":
        seconds = float(done.stdout.splitlines()[-1].split(",")[7]) / 1000
    reader = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(seconds, reader, broker.cpu_s() - broker_began, done.stdout)


def row(name: str, kind: str, state: str, took: list[Took], megabytes: int):
    rate = megabytes / median(took, "seconds")
    reader, broker = (median(took, what) * 1000 / megabytes for what in ("reader_cpu_s", "broker_cpu_s"))
    print(f"| {name} | {kind} | {state} | {rate:.0f} | {reader:.2f} | {broker:.2f} |", flush=True)


def median(took: list[Took], what: str) -> float:
    return statistics.median(getattr(one, what) for one in took)


def cat(broker: Broker) -> list[str]:
    # Through a pipe, as what is read has to come to another process.
    return ["bash", "-c", "cat \"$@\" | dd of=/dev/null bs=1M", "cat", *segments(broker)]


def kcat(broker: Broker) -> list[str]:
    return ["kcat", "-C", "-e", "-q", "-b", broker.bootstrap, "-t", TOPIC, "-p", "0", "-o", "beginning", "-f", "", "-X", "check.crcs=false"]


def java_reader(broker: Broker, megabytes: int) -> list[str]:
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--num-records", str(megabytes * 1_000_000 // RECORD_BYTES),
                 "--hide-header", "--timeout", "60000"]
    return java(need_kafka(), "org.apache.kafka.tools.ConsumerPerformance", arguments, "-Xmx512m")


def go_readers() -> str:
    work = TESTS / ".work" / "logservice" / "readers"
    work.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "go.sum", "main.go"):
        (work / name).write_bytes((HERE / "readers" / name).read_bytes())
    subprocess.run(["go", "build", "-o", "readers", "."], cwd=work, check=True)
    return str(work / "readers")


def grpc_reader() -> str:
    built = subprocess.run([HERE / "go" / "run.sh"], check=True, capture_output=True, text=True).stdout.strip()
    return f"{built}/client"


if __name__ == "__main__":
    main()
