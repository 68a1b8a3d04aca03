"""`logway kinesis`, beside boto3 on the same streams."""

import json
import os
import subprocess
import unittest

from streams import StreamCase

from harness import shapes
from harness.logway import BINARY
from harness.secured import SecuredLogway

DEADLINE_S = 60

STREAM = ["kinesis", "stream"]


def command(endpoint: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"AWS_ENDPOINT_URL_KINESIS": endpoint} | variables
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, env=environment)
    shapes.check(arguments, done.stdout.encode())
    return done


class CommandLine(StreamCase):
    def run_command(self, *arguments: str) -> subprocess.CompletedProcess:
        return command(f"http://{self.broker.kinesis}", *STREAM, *arguments)

    def text(self, *arguments: str) -> str:
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def json(self, *arguments: str):
        return json.loads(self.text(*arguments, "--format", "json"))

    def test_a_stream_is_made_listed_and_described(self):
        made = self.json("create", self.stream, "--shards", "3")
        self.assertEqual((made["stream"], made["status"], made["mode"]), (self.stream, "ACTIVE", "PROVISIONED"))
        self.assertEqual(self.summary()["OpenShardCount"], 3)
        self.assertEqual([it["shard"] for it in made["shards"]], [it["ShardId"] for it in self.shards()])
        self.assertEqual((made["shards"][0]["start"], made["shards"][2]["end"]), ("0", str(2**128 - 1)))
        self.assertIn(self.stream, [it["stream"] for it in self.json("list")])
        self.assertRegex(self.text("list"), rf"{self.stream} +ACTIVE +PROVISIONED +arn:aws:kinesis:")
        described = self.text("describe", self.stream)
        self.assertRegex(described, r"open shards +3\n")
        self.assertRegex(described, r"shardId-000000000002 +open +\d+ +\d+ +-\n")
        self.assertEqual(self.json("describe", self.stream)["retention_hours"], 24)

    def test_shards_are_split_merged_and_scaled(self):
        self.json("create", self.stream)
        split = self.json("split", self.stream, "shardId-000000000000")
        self.assertEqual((split["shards_before"], split["shards_after"]), (1, 2))
        self.assertEqual(split["shards"][1]["start"], str(2**127))
        self.assertEqual(split["shards"][0]["parents"], ["shardId-000000000000"])
        merged = self.json("merge", self.stream, "shardId-000000000001")
        self.assertEqual(merged["shards"][0]["parents"], ["shardId-000000000001", "shardId-000000000002"])
        done = self.run_command("merge", self.stream, "shardId-000000000003")
        self.assertEqual((done.returncode, "no shard comes behind it" in done.stderr), (1, True))
        at = str(2**100)
        self.assertEqual(self.json("split", self.stream, "shardId-000000000003", "--at", at)["shards"][1]["start"], at)
        # In steps: 2, 4, 8, 16, 17; and down again.
        scaled = self.json("scale", self.stream, "--shards", "17")
        self.assertEqual((scaled["shards_before"], scaled["shards_after"], len(scaled["shards"])), (2, 17, 17))
        self.check_cover([it for it in self.shards() if "EndingSequenceNumber" not in it["SequenceNumberRange"]])
        load = ["--records-per-second", "2500", "--record-bytes", "100"]
        self.assertEqual(self.json("scale", self.stream, *load)["shards_after"], 3)
        described = self.json("describe", self.stream, "--closed")["shards"]
        self.assertEqual(sum(it["state"] == "open" for it in described), 3)
        self.assertEqual(len(described), len(self.shards()))

    def test_the_load_says_how_many_shards(self):
        load = ["--records-per-second", "5000", "--record-bytes", "700", "--consumers", "3"]
        capacity = self.json("capacity", *load)
        self.assertEqual(capacity, {"shards": 8, "by_records": 5, "by_written_bytes": 5, "by_read_bytes": 8})
        self.assertEqual(self.text("capacity", *load).split("\n")[1].split(), ["8", "5", "5", "8"])
        self.assertEqual(self.json("create", self.stream, *load)["open_shard_count"], 8)

    def test_what_is_wrong_is_said(self):
        done = self.run_command("describe", "nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ResourceNotFoundException: Stream nowhere under account 000000000000 not found.", done.stderr)
        done = self.run_command("scale", "nowhere")
        self.assertEqual((done.returncode, "--shards" in done.stderr), (2, True))
        done = self.run_command("create", "both", "--shards", "1", "--records-per-second", "5", "--record-bytes", "5")
        self.assertEqual(done.returncode, 2)
        done = command("http://127.0.0.1:1", *STREAM, "list")
        self.assertEqual((done.returncode, "kinesis.listen" in done.stderr), (1, True))
        done = command(f"http://{self.broker.http}", *STREAM, "list")
        self.assertEqual((done.returncode, "and not as Kinesis does" in done.stderr), (1, True), done.stderr)

    def test_the_partitioner_is_printed(self):
        done = command("", "kinesis", "partitioner", AWS_ENDPOINT_URL_KINESIS="http://nowhere")
        self.assertIn("public final class KinesisPartitioner implements Partitioner", done.stdout)


class SecuredCommandLine(unittest.TestCase):
    def test_requests_are_signed(self):
        broker = SecuredLogway("boto3-command-line", {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(broker.kill)
        endpoint = f"https://{broker.kinesis}"
        trust = {"AWS_CA_BUNDLE": str(broker.files / "ca.crt")}
        done = command(endpoint, *STREAM, "create", "clicks", **trust, **broker.access_key())
        self.assertEqual(done.returncode, 0, done.stderr)
        done = command(endpoint, *STREAM, "list", **trust, AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any")
        self.assertEqual((done.returncode, "logway token create --aws env" in done.stderr), (1, True), done.stderr)
