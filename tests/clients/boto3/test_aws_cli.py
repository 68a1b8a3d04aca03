"""AWS's command line, which stands on the same library."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from streams import StreamCase

AWS = str(Path(sys.executable).with_name("aws"))

DEADLINE_S = 60


class CommandLine(StreamCase):
    def aws(self, *words: str) -> dict:
        keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_PAGER": ""}
        command = [AWS, "kinesis", *words, "--endpoint-url", f"http://{self.broker.kinesis}", "--region", "us-east-1"]
        done = subprocess.run(
            command, env=os.environ | keys, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout or "{}")

    def test_a_stream_by_commands(self):
        named = ["--stream-name", self.stream]
        self.aws("create-stream", *named, "--shard-count", "1")
        self.aws("wait", "stream-exists", *named)
        put = self.aws("put-record", *named, "--partition-key", "k", "--data", "by command")
        self.assertEqual(put["ShardId"], "shardId-000000000000")
        begin = ["--shard-id", put["ShardId"], "--shard-iterator-type", "TRIM_HORIZON"]
        iterator = self.aws("get-shard-iterator", *named, *begin)["ShardIterator"]
        (record,) = self.aws("get-records", "--shard-iterator", iterator)["Records"]
        self.assertEqual(base64.b64decode(record["Data"]), b"by command")
        self.assertIn(self.stream, self.aws("list-streams")["StreamNames"])
        self.aws("delete-stream", *named)
