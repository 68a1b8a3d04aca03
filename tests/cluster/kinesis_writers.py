"""Verifying loads of AWS's SDKs, each a program of its own with a stream of its own, and what is found of them.

A program is started with the endpoints of all nodes, a stream, how many records a request has, and a pause in milliseconds. It puts
0, 1, 2, … into the stream until its input ends: one PutRecords after the other, with the SDK's own retries. For each record
that was acknowledged it prints SHARD SEQUENCE-NUMBER NUMBER. Where a request or a record of it has failed, the next request
goes to the next node; what failed is not put again.
"""

import subprocess
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from writer_program import WriterProgram
from written import wait_until_in_sync

from harness.broker import TESTS, WORK, fresh_directory
from harness.cluster_status import wait_until_all_vote
from harness.load import DEADLINE_S
from harness.waiting import wait_until

KINESIS = {"kinesis.listen": "127.0.0.1:0"}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}
SHARDS = 4
BATCH_RECORDS = 20
# A node that does not answer in this time is asked again, or another one.
ANSWER_S = 15


def programs() -> dict[str, list[str]]:
    """The command of each SDK, built."""
    clients = TESTS / "clients"
    python = subprocess.run([TESTS / "harness" / "need", "python"], check=True, capture_output=True, text=True).stdout.strip()
    maven = [TESTS / "harness" / "maven", clients / "kinesis-java" / "pom.xml", "compile"]
    subprocess.run(maven, check=True, stdout=subprocess.DEVNULL)
    node_modules = [TESTS / "harness" / "need", "node-modules", clients / "kinesis-javascript"]
    subprocess.run(node_modules, check=True, stdout=subprocess.DEVNULL)
    go = WORK / "kinesis-go" / "kinesis-go"
    subprocess.run(["go", "build", "-o", go, "."], cwd=clients / "kinesis-go", check=True)
    rust = subprocess.run([clients / "kinesis-rust" / "build.sh"], check=True, capture_output=True, text=True).stdout.strip()
    java = WORK / "kinesis-java"
    small = ["-Xmx128m", "-XX:+UseSerialGC"]
    return {
        "boto3": [python, str(clients / "boto3" / "write.py")],
        "java": ["java", *small, "-cp", f"{java}/classes:{java}/libs/*", "io.logway.kinesis.Write"],
        "javascript": ["node", str(clients / "kinesis-javascript" / "write.mjs")],
        "go": [str(go), "write"],
        "rust": [rust, "write"],
    }


class StreamWriter(WriterProgram):
    """One program. `acked[shard]` lists (sequence number, number) in the order of the acknowledgements."""

    def __init__(self, command: list[str], endpoints: list[str], stream: str, records_per_second: int):
        self.acked: dict[str, list[tuple[int, int]]] = {shard_id(number): [] for number in range(SHARDS)}
        pause_ms = 1_000 * BATCH_RECORDS // records_per_second
        command = [*command, ",".join(endpoints), stream, str(BATCH_RECORDS), str(pause_ms)]
        super().__init__(command, fresh_directory(f"writer-{stream}"), CREDENTIALS)

    @property
    def errors(self) -> list[str]:
        """That the program has ended, if it has. Requests that failed are none: there are some while a node is gone."""
        ended = self.process.poll()
        return [] if ended is None else [f"exit code {ended}, see {self.log_path}"]

    def take_acks(self, printed: BinaryIO):
        for line in map(bytes.decode, printed):
            # The last one of a program that was killed may be cut.
            if line.endswith("\n"):
                shard, sequence, number = line.split()
                self.acked[shard].append((int(sequence), int(number)))


