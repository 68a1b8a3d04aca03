"""Limits of shards, where settings turn them on, and the metrics that tell of them. The numbers are small, so that they show within a second."""

import re
import threading
import time

from streams import DEADLINE_S, StreamCase, client

EXCEEDED = "ProvisionedThroughputExceededException"


class Limits(StreamCase):
    settings = {
        "kinesis.shard.write.bytes.per.second": "20000",
        "kinesis.shard.write.records.per.second": "10",
        "kinesis.shard.read.bytes.per.second": "30000",
        "kinesis.shard.reads.per.second": "5",
    }

    def text(self, shard: int) -> str:
        return f"Rate exceeded for shard shardId-{shard:012} in stream {self.stream} under account 000000000000."

    def put_many(self, entries: list[tuple[int, bytes]]) -> dict:
        """Puts data into the shards of two, with one request, which is all of one moment."""
        entries = [
            {"Data": data, "PartitionKey": "k", "ExplicitHashKey": str(shard << 127)} for shard, data in entries
        ]
        return self.kinesis.put_records(StreamName=self.stream, Records=entries)

    def count(self, family: str, **labels: str) -> float | None:
        """What a metric of this stream says; None where it is not shown."""
        shown = ",".join(f'{name}="{value}"' for name, value in ({"stream": self.stream} | labels).items())
        found = re.search(rf"^{family}{{{re.escape(shown)}}} (\S+)$", self.broker.metrics(), re.MULTILINE)
        return float(found[1]) if found else None

    def test_records_beyond_the_number_fail_one_by_one(self):
        self.create(2)
        answer = self.put_many([(0, b"x")] * 13 + [(1, b"y")] * 4 + [(0, b"z")])
        failed = [index for index, it in enumerate(answer["Records"]) if "ErrorCode" in it]
        self.assertEqual(failed, [10, 11, 12, 17])
        self.assertEqual(answer["FailedRecordCount"], 4)
        for index in failed:
            record = answer["Records"][index]
            self.assertEqual((record["ErrorCode"], record["ErrorMessage"]), (EXCEEDED, self.text(0)))
            self.assertNotIn("SequenceNumber", record)
        # What was refused is not there, and the next second has room for it.
        time.sleep(1)
        self.assertEqual(self.put_many([(0, b"again")] * 4)["FailedRecordCount"], 0)
        self.assertEqual(len(self.read(self.iterator(), 14)), 14)
        self.assertEqual(self.count("logway_kinesis_put_records_throttled_records_total"), 4)
        self.assertEqual(self.count("logway_kinesis_write_provisioned_throughput_exceeded_total"), 4)
        self.assertEqual(self.count("logway_kinesis_put_records_successful_records_total"), 18)
        self.assertEqual(self.count("logway_kinesis_incoming_records_total"), 18)
        self.assertEqual(self.count("logway_kinesis_get_records_records_total"), 14)

    def test_records_beyond_the_bytes_are_refused(self):
        self.create()
        answer = self.put_many([(0, b"x" * 15_000), (0, b"x" * 10_000), (0, b"x" * 1_000)])
        self.assertEqual(["ErrorCode" in it for it in answer["Records"]], [False, True, False])

    def test_a_record_larger_than_the_share_takes_the_seconds_behind_it(self):
        self.create()
        began = time.monotonic()
        self.put(b"x" * 90_000)
        error, text = self.refusal(self.put, data=b"y")
        self.assertEqual((error, text), (EXCEEDED, self.text(0)))
        self.until_it_may(lambda: self.put(b"y"))
        self.assertGreaterEqual(time.monotonic() - began, 4)

    def until_it_may(self, call):
        ends = time.monotonic() + DEADLINE_S
        while True:
            try:
                return call()
            except self.kinesis.exceptions.ProvisionedThroughputExceededException:
                self.assertLess(time.monotonic(), ends)
                time.sleep(0.05)

    def test_sdks_wait_and_try_again(self):
        self.create()
        patient = client(self.broker, retries={"mode": "standard", "total_max_attempts": 10})
        for number in range(25):
            patient.put_record(StreamName=self.stream, Data=str(number).encode(), PartitionKey="key")
        self.assertGreater(self.count("logway_kinesis_write_provisioned_throughput_exceeded_total"), 0)
        data = [it["Data"] for it in self.read_slowly(25)]
        self.assertEqual(data, [str(number).encode() for number in range(25)])

    def read_slowly(self, count: int) -> list[dict]:
        iterator, records = self.iterator(), []
        ends = time.monotonic() + DEADLINE_S
        while len(records) < count:
            self.assertLess(time.monotonic(), ends)
            answer = self.kinesis.get_records(ShardIterator=iterator)
            records += answer["Records"]
            iterator = answer["NextShardIterator"]
            time.sleep(0.25)
        return records

    def test_reads_beyond_the_number_are_refused(self):
        self.create()
        arguments = {"ShardIterator": self.iterator()}
        # Side by side, so that all of them are within a second.
        outcomes = []

        def read():
            try:
                self.kinesis.get_records(**arguments)
                outcomes.append("")
            except self.kinesis.exceptions.ClientError as error:
                outcomes.append(error.response["Error"]["Message"])

        threads = [threading.Thread(target=read) for _ in range(12)]
        began = time.monotonic()
        [it.start() for it in threads]
        [it.join() for it in threads]
        seconds = int(time.monotonic() - began) + 1
        self.assertLessEqual(outcomes.count(""), 5 * seconds)
        self.assertGreaterEqual(outcomes.count(""), 5)
        refused = [it for it in outcomes if it]
        self.assertEqual(set(refused) <= {self.text(0)}, True, refused)
        counted = self.count("logway_kinesis_read_provisioned_throughput_exceeded_total") or 0
        self.assertEqual(counted, len(refused))
        self.assertEqual(self.count("logway_kinesis_get_records_success_total"), outcomes.count(""))
        self.assertEqual(self.count("logway_kinesis_get_records_requests_total"), 12)

    def test_what_was_read_counts_behind_it(self):
        self.create()
        self.put(b"x" * 130_000)
        iterator = self.iterator()
        began = time.monotonic()
        self.assertEqual(len(self.kinesis.get_records(ShardIterator=iterator)["Records"]), 1)
        error, text = self.refusal(self.kinesis.get_records, ShardIterator=iterator)
        self.assertEqual((error, text), (EXCEEDED, self.text(0)))
        answer = self.until_it_may(lambda: self.kinesis.get_records(ShardIterator=iterator))
        self.assertEqual(len(answer["Records"]), 1)
        self.assertGreaterEqual(time.monotonic() - began, 4)

    def test_metrics_of_shards_are_shown_where_monitoring_has_them(self):
        self.create(2)
        shard = {"shard": "shardId-000000000001"}
        family = "logway_kinesis_shard_incoming_bytes_total"
        self.put(b"12345", ExplicitHashKey=str(1 << 127))
        self.assertIsNone(self.count(family, **shard))
        answer = self.kinesis.enable_enhanced_monitoring(
            StreamName=self.stream, ShardLevelMetrics=["IncomingBytes", "IteratorAgeMilliseconds"]
        )
        self.assertEqual(answer["DesiredShardLevelMetrics"], ["IncomingBytes", "IteratorAgeMilliseconds"])
        self.assertEqual(self.count(family, **shard), 5 + len("key"))
        self.assertIsNone(self.count("logway_kinesis_shard_incoming_records_total", **shard))
        time.sleep(0.1)
        self.kinesis.get_records(ShardIterator=self.iterator(shard=shard["shard"]))
        age = self.count("logway_kinesis_shard_iterator_age_milliseconds", **shard)
        self.assertTrue(100 <= age <= 10_000, age)
        self.assertEqual(self.count("logway_kinesis_get_records_iterator_age_milliseconds"), age)
        self.kinesis.disable_enhanced_monitoring(StreamName=self.stream, ShardLevelMetrics=["ALL"])
        self.assertIsNone(self.count(family, **shard))
        self.kinesis.delete_stream(StreamName=self.stream)
        self.assertIsNone(self.count("logway_kinesis_incoming_bytes_total"))

    def test_a_subscriber_is_sent_no_more_than_its_share(self):
        self.create()
        for _ in range(4):
            self.put(b"x" * 18_000)
            time.sleep(1.05)
        arn = self.summary()["StreamARN"]
        consumer = self.kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="app")["Consumer"]
        began = time.monotonic()
        events = self.kinesis.subscribe_to_shard(
            ConsumerARN=consumer["ConsumerARN"],
            ShardId="shardId-000000000000",
            StartingPosition={"Type": "TRIM_HORIZON"},
        )["EventStream"]
        seen = 0
        for event in events:
            seen += len(event["SubscribeToShardEvent"]["Records"])
            if seen == 4:
                break
        first = time.monotonic()
        self.put(b"later")
        for event in events:
            if event["SubscribeToShardEvent"]["Records"]:
                break
        # 72 kB take 2.4 s.
        self.assertGreater(time.monotonic() - began, 2)
        self.assertLess(time.monotonic() - first, DEADLINE_S)
        events.close()
        self.assertEqual(self.count("logway_kinesis_subscribe_to_shard_event_records_total") >= 4, True)
        self.assertEqual(self.count("logway_kinesis_subscribe_to_shard_success_total"), 1)


