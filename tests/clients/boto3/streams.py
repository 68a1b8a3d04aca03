"""A broker with a Kinesis front door, and what the cases do with streams again and again."""

import time
import unittest

import boto3
from botocore.config import Config

from harness.logway import Logway

DEADLINE_S = 30

ALL_KEYS = range(2**128)


def client(broker: Logway, service: str = "kinesis", **config):
    settings = Config(**{"retries": {"total_max_attempts": 1}} | config)
    return boto3.client(
        service,
        endpoint_url=f"http://{broker.kinesis}",
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=settings,
    )


class StreamCase(unittest.TestCase):
    """One broker for all cases of a class; a stream of its own for each case."""

    settings: dict[str, str] = {}

    @classmethod
    def setUpClass(cls):
        settings = {"kinesis.listen": "127.0.0.1:0"} | cls.settings
        cls.broker = Logway(f"boto3-{cls.__name__.lower()}", settings).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.kinesis = client(cls.broker)

    def setUp(self):
        self.stream = self.id().split(".")[-1].replace("_", "-")

    def create(self, shards: int = 1, **more):
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards, **more)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=self.stream, WaiterConfig={"Delay": 1})

    def put(self, data: bytes, key: str = "key", **more):
        return self.kinesis.put_record(StreamName=self.stream, Data=data, PartitionKey=key, **more)

    def iterator(self, kind: str = "TRIM_HORIZON", shard: str = "shardId-000000000000", **more) -> str:
        found = self.kinesis.get_shard_iterator(
            StreamName=self.stream, ShardId=shard, ShardIteratorType=kind, **more
        )
        return found["ShardIterator"]

    def read(self, iterator: str, count: int) -> list[dict]:
        """So many records, or those up to the end of a closed shard."""
        records = []
        ends = time.monotonic() + DEADLINE_S
        while iterator and len(records) < count:
            self.assertLess(time.monotonic(), ends, f"{len(records)} of {count} records")
            answer = self.kinesis.get_records(ShardIterator=iterator)
            records += answer["Records"]
            iterator = answer.get("NextShardIterator")
        return records

    def shards(self, **more) -> list[dict]:
        return self.kinesis.list_shards(StreamName=self.stream, **more)["Shards"]

    def wait_until_active(self):
        ends = time.monotonic() + DEADLINE_S
        while self.summary()["StreamStatus"] != "ACTIVE":
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.02)

    def summary(self) -> dict:
        return self.kinesis.describe_stream_summary(StreamName=self.stream)["StreamDescriptionSummary"]

    def refusal(self, call, **arguments) -> tuple[str, str]:
        """The name and the text of the error that a call has to get."""
        with self.assertRaises(self.kinesis.exceptions.ClientError) as refused:
            call(**arguments)
        error = refused.exception.response["Error"]
        return error["Code"], error["Message"]

    def check_cover(self, shards: list[dict]):
        """That shards cover all keys once."""
        ranges = sorted(
            (int(it["HashKeyRange"]["StartingHashKey"]), int(it["HashKeyRange"]["EndingHashKey"])) for it in shards
        )
        self.assertEqual((ranges[0][0], ranges[-1][1]), (ALL_KEYS.start, ALL_KEYS.stop - 1))
        for (_, end), (start, _) in zip(ranges, ranges[1:]):
            self.assertEqual(end + 1, start)