class StreamLoad:
    """What one SDK writes, and what is found of it; for `kill_rounds` the same as `client_writers.Load`."""

    def __init__(self, client: str, stream: str, cluster, writer: StreamWriter):
        self.client, self.topic, self.writer = client, stream, writer
        self._cluster = cluster
        # What was read of each shard, in its order.
        self._found: dict[str, list[tuple[int, int]]] = {shard: [] for shard in writer.acked}

    def counts(self) -> list[int]:
        return [len(shard) for shard in self.writer.acked.values()]

    def has_more(self, since: list[int], more: int) -> bool:
        if self.writer.errors:
            raise AssertionError(f"{self.client}: {self.writer.errors[0]}")
        return all(now >= before + more for now, before in zip(self.counts(), since))

    def verdict(self, from_the_start: bool = False) -> Counter:
        """Compares all that was acknowledged until now with what is there. Reads only what is new, or all of it."""
        acked = {shard: list(records) for shard, records in self.writer.acked.items()}
        kept, self._found = self._found, {}
        verdict = Counter(acknowledged=sum(map(len, acked.values())), lost=0, disordered=0, taken_back=0, sent_again=0)
        for number, (shard, seen) in enumerate(kept.items()):
            before = [] if from_the_start else seen
            # Each node answers for each shard.
            kinesis = client_at(self._cluster.nodes[number % len(self._cluster.nodes)])
            found = before + read_behind(kinesis, self.topic, shard, before[-1][0] if before else None)
            verdict["taken_back"] += sum(old != new for old, new in zip(seen, found)) + max(0, len(seen) - len(found))
            self._found[shard] = found
            verdict.update(judge_shard(acked[shard], found))
        return verdict


def judge_shard(acked: list[tuple[int, int]], found: list[tuple[int, int]]) -> Counter:
    """What is wrong with one shard, by (sequence number, number). Sequence numbers have to rise, read or acknowledged."""
    there = set(found)

    def fallen(records: list[tuple[int, int]]) -> int:
        return sum(later[0] <= earlier[0] for earlier, later in zip(records, records[1:]))

    return Counter(
        lost=sum(record not in there for record in acked),
        disordered=fallen(found) + fallen(acked),
        sent_again=len(found) - len({number for _, number in found}),
    )


def shard_id(number: int) -> str:
    return f"shardId-{number:012}"


def client_at(node):
    retries = {"total_max_attempts": 5, "mode": "standard"}
    settings = Config(retries=retries, read_timeout=ANSWER_S, connect_timeout=ANSWER_S)
    return boto3.client(
        "kinesis",
        endpoint_url=f"http://{node.kinesis}",
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=settings,
    )


def read_behind(kinesis, stream: str, shard: str, sequence: int | None) -> list[tuple[int, int]]:
    """All records of a shard behind one, up to its end as it is now."""
    start = {"ShardIteratorType": "TRIM_HORIZON"}
    if sequence is not None:
        start = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": str(sequence)}
    iterator = kinesis.get_shard_iterator(StreamName=stream, ShardId=shard, **start)["ShardIterator"]
    records = []
    while True:
        answer = kinesis.get_records(ShardIterator=iterator)
        records += [(int(it["SequenceNumber"]), int(it["Data"])) for it in answer["Records"]]
        iterator = answer["NextShardIterator"]
        if answer["MillisBehindLatest"] == 0:
            return records


@contextmanager
def written_by_all_sdks(cluster, records_per_second: int):
    """Gives the loads of the SDKs. Behind the block the caller has finished them, or they are killed."""
    commands = programs()
    wait_until_all_vote(cluster)
    kinesis = client_at(cluster.nodes[0])
    endpoints = [f"http://{node.kinesis}" for node in cluster.nodes]
    with ExitStack() as stack:
        loads = []
        for client, command in commands.items():
            stream = f"kept-{client}"
            kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
            wait_until(lambda: all(is_known(node, stream) for node in cluster.nodes), f"{stream} on all nodes", DEADLINE_S)
            wait_until_in_sync(cluster, stream)
            writer = StreamWriter(command, endpoints, stream, records_per_second)
            loads.append(StreamLoad(client, stream, cluster, stack.enter_context(writer)))
        yield loads


def is_known(node, stream: str) -> bool:
    try:
        summary = client_at(node).describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    except (BotoCoreError, ClientError):
        return False
    return summary["StreamStatus"] == "ACTIVE" and summary["OpenShardCount"] == SHARDS
