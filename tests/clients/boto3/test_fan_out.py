"""Registered consumers, and event streams over HTTP/1.1."""

import threading

from streams import StreamCase


class FanOut(StreamCase):
    def register(self, name: str = "app") -> str:
        arn = self.summary()["StreamARN"]
        return self.kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=name)["Consumer"]["ConsumerARN"]

    def subscribe(self, consumer: str, kind: str = "TRIM_HORIZON", **position):
        position = {"Type": kind} | position
        answer = self.kinesis.subscribe_to_shard(
            ConsumerARN=consumer, ShardId="shardId-000000000000", StartingPosition=position
        )
        return answer["EventStream"]

    def test_a_consumer_is_registered_and_found(self):
        self.create()
        consumer = self.register()
        described = self.kinesis.describe_stream_consumer(ConsumerARN=consumer)["ConsumerDescription"]
        self.assertEqual((described["ConsumerName"], described["ConsumerStatus"]), ("app", "ACTIVE"))
        self.assertEqual(self.summary()["ConsumerCount"], 1)
        arn = self.summary()["StreamARN"]
        error, _ = self.refusal(self.kinesis.register_stream_consumer, StreamARN=arn, ConsumerName="app")
        self.assertEqual(error, "ResourceInUseException")
        for number in range(4):
            self.register(f"more-{number}")
        pages = self.kinesis.get_paginator("list_stream_consumers")
        pages = pages.paginate(StreamARN=arn, PaginationConfig={"PageSize": 2})
        names = [it["ConsumerName"] for page in pages for it in page["Consumers"]]
        self.assertEqual(names, ["app"] + [f"more-{number}" for number in range(4)])
        self.kinesis.tag_resource(ResourceARN=consumer, Tags={"a": "1"})
        tags = self.kinesis.list_tags_for_resource(ResourceARN=consumer)["Tags"]
        self.assertEqual(tags, [{"Key": "a", "Value": "1"}])
        error, _ = self.refusal(self.kinesis.delete_stream, StreamName=self.stream)
        self.assertEqual(error, "ResourceInUseException")
        self.kinesis.deregister_stream_consumer(ConsumerARN=consumer)
        error, _ = self.refusal(self.kinesis.describe_stream_consumer, ConsumerARN=consumer)
        self.assertEqual(error, "ResourceNotFoundException")

    def test_records_come_by_themselves(self):
        self.create()
        self.put(b"before")
        events = self.subscribe(self.register())
        writer = threading.Timer(0.2, lambda: [self.put(str(number).encode()) for number in range(5)])
        writer.start()
        seen = []
        for event in events:
            event = event["SubscribeToShardEvent"]
            seen += [record["Data"] for record in event["Records"]]
            self.assertIn("ContinuationSequenceNumber", event)
            if len(seen) == 6:
                break
        events.close()
        self.assertEqual(seen, [b"before"] + [str(number).encode() for number in range(5)])
        writer.join()

    def test_a_subscription_goes_on_where_another_ended(self):
        self.create()
        consumer = self.register()
        events = self.subscribe(consumer)
        first = next(iter(events))["SubscribeToShardEvent"]
        self.assertEqual(first["Records"], [])
        events.close()
        for number in range(3):
            self.put(str(number).encode())
        consumer = self.register("other")
        number = first["ContinuationSequenceNumber"]
        events = self.subscribe(consumer, "AFTER_SEQUENCE_NUMBER", SequenceNumber=number)
        seen = []
        for event in events:
            seen += [record["Data"] for record in event["SubscribeToShardEvent"]["Records"]]
            if len(seen) == 3:
                break
        events.close()
        self.assertEqual(seen, [b"0", b"1", b"2"])

    def test_a_second_subscriber_has_to_wait(self):
        self.create()
        consumer = self.register()
        events = self.subscribe(consumer)
        with self.assertRaises(self.kinesis.exceptions.ResourceInUseException):
            self.subscribe(consumer)
        events.close()

    def test_a_subscription_ends_with_its_shard(self):
        self.create()
        events = self.subscribe(self.register())
        self.put(b"last")
        split = {"StreamName": self.stream, "ShardToSplit": "shardId-000000000000", "NewStartingHashKey": "10"}
        timer = threading.Timer(0.2, lambda: self.kinesis.split_shard(**split))
        timer.start()
        all_events = [event["SubscribeToShardEvent"] for event in events]
        timer.join()
        self.assertEqual([it["Data"] for event in all_events for it in event["Records"]], [b"last"])
        last = all_events[-1]
        self.assertEqual(len(last["ChildShards"]), 2)
        self.assertNotIn("ContinuationSequenceNumber", last)
