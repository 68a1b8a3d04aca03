"""Splitting and merging shards, while somebody writes and reads."""

import threading
import time
from datetime import datetime, timezone

from streams import StreamCase


class Shards(StreamCase):
    settings = {"kinesis.shard.limit": "400"}

    def split(self, shard: str, key: int):
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=shard, NewStartingHashKey=str(key))
        self.wait_until_active()

    def test_a_split_goes_on_behind_the_end(self):
        self.create()
        for number in range(10):
            self.put(str(number).encode(), f"key {number}")
        iterator = self.iterator()
        self.split("shardId-000000000000", 2**127)
        parent, lower, upper = self.shards()
        self.check_cover([lower, upper])
        self.assertEqual([lower["ParentShardId"], upper["ParentShardId"]], [parent["ShardId"]] * 2)
        end = int(parent["SequenceNumberRange"]["EndingSequenceNumber"])
        put = self.put(b"behind", ExplicitHashKey="0")
        self.assertEqual(put["ShardId"], lower["ShardId"])
        self.assertLess(end, int(put["SequenceNumber"]))
        answer = self.kinesis.get_records(ShardIterator=iterator)
        self.assertEqual(len(answer["Records"]), 10)
        self.assertNotIn("NextShardIterator", answer)
        children = {child["ShardId"]: child["ParentShards"] for child in answer["ChildShards"]}
        self.assertEqual(children, {lower["ShardId"]: [parent["ShardId"]], upper["ShardId"]: [parent["ShardId"]]})
        # A closed shard can be read again.
        self.assertEqual(len(self.read(self.iterator(), 10)), 10)

    def test_a_merge_has_two_parents(self):
        self.create(3)
        self.kinesis.merge_shards(
            StreamName=self.stream, ShardToMerge="shardId-000000000001", AdjacentShardToMerge="shardId-000000000002"
        )
        self.wait_until_active()
        child = self.shards()[-1]
        self.assertEqual(child["ParentShardId"], "shardId-000000000001")
        self.assertEqual(child["AdjacentParentShardId"], "shardId-000000000002")
        for parent in ["shardId-000000000001", "shardId-000000000002"]:
            answer = self.kinesis.get_records(ShardIterator=self.iterator(shard=parent))
            self.assertEqual([it["ShardId"] for it in answer["ChildShards"]], [child["ShardId"]])
        error, text = self.refusal(
            self.kinesis.merge_shards,
            StreamName=self.stream,
            ShardToMerge=child["ShardId"],
            AdjacentShardToMerge="shardId-000000000000",
        )
        self.assertEqual(error, "InvalidArgumentException")
        self.assertIn("are not an adjacent pair of shards eligible for merging", text)

    def test_any_count_of_shards(self):
        self.create(2)
        for count in [4, 3, 5, 8, 4]:
            answer = self.kinesis.update_shard_count(
                StreamName=self.stream, TargetShardCount=count, ScalingType="UNIFORM_SCALING"
            )
            self.assertEqual(answer["TargetShardCount"], count)
            self.wait_until_active()
            open_shards = self.shards(ShardFilter={"Type": "AT_LATEST"})
            self.assertEqual(len(open_shards), count)
            self.check_cover(open_shards)
        error, _ = self.refusal(
            self.kinesis.update_shard_count, StreamName=self.stream, TargetShardCount=9, ScalingType="UNIFORM_SCALING"
        )
        self.assertEqual(error, "LimitExceededException")

    def test_nothing_is_lost_and_keys_keep_their_order_over_reshards(self):
        self.create(2)
        failures, acknowledged = [], {}

        def write(name: str):
            try:
                for number in range(150):
                    key = f"{name}-{number % 5}"
                    self.put(f"{key}:{number}".encode(), key)
                    acknowledged.setdefault(key, []).append(number)
            except Exception as error:
                failures.append(error)

        writers = [threading.Thread(target=write, args=(f"writer{it}",)) for it in range(4)]
        [writer.start() for writer in writers]
        for count in [4, 8, 4, 2, 3]:
            self.kinesis.update_shard_count(
                StreamName=self.stream, TargetShardCount=count, ScalingType="UNIFORM_SCALING"
            )
            self.wait_until_active()
        [writer.join() for writer in writers]
        self.assertEqual(failures, [])
        seen, todo, done = {}, [it["ShardId"] for it in self.shards() if "ParentShardId" not in it], set()
        while todo:
            shard = todo.pop(0)
            done.add(shard)
            iterator, children = self.iterator(shard=shard), []
            while iterator:
                answer = self.kinesis.get_records(ShardIterator=iterator)
                for record in answer["Records"]:
                    key, number = record["Data"].decode().rsplit(":", 1)
                    seen.setdefault(key, []).append(int(number))
                children = answer.get("ChildShards", [])
                iterator = answer.get("NextShardIterator") if answer["Records"] else None
            for child in children:
                if set(child["ParentShards"]) <= done and child["ShardId"] not in done | set(todo):
                    todo.append(child["ShardId"])
        self.assertEqual(seen, acknowledged)

    def test_filters_and_pages_of_shards(self):
        self.create(2)
        before = datetime.now(timezone.utc)
        # Times are told in milliseconds.
        time.sleep(0.01)
        self.split("shardId-000000000000", 2**100)
        ids = [it["ShardId"] for it in self.shards()]
        self.assertEqual(ids, [f"shardId-{number:012}" for number in range(4)])
        at = {
            "AT_LATEST": self.shards(ShardFilter={"Type": "AT_LATEST"}),
            "AT_TRIM_HORIZON": self.shards(ShardFilter={"Type": "AT_TRIM_HORIZON"}),
            "AT_TIMESTAMP": self.shards(ShardFilter={"Type": "AT_TIMESTAMP", "Timestamp": before}),
        }
        for shards in at.values():
            self.check_cover(shards)
        self.assertEqual([len(shards) for shards in at.values()], [3, 2, 2])
        after = self.shards(ShardFilter={"Type": "AFTER_SHARD_ID", "ShardId": ids[1]})
        self.assertEqual([it["ShardId"] for it in after], ids[2:])
        self.assertEqual([it["ShardId"] for it in self.shards(ExclusiveStartShardId=ids[0])], ids[1:])
        page = self.kinesis.list_shards(StreamName=self.stream, MaxResults=3)
        rest = self.kinesis.list_shards(NextToken=page["NextToken"])
        self.assertEqual([it["ShardId"] for it in page["Shards"] + rest["Shards"]], ids)
        self.assertNotIn("NextToken", rest)
        error, _ = self.refusal(self.kinesis.list_shards, NextToken="x" * 100)
        self.assertEqual(error, "InvalidArgumentException")

    def test_what_cannot_be_split(self):
        self.create()
        split = {"StreamName": self.stream, "ShardToSplit": "shardId-000000000000"}
        for key in [0, 1, 2**128 - 1]:
            error, text = self.refusal(self.kinesis.split_shard, NewStartingHashKey=str(key), **split)
            self.assertEqual(error, "InvalidArgumentException")
            self.assertIn("is not both greater than one plus the shard's StartingHashKey", text)
        split["ShardToSplit"] = "shardId-000000000009"
        error, text = self.refusal(self.kinesis.split_shard, NewStartingHashKey="5", **split)
        self.assertEqual(error, "ResourceNotFoundException")
        error, text = self.refusal(self.kinesis.create_stream, StreamName="too-many", ShardCount=500)
        self.assertEqual(error, "LimitExceededException")
        self.assertIn("This request would exceed the shard limit for the account 000000000000 in us-east-1.", text)
