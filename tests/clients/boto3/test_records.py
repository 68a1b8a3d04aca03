"""Records: putting them, and reading them from each kind of iterator."""

import hashlib
import time
from datetime import datetime, timedelta, timezone

from streams import StreamCase


class Records(StreamCase):
    def test_what_is_put_is_read_in_its_order(self):
        self.create()
        put = [self.put(f"record {number}".encode(), f"key {number}") for number in range(20)]
        read = self.read(self.iterator(), 20)
        self.assertEqual([it["Data"] for it in read], [f"record {number}".encode() for number in range(20)])
        self.assertEqual([it["PartitionKey"] for it in read], [f"key {number}" for number in range(20)])
        numbers = [int(it["SequenceNumber"]) for it in read]
        self.assertEqual(numbers, [int(it["SequenceNumber"]) for it in put])
        self.assertEqual(numbers, sorted(set(numbers)))
        age = datetime.now(timezone.utc) - read[-1]["ApproximateArrivalTimestamp"]
        self.assertLess(abs(age), timedelta(minutes=1))

    def test_many_records_go_to_their_shards(self):
        self.create(4)
        entries = [{"Data": b"x" * 1000, "PartitionKey": f"user-{number}"} for number in range(500)]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        self.assertEqual(answer["FailedRecordCount"], 0)
        ranges = {it["ShardId"]: it["HashKeyRange"] for it in self.shards()}
        for entry, result in zip(entries, answer["Records"]):
            key = int(hashlib.md5(entry["PartitionKey"].encode()).hexdigest(), 16)
            own = ranges[result["ShardId"]]
            self.assertTrue(int(own["StartingHashKey"]) <= key <= int(own["EndingHashKey"]))
        counts = [sum(it["ShardId"] == shard for it in answer["Records"]) for shard in ranges]
        read = [len(self.read(self.iterator(shard=shard), count)) for shard, count in zip(ranges, counts)]
        self.assertEqual(read, counts)

    def test_an_explicit_hash_key_chooses_the_shard(self):
        self.create(2)
        for key, shard in [(0, 0), (2**127 - 1, 0), (2**127, 1), (2**128 - 1, 1)]:
            put = self.put(b"", ExplicitHashKey=str(key))
            self.assertEqual(put["ShardId"], f"shardId-{shard:012}")
        error, text = self.refusal(self.put, data=b"", ExplicitHashKey=str(2**128))
        self.assertEqual(error, "InvalidArgumentException")
        self.assertIn("must be in the range: [0, 2^128-1]", text)

    def test_each_kind_of_iterator(self):
        self.create()
        put = [self.put(str(number).encode())["SequenceNumber"] for number in range(5)]
        time.sleep(0.01)
        middle = datetime.now(timezone.utc)
        time.sleep(0.01)
        latest = self.iterator("LATEST")
        put += [self.put(str(number).encode())["SequenceNumber"] for number in range(5, 10)]

        def first(iterator):
            return self.read(iterator, 1)[0]["Data"]

        self.assertEqual(first(self.iterator("TRIM_HORIZON")), b"0")
        self.assertEqual(first(self.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=put[3])), b"3")
        self.assertEqual(first(self.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=put[3])), b"4")
        self.assertEqual(first(self.iterator("AT_TIMESTAMP", Timestamp=middle)), b"5")
        self.assertEqual(first(latest), b"5")
        start = self.shards()[0]["SequenceNumberRange"]["StartingSequenceNumber"]
        self.assertLess(int(start), int(put[0]))
        self.assertEqual(first(self.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=start)), b"0")
        self.assertEqual(first(self.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=start)), b"0")

    def test_limits_and_how_far_a_reader_is_behind(self):
        self.create()
        self.assertEqual(self.kinesis.get_records(ShardIterator=self.iterator())["MillisBehindLatest"], 0)
        for number in range(10):
            self.put(str(number).encode())
        answer = self.kinesis.get_records(ShardIterator=self.iterator(), Limit=3)
        self.assertEqual(len(answer["Records"]), 3)
        answer = self.kinesis.get_records(ShardIterator=answer["NextShardIterator"], Limit=100)
        self.assertEqual((len(answer["Records"]), answer["MillisBehindLatest"]), (7, 0))

    def test_large_records(self):
        self.create(MaxRecordSizeInKiB=10_240)
        data = bytes(range(256)) * (9 << 12)
        self.put(data)
        self.put(b"small")
        self.assertEqual([len(it["Data"]) for it in self.read(self.iterator(), 2)], [len(data), 5])

    def test_a_record_that_is_too_large(self):
        self.create()
        error, text = self.refusal(self.put, data=b"x" * (1 << 20))
        self.assertEqual(error, "ValidationException")
        self.assertIn("Member must have length less than or equal to 1048576", text)
        entries = [{"Data": b"x" * (1 << 20 - 1), "PartitionKey": "k"}] * 21
        error, text = self.refusal(self.kinesis.put_records, StreamName=self.stream, Records=entries)
        self.assertEqual(error, "InvalidArgumentException")

    def test_tokens_that_were_not_given_here(self):
        self.create()
        iterator = self.iterator()
        at = len(iterator) // 2
        altered = iterator[:at] + ("A" if iterator[at] != "A" else "B") + iterator[at + 1 :]
        for token in ["AAAA", altered, "x" * 200]:
            error, text = self.refusal(self.kinesis.get_records, ShardIterator=token)
            self.assertEqual((error, text), ("InvalidArgumentException", "Invalid ShardIterator."))
        self.assertEqual(self.kinesis.get_records(ShardIterator=f'"{iterator}"')["Records"], [])

    def test_sequence_numbers_that_were_not_given_here(self):
        self.create(2)
        put = self.put(b"", ExplicitHashKey="0")["SequenceNumber"]
        ask = {"StreamName": self.stream, "ShardIteratorType": "AT_SEQUENCE_NUMBER"}
        error, text = self.refusal(
            self.kinesis.get_shard_iterator, ShardId="shardId-000000000001", StartingSequenceNumber=put, **ask
        )
        self.assertIn("It encodes shardId-000000000000, while it was used in a call to a shard with", text)
        for number in ["0", "5", "1" + put[1:]]:
            error, text = self.refusal(
                self.kinesis.get_shard_iterator, ShardId="shardId-000000000000", StartingSequenceNumber=number, **ask
            )
            self.assertEqual(error, "InvalidArgumentException", text)

    def test_a_restart_keeps_records_and_iterators(self):
        self.create()
        put = self.put(b"before")
        iterator = self.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=put["SequenceNumber"])
        self.broker.kill()
        self.broker.start()
        self.put(b"after")
        self.assertEqual([it["Data"] for it in self.read(iterator, 1)], [b"after"])
        self.assertEqual(len(self.read(self.iterator(), 2)), 2)