class LimitsOfStreams(StreamCase):
    settings = {"kinesis.shard.limit": "6", "kinesis.stream.delay.ms": "4000"}

    def test_a_stream_is_seen_while_it_is_made(self):
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=1)
        self.assertEqual(self.summary()["StreamStatus"], "CREATING")
        self.wait_until_active()
        self.kinesis.delete_stream(StreamName=self.stream)
        self.assertEqual(self.summary()["StreamStatus"], "DELETING")

    def test_an_account_has_so_many_shards(self):
        ends = time.monotonic() + DEADLINE_S
        while self.kinesis.list_streams()["StreamNames"]:
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.05)
        self.create(4)
        error, text = self.refusal(self.kinesis.create_stream, StreamName="more", ShardCount=3)
        self.assertEqual(error, "LimitExceededException")
        self.assertIn("would exceed the shard limit for the account 000000000000 in us-east-1", text)
        self.assertIn("Number of additional shards that would have resulted from this request: 3", text)
        arguments = {"StreamName": self.stream, "ScalingType": "UNIFORM_SCALING"}
        error, _ = self.refusal(self.kinesis.update_shard_count, TargetShardCount=7, **arguments)
        self.assertEqual(error, "LimitExceededException")
        error, text = self.refusal(self.kinesis.update_shard_count, TargetShardCount=9, **arguments)
        self.assertIn("cannot scale up over double your current open shard count", text)
        limits = self.kinesis.describe_limits()
        self.assertEqual((limits["ShardLimit"], limits["OpenShardCount"]), (6, 4))
        self.kinesis.delete_stream(StreamName=self.stream)

    def test_a_stream_has_twenty_consumers(self):
        self.create()
        arn = self.summary()["StreamARN"]
        for number in range(20):
            self.kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=f"app-{number}")
        error, _ = self.refusal(self.kinesis.register_stream_consumer, StreamARN=arn, ConsumerName="app-20")
        self.assertEqual(error, "LimitExceededException")
        self.kinesis.delete_stream(StreamName=self.stream, EnforceConsumerDeletion=True)
