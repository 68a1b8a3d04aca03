"""cases.py ENDPOINT CASE: one of the cases that all SDKs have (tests/clients/cases.toml), which fails by an exception."""

import sys
import time
from datetime import UTC, datetime

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

SHARD = "shardId-000000000000"


class Cases:
    def __init__(self, endpoint: str, name: str):
        settings = Config(retries={"total_max_attempts": 1})
        self.kinesis = boto3.client("kinesis", endpoint_url=endpoint, region_name="us-east-1", config=settings)
        self.stream = f"boto3-{name}"

    def create(self, shards: int = 1):
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=self.stream, WaiterConfig={"Delay": 1})

    def put(self, data: str, key: str = "key") -> str:
        put = self.kinesis.put_record(StreamName=self.stream, Data=data.encode(), PartitionKey=key)
        return put["SequenceNumber"]

    def iterator(self, kind: str, **more) -> str:
        asked = {"StreamName": self.stream, "ShardId": SHARD, "ShardIteratorType": kind}
        return self.kinesis.get_shard_iterator(**asked, **more)["ShardIterator"]

    def read(self, iterator: str, count: int) -> list[str]:
        records = []
        while iterator and len(records) < count:
            answer = self.kinesis.get_records(ShardIterator=iterator)
            records += [record["Data"].decode() for record in answer["Records"]]
            iterator = answer.get("NextShardIterator")
        return records

    def subscribe(self):
        arn = self.kinesis.describe_stream_summary(StreamName=self.stream)["StreamDescriptionSummary"]["StreamARN"]
        consumer = self.kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="app")["Consumer"]["ConsumerARN"]
        start = {"Type": "TRIM_HORIZON"}
        events = self.kinesis.subscribe_to_shard(ConsumerARN=consumer, ShardId=SHARD, StartingPosition=start)["EventStream"]
        return (event["SubscribeToShardEvent"] for event in events)

    def records(self):
        self.create(2)
        entries = [{"Data": str(number).encode(), "PartitionKey": str(number)} for number in range(500)]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        equal(answer["FailedRecordCount"], 0)
        first = sum(record["ShardId"] == SHARD for record in answer["Records"])
        equal(len(self.read(self.iterator("TRIM_HORIZON"), first)), first)

    def iterators(self):
        self.create()
        numbers = [self.put(data) for data in "012"]
        # So that the clock tells the records before from the one behind.
        time.sleep(0.02)
        middle = datetime.now(UTC)
        latest = self.iterator("LATEST")
        time.sleep(0.02)
        self.put("3")
        equal(self.read(self.iterator("TRIM_HORIZON"), 1)[0], "0")
        equal(self.read(self.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]), 1)[0], "1")
        equal(self.read(self.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]), 1)[0], "2")
        equal(self.read(self.iterator("AT_TIMESTAMP", Timestamp=middle), 1)[0], "3")
        equal(self.read(latest, 1)[0], "3")

    def fanOut(self):
        self.create()
        self.put("before")
        events = self.subscribe()
        self.put("after")
        seen = []
        while len(seen) < 2:
            seen += [record["Data"] for record in next(events)["Records"]]
        equal(seen, [b"before", b"after"])

    def reshardWhileReading(self):
        self.create()
        events = self.subscribe()
        self.put("last")
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=SHARD, NewStartingHashKey="1000")
        seen, children = [], []
        for event in events:
            seen += [record["Data"] for record in event["Records"]]
            children = event.get("ChildShards", [])
        equal(seen, [b"last"])
        equal(len(children), 2)
        equal(len(self.kinesis.list_shards(StreamName=self.stream)["Shards"]), 3)

    def errors(self):
        errors = self.kinesis.exceptions
        refused(errors.ResourceNotFoundException, self.put, "x")
        self.create()
        refused(errors.ResourceInUseException, self.create)
        # The SDK has no type for it.
        refused(ClientError, self.put, "x", key="é" * 257)
        refused(errors.InvalidArgumentException, self.kinesis.get_records, ShardIterator="x" * 200)


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r}, and not {wanted!r}")


def refused(error, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except error:
        return
    raise AssertionError(f"was not refused by {error}")


if __name__ == "__main__":
    getattr(Cases(*sys.argv[1:]), sys.argv[2])()
