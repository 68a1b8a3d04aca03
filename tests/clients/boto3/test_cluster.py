"""Any node of a cluster answers for each shard, and nothing acknowledged is lost with one of them."""

import threading
import time
import unittest

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from streams import DEADLINE_S, client

from harness.cluster import Cluster

STREAM = "clicks"

SHARDS = 6


class AnyNode(unittest.TestCase):
    def setUp(self):
        cluster = Cluster("boto3-cluster", settings={"kinesis.listen": "127.0.0.1:0"})
        self.cluster = self.enterContext(cluster)
        self.clients = [client(node) for node in cluster.nodes]

    def create(self):
        self.clients[0].create_stream(StreamName=STREAM, ShardCount=SHARDS)
        for kinesis in self.clients:
            self.until(lambda: self.shards(kinesis), lambda shards: len(shards) == SHARDS)

    def until(self, ask, is_enough):
        """Asks until it is enough; answers that are refused meanwhile are not."""
        ends = time.monotonic() + DEADLINE_S
        while True:
            try:
                answer = ask()
                if is_enough(answer):
                    return answer
                last = answer
            except (ClientError, BotoCoreError) as error:
                last = error
            self.assertLess(time.monotonic(), ends, last)
            time.sleep(0.05)

    def shards(self, kinesis) -> list[str]:
        return [shard["ShardId"] for shard in kinesis.list_shards(StreamName=STREAM)["Shards"]]

    def read_shard(self, kinesis, shard: str) -> list[tuple[int, bytes]]:
        asked = {"StreamName": STREAM, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        iterator, records = kinesis.get_shard_iterator(**asked)["ShardIterator"], []
        while iterator:
            answer = kinesis.get_records(ShardIterator=iterator)
            records += [(int(it["SequenceNumber"]), it["Data"]) for it in answer["Records"]]
            iterator = answer.get("NextShardIterator") if answer["Records"] else None
        return records

    def test_each_node_writes_and_reads_each_shard(self):
        self.create()
        put = []
        for kinesis in self.clients:
            entries = [{"Data": f"{len(put)}-{it}".encode(), "PartitionKey": str(it)} for it in range(200)]
            answer = kinesis.put_records(StreamName=STREAM, Records=entries)
            self.assertEqual(answer["FailedRecordCount"], 0)
            self.assertEqual(len({it["ShardId"] for it in answer["Records"]}), SHARDS)
            put += [entry["Data"] for entry in entries]
        for kinesis in self.clients:
            read = [data for shard in self.shards(kinesis) for _, data in self.read_shard(kinesis, shard)]
            self.assertEqual(sorted(read), sorted(put))
        # An iterator of one node is good at another.
        asked = {"StreamName": STREAM, "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
        iterator = self.clients[0].get_shard_iterator(**asked)["ShardIterator"]
        self.assertTrue(self.clients[1].get_records(ShardIterator=iterator)["Records"])

    def test_a_reshard_is_done_by_the_leaders(self):
        self.create()
        kinesis = self.clients[1]
        kinesis.update_shard_count(StreamName=STREAM, TargetShardCount=2 * SHARDS, ScalingType="UNIFORM_SCALING")
        self.until(
            lambda: kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"],
            lambda summary: summary["StreamStatus"] == "ACTIVE" and summary["OpenShardCount"] == 2 * SHARDS,
        )
        for kinesis in self.clients:
            entries = [{"Data": b"x", "PartitionKey": str(it)} for it in range(100)]
            answer = kinesis.put_records(StreamName=STREAM, Records=entries)
            self.assertEqual(answer["FailedRecordCount"], 0)

    def test_kill_nine_of_a_node_loses_nothing_that_was_acknowledged(self):
        self.create()
        acknowledged, stop = [], threading.Event()

        def write(number: int):
            # As an application does: another node, until one answers.
            own = [
                boto3.client(
                    "kinesis",
                    endpoint_url=f"http://{node.kinesis}",
                    region_name="us-east-1",
                    aws_access_key_id="any",
                    aws_secret_access_key="any",
                    config=Config(retries={"total_max_attempts": 1}, read_timeout=15, connect_timeout=2),
                )
                for node in self.cluster.nodes
            ]
            count = 0
            while not stop.is_set():
                data = f"{number}-{count}".encode()
                try:
                    answer = own[count % len(own)].put_record(StreamName=STREAM, Data=data, PartitionKey=str(count))
                    acknowledged.append((answer["ShardId"], int(answer["SequenceNumber"]), data))
                except (ClientError, BotoCoreError):
                    pass
                count += 1

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        [writer.start() for writer in writers]
        self.until(lambda: len(acknowledged), lambda count: count > 300)
        self.cluster.node(2).kill()
        at = len(acknowledged)
        self.until(lambda: len(acknowledged), lambda count: count > at + 300)
        stop.set()
        [writer.join() for writer in writers]
        kinesis = self.clients[0]
        shards = self.until(lambda: self.shards(kinesis), bool)
        kept = {shard: self.until(lambda: self.read_shard(kinesis, shard), lambda _: True) for shard in shards}
        for shard, records in kept.items():
            numbers = [number for number, _ in records]
            self.assertEqual(numbers, sorted(set(numbers)), shard)
        sets = {shard: set(records) for shard, records in kept.items()}
        lost = [it for it in acknowledged if (it[1], it[2]) not in sets[it[0]]]
        self.assertEqual(lost, [], f"of {len(acknowledged)}")
