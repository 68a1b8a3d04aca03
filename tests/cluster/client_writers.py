"""Verifying loads of several clients at once: librdkafka, Java's client and franz-go, each on a topic of its own."""

import struct
import subprocess
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from confluent_kafka.admin import NewTopic
from writer_program import WriterProgram
from written import CLIENT, TWO_IN_SYNC

from harness.apache_kafka import java, need_kafka
from harness.broker import WORK, fresh_directory
from harness.load import DEADLINE_S, NOISE, Writer, create_topics, read
from harness.waiting import wait_until

SOURCES = Path(__file__).resolve().parent / "writers"
BUILT = WORK / "cluster-writers"
PARTITIONS = 4
IN_FLIGHT_MAX = 2_000
ACK = struct.Struct(">iqq")


class ClientWriter(WriterProgram):
    """A program with a client of its own that writes 0, 1, 2, ... to each partition, as `Writer` does.

    `acked[partition]` lists (number, offset) in the order of the acknowledgements.
    """

    def __init__(self, command: list[str], bootstrap: str, topic: str, records_per_second: int):
        self.acked = [[] for _ in range(PARTITIONS)]
        directory = fresh_directory(f"writer-{topic}")
        noise = directory / "noise"
        noise.write_bytes(NOISE)
        numbers = [str(PARTITIONS), str(records_per_second), str(IN_FLIGHT_MAX)]
        super().__init__([*command, bootstrap, topic, *numbers, str(noise)], directory)

    @property
    def errors(self) -> list[str]:
        """What the program has said, if it has ended or a record has failed."""
        said = [line for line in self.log_path.read_text(errors="replace").splitlines() if line.startswith("partition ")]
        ended = self.process.poll()
        return said + ([f"exit code {ended}, see {self.log_path}"] if ended else [])

    def acked_now(self) -> list[list[tuple[int, int]]]:
        """A copy of `acked` that does not grow."""
        return [list(partition) for partition in self.acked]

    def acked_count(self) -> int:
        return sum(map(len, self.acked))

    def take_acks(self, printed: BinaryIO):
        while one := printed.read(ACK.size):
            partition, number, offset = ACK.unpack(one)
            self.acked[partition].append((number, offset))


class Load:
    """What one client writes, and what is found of it."""

    def __init__(self, client: str, topic: str, bootstrap: str, writer):
        self.client, self.topic, self.writer = client, topic, writer
        self._bootstrap = bootstrap
        # The number at each offset, as it was when it was read last.
        self._found = {partition: [] for partition in range(PARTITIONS)}

    def counts(self) -> list[int]:
        """How many records of each partition are acknowledged."""
        return [len(partition) for partition in self.writer.acked]

    def has_more(self, since: list[int], more: int) -> bool:
        """Whether so many records more of each partition are acknowledged than once were."""
        if self.writer.errors:
            raise AssertionError(f"{self.client}: {self.writer.errors[:3]}")
        return all(now >= before + more for now, before in zip(self.counts(), since))

    def verdict(self, from_the_start: bool = False) -> Counter:
        """Compares all that was acknowledged until now with what is there. Reads only what is new, or all of it."""
        acked = self.writer.acked_now()
        starts = {partition: 0 if from_the_start else len(numbers) for partition, numbers in self._found.items()}
        read_now = read(self._bootstrap, self.topic, {partition: (start, None) for partition, start in starts.items()})
        verdict = Counter(acknowledged=sum(map(len, acked)), lost=0, doubled=0, disordered=0, taken_back=0)
        for partition, start in starts.items():
            seen = self._found[partition]
            numbers = seen[:start] + read_now[partition]
            verdict["taken_back"] += sum(old != new for old, new in zip(seen, numbers)) + max(0, len(seen) - len(numbers))
            self._found[partition] = numbers
            # Not `+`, which leaves zeros out.
            verdict.update(judge(acked[partition], numbers))
        return verdict


def judge(acked: list[tuple[int, int]], numbers: list[int]) -> Counter:
    """What is wrong with one partition: `numbers` are those in it, by offset."""
    there = set(numbers)

    def is_lost(number: int, offset: int) -> bool:
        # An acknowledgement of what was there before need not know where.
        if offset < 0:
            return number not in there
        return offset >= len(numbers) or numbers[offset] != number

    return Counter(
        lost=sum(is_lost(number, offset) for number, offset in acked),
        doubled=len(numbers) - len(there),
        disordered=sum(later < earlier for earlier, later in zip(numbers, numbers[1:])),
    )


def wrong(verdict: Counter) -> bool:
    return any(count for what, count in verdict.items() if what not in ("acknowledged", "sent_again"))


def wait_until_all_go_on(loads: list[Load], more: int) -> dict[str, float]:
    """Waits until so many records more of each partition are acknowledged, and says how long that takes each client."""
    began = time.monotonic()
    since = {load.client: load.counts() for load in loads}
    took = {}

    def have_all():
        for load in loads:
            if load.client not in took and load.has_more(since[load.client], more):
                took[load.client] = time.monotonic() - began
        return len(took) == len(loads)

    try:
        wait_until(have_all, "acknowledgements", DEADLINE_S)
    except AssertionError as error:
        now = {load.client: load.counts() for load in loads}
        raise AssertionError(f"{error}: {since} were acknowledged, and now {now}") from error
    return took


@contextmanager
def written_by_all_clients(cluster, records_per_second: int):
    """Gives the loads of the three clients. Behind the block the caller has finished them, or they are killed."""
    java_command, go_command = build_java(), build_go()
    topics = {client: f"kept-{client}" for client in ("librdkafka", "java", "franz-go")}
    create_topics(
        cluster.bootstrap, *[NewTopic(topic, PARTITIONS, 3, config=TWO_IN_SYNC) for topic in topics.values()]
    )

    def program(command: list[str], client: str) -> ClientWriter:
        return ClientWriter(command, cluster.bootstrap, topics[client], records_per_second)

    writers = {
        "librdkafka": Writer(
            cluster.bootstrap,
            topics["librdkafka"],
            PARTITIONS,
            client=CLIENT,
            records_per_second=records_per_second,
        ),
        "java": program(java_command, "java"),
        "franz-go": program(go_command, "franz-go"),
    }
    with ExitStack() as stack:
        for writer in writers.values():
            stack.enter_context(writer)
        yield [Load(client, topics[client], cluster.bootstrap, writer) for client, writer in writers.items()]


def build_java() -> list[str]:
    libs = need_kafka()
    classes = BUILT / "java"
    classes.mkdir(parents=True, exist_ok=True)
    options = ["-Xlint:all", "-Werror", "-d", str(classes), "-cp", f"{libs}/*"]
    subprocess.run(["javac", *options, str(SOURCES / "java" / "NumberedWriter.java")], check=True)
    small = ["-Xmx128m", "-XX:+UseSerialGC", "-Xshare:auto"]
    return java(f"{classes}:{libs}", "NumberedWriter", [], *small)


def build_go() -> list[str]:
    program = BUILT / "go-writer"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=SOURCES / "go", check=True)
    return [str(program)]


def stopped_acks(loads: list[Load], for_s: float):
    """Waits until no client gets an acknowledgement for so long."""
    last, since = None, time.monotonic()

    def is_still():
        nonlocal last, since
        now = [load.counts() for load in loads]
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > for_s

    wait_until(is_still, f"{for_s} s without an acknowledgement", DEADLINE_S)
