"""Streams and what is set of them."""

import time

from streams import StreamCase


class Streams(StreamCase):
    def test_a_stream_is_made_described_and_deleted(self):
        self.create(3, Tags={"team": "a"})
        described = self.kinesis.describe_stream(StreamName=self.stream)["StreamDescription"]
        self.assertEqual(described["StreamStatus"], "ACTIVE")
        self.assertEqual(described["StreamARN"], f"arn:aws:kinesis:us-east-1:000000000000:stream/{self.stream}")
        self.assertEqual((len(described["Shards"]), described["HasMoreShards"]), (3, False))
        self.check_cover(described["Shards"])
        page = self.kinesis.describe_stream(StreamName=self.stream, Limit=2)["StreamDescription"]
        self.assertEqual((len(page["Shards"]), page["HasMoreShards"]), (2, True))
        self.assertEqual(self.summary()["OpenShardCount"], 3)
        error, _ = self.refusal(self.kinesis.create_stream, StreamName=self.stream, ShardCount=1)
        self.assertEqual(error, "ResourceInUseException")
        by_arn = self.kinesis.describe_stream_summary(StreamARN=described["StreamARN"])
        self.assertEqual(by_arn["StreamDescriptionSummary"]["StreamName"], self.stream)
        self.kinesis.delete_stream(StreamName=self.stream)
        error, text = self.refusal(self.kinesis.describe_stream, StreamName=self.stream)
        self.assertEqual(error, "ResourceNotFoundException")
        self.assertEqual(text, f"Stream {self.stream} under account 000000000000 not found.")

    def test_streams_are_listed_in_pages(self):
        names = sorted(f"{self.stream}-{number}" for number in range(7))
        for name in names:
            self.kinesis.create_stream(StreamName=name, ShardCount=1)
        pages = self.kinesis.get_paginator("list_streams").paginate(PaginationConfig={"PageSize": 3})
        listed = [name for page in pages for name in page["StreamNames"]]
        self.assertEqual([name for name in listed if name in names], names)
        self.assertEqual(len(listed), len(set(listed)))
        for name in names:
            self.kinesis.delete_stream(StreamName=name)

    def test_retention(self):
        self.create()
        self.kinesis.increase_stream_retention_period(StreamName=self.stream, RetentionPeriodHours=48)
        self.assertEqual(self.summary()["RetentionPeriodHours"], 48)
        error, text = self.refusal(
            self.kinesis.increase_stream_retention_period, StreamName=self.stream, RetentionPeriodHours=24
        )
        self.assertEqual(error, "InvalidArgumentException")
        self.assertIn("can not be shorter than existing retention period (48 hours)", text)
        self.kinesis.decrease_stream_retention_period(StreamName=self.stream, RetentionPeriodHours=24)
        self.assertEqual(self.summary()["RetentionPeriodHours"], 24)

    def test_tags_of_streams(self):
        self.create()
        self.kinesis.add_tags_to_stream(StreamName=self.stream, Tags={"a": "1", "b": "2", "c": ""})
        self.kinesis.remove_tags_from_stream(StreamName=self.stream, TagKeys=["b", "none"])
        answer = self.kinesis.list_tags_for_stream(StreamName=self.stream)
        self.assertEqual(answer["Tags"], [{"Key": "a", "Value": "1"}, {"Key": "c", "Value": ""}])
        page = self.kinesis.list_tags_for_stream(StreamName=self.stream, Limit=1)
        self.assertEqual((len(page["Tags"]), page["HasMoreTags"]), (1, True))
        error, text = self.refusal(self.kinesis.add_tags_to_stream, StreamName=self.stream, Tags={"a;b": "1"})
        self.assertEqual(error, "InvalidArgumentException")
        self.assertIn("Some tags contain invalid characters.", text)
        arn = self.summary()["StreamARN"]
        self.kinesis.tag_resource(ResourceARN=arn, Tags={"d": "4"})
        self.kinesis.untag_resource(ResourceARN=arn, TagKeys=["a"])
        tags = self.kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
        self.assertEqual([tag["Key"] for tag in tags], ["c", "d"])

    def test_switches(self):
        self.create()
        self.kinesis.start_stream_encryption(StreamName=self.stream, EncryptionType="KMS", KeyId="alias/a")
        self.assertEqual(self.summary()["KeyId"], "alias/a")
        self.assertEqual(self.put(b"x")["EncryptionType"], "KMS")
        self.kinesis.stop_stream_encryption(StreamName=self.stream, EncryptionType="KMS", KeyId="alias/a")
        self.assertEqual(self.summary()["EncryptionType"], "NONE")
        on = self.kinesis.enable_enhanced_monitoring(StreamName=self.stream, ShardLevelMetrics=["ALL"])
        self.assertEqual(len(on["DesiredShardLevelMetrics"]), 7)
        off = self.kinesis.disable_enhanced_monitoring(StreamName=self.stream, ShardLevelMetrics=["IncomingBytes"])
        self.assertEqual(len(off["DesiredShardLevelMetrics"]), 6)
        arn = self.summary()["StreamARN"]
        self.kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
        self.assertEqual(self.summary()["StreamModeDetails"]["StreamMode"], "ON_DEMAND")
        error, text = self.refusal(
            self.kinesis.update_shard_count, StreamName=self.stream, TargetShardCount=2, ScalingType="UNIFORM_SCALING"
        )
        self.assertIn("is in On-Demand mode.", text)
        self.kinesis.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=2048)
        self.assertEqual(self.summary()["MaxRecordSizeInKiB"], 2048)

    def test_policies(self):
        self.create()
        arn = self.summary()["StreamARN"]
        self.assertEqual(self.kinesis.get_resource_policy(ResourceARN=arn)["Policy"], "{}")
        self.kinesis.put_resource_policy(ResourceARN=arn, Policy='{"Version": "2012-10-17"}')
        self.assertEqual(self.kinesis.get_resource_policy(ResourceARN=arn)["Policy"], '{"Version": "2012-10-17"}')
        self.kinesis.delete_resource_policy(ResourceARN=arn)
        self.assertEqual(self.kinesis.get_resource_policy(ResourceARN=arn)["Policy"], "{}")
        error, _ = self.refusal(self.kinesis.put_resource_policy, ResourceARN=arn, Policy="{")
        self.assertEqual(error, "InvalidArgumentException")

    def test_limits_and_the_account(self):
        self.create(2)
        limits = self.kinesis.describe_limits()
        self.assertEqual(limits["ShardLimit"], 500)
        self.assertGreaterEqual(limits["OpenShardCount"], 2)
        status = {"Status": "ENABLED"}
        self.kinesis.update_account_settings(MinimumThroughputBillingCommitment=status)
        settings = self.kinesis.describe_account_settings()["MinimumThroughputBillingCommitment"]
        self.assertEqual(settings["Status"], "ENABLED")

    def test_the_words_of_errors(self):
        call = self.kinesis._make_api_call
        error, text = self.refusal(self.kinesis.list_shards)
        self.assertEqual((error, text), ("InvalidArgumentException", "Either NextToken or StreamName should be provided."))
        error, text = self.refusal(self.kinesis.describe_stream, StreamName="bad name")
        self.assertEqual(error, "ValidationException")
        self.assertEqual(
            text,
            "1 validation error detected: Value 'bad name' at 'streamName' failed to satisfy constraint: Member must "
            "satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        )
        error, text = self.refusal(
            call,
            operation_name="GetShardIterator",
            api_params={"StreamName": "s", "ShardId": "x", "ShardIteratorType": "NEVER"},
        )
        self.assertIn("Member must satisfy enum value set: [", text)


class Phases(StreamCase):
    settings = {"kinesis.stream.delay.ms": "1500", "kinesis.account.id": "123456789012", "kinesis.region": "eu-west-3"}

    def test_phases_are_seen_where_they_are_wanted(self):
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=1)
        self.assertEqual(self.summary()["StreamStatus"], "CREATING")
        error, _ = self.refusal(self.put, data=b"")
        self.assertEqual(error, "ResourceNotFoundException")
        self.wait_until_active()
        self.assertEqual(self.summary()["StreamARN"], f"arn:aws:kinesis:eu-west-3:123456789012:stream/{self.stream}")
        split = {"StreamName": self.stream, "ShardToSplit": "shardId-000000000000", "NewStartingHashKey": "10"}
        self.kinesis.split_shard(**split)
        self.assertEqual(self.summary()["StreamStatus"], "UPDATING")
        error, text = self.refusal(self.kinesis.split_shard, **split)
        self.assertEqual(error, "ResourceInUseException")
        self.assertIn("not ACTIVE, instead in state UPDATING", text)
        self.put(b"while it changes")
        self.wait_until_active()
        self.kinesis.delete_stream(StreamName=self.stream)
        self.assertEqual(self.summary()["StreamStatus"], "DELETING")
        ends = time.monotonic() + 30
        while self.stream in self.kinesis.list_streams()["StreamNames"]:
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.05)
