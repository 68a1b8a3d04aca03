"""What the producer library aggregates is one record here, and many again for the client library."""

import os
import subprocess
import time
import unittest
import unittest.mock

import boto3
from notes import Notes

from harness.broker import TESTS
from harness.program import Program
from harness.secured import SecuredLogway

BUILT = TESTS / ".work"
SHARDS = 4
KEYS = 200
RECORDS_OF_A_KEY = int(os.environ.get("RECORDS", "20000")) // KEYS
DEADLINE_S = 300
# Begins each record that has others in it, and a digest of 16 bytes ends it.
AGGREGATE = b"\xf3\x89\x9a\xc2"


class Aggregates(unittest.TestCase):
    def setUp(self):
        self.broker = SecuredLogway("kinesis-kpl", {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(self.broker.kill)
        self.endpoint = f"https://{self.broker.kinesis}"
        authority = self.broker.files / "ca.crt"
        store, password = authority.with_suffix(".p12"), ["-storepass", "changeit"]
        importing = ["keytool", "-importcert", "-noprompt", "-file", authority, "-keystore", store, *password]
        subprocess.run(importing, check=True, capture_output=True)
        trusting = {"JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"}
        self.enterContext(unittest.mock.patch.dict(os.environ, self.broker.access_key() | trusting))
        self.kinesis = boto3.client("kinesis", endpoint_url=self.endpoint, region_name="us-east-1", verify=str(authority))
        self.kinesis.create_stream(StreamName="aggregated", ShardCount=SHARDS)
        self.kinesis.get_waiter("stream_exists").wait(StreamName="aggregated", WaiterConfig={"Delay": 1})

    def test_what_is_put_aggregated_reaches_a_worker_record_by_record(self):
        self.put()
        self.assertLess(self.check_aggregates(), KEYS * RECORDS_OF_A_KEY / 10)
        notes = Notes()
        path = notes.add(self.broker.directory / "worker.notes")
        worker = Program(self.java("kinesis-kcl-3", "io.logway.kcl.Worker", "aggregated", "worker", "polling", str(path)),
                         path.with_suffix(".log"))
        worker.start()
        self.addCleanup(worker.kill)
        wanted = {f"{key}:{number}" for key in range(KEYS) for number in range(RECORDS_OF_A_KEY)}
        ends = time.monotonic() + DEADLINE_S
        while notes.records() != wanted:
            worker.check()
            self.assertLess(time.monotonic(), ends, f"{len(notes.records())} of {len(wanted)} records\n{worker.log_end()}")
            time.sleep(0.2)

    def put(self):
        words = self.java("kinesis-kpl", "io.logway.kpl.Put", "aggregated", str(KEYS), str(RECORDS_OF_A_KEY))
        done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout), (0, f"{KEYS * RECORDS_OF_A_KEY}\n"), done.stderr[-4_000:])

    def java(self, built: str, program: str, *arguments: str) -> list[str]:
        small = ["-Xmx192m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return ["java", *small, "-cp", f"{BUILT}/{built}/classes:{BUILT}/{built}/libs/*", program, self.endpoint, *arguments]

    def check_aggregates(self) -> int:
        """How many records the stream has, of which most have others in them."""
        data = []
        for shard in self.kinesis.list_shards(StreamName="aggregated")["Shards"]:
            start = {"StreamName": "aggregated", "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self.kinesis.get_shard_iterator(**start)["ShardIterator"]
            while (answer := self.kinesis.get_records(ShardIterator=iterator))["Records"]:
                data += [record["Data"] for record in answer["Records"]]
                iterator = answer["NextShardIterator"]
        self.assertTrue(any(it.startswith(AGGREGATE) for it in data), data[:3])
        return len(data)


if __name__ == "__main__":
    unittest.main()
