"""A Flink job reads a stream over a resharding, by polling and with fan-out, and Kafka's clients read the same records meanwhile."""

import subprocess
import unittest
import unittest.mock

import boto3

from harness import topics
from harness.apache_kafka import SMALL_JVM, java, need_kafka
from harness.broker import WORK
from harness.logway import Logway
from harness.stream_job import DEADLINE_S, JVM, RECORDS, STREAM, StreamJob, built, opened


class Polling(StreamJob, unittest.TestCase):
    publisher = "POLLING"

    def setUp(self):
        key = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
        self.enterContext(unittest.mock.patch.dict("os.environ", key))
        name = f"kinesis-flink-{self.publisher.lower()}"
        self.broker = Logway(name, {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(self.broker.kill)
        self.endpoint = f"http://{self.broker.kinesis}"
        self.kinesis = boto3.client("kinesis", endpoint_url=self.endpoint, region_name="us-east-1")
        self.begin(name)

    def test_reads_over_a_reshard_beside_kafka_clients(self):
        arguments = [self.endpoint, STREAM, self.publisher, str(self.file)]
        words = [*opened("java.util", "java.lang", "java.time"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self.read_over_a_reshard([*JVM, *words, *built(WORK, "kinesis-flink", "io.logway.flink.Read"), *arguments], self.read_by_kafka)

    def read_by_kafka(self):
        by_librdkafka = [record.value().decode() for record in topics.read_to_end(self.broker.bootstrap, STREAM)]
        self.assertEqual(sorted(by_librdkafka), sorted(self.put))
        consume = ["--bootstrap-server", self.broker.bootstrap, "--topic", STREAM, "--from-beginning",
                   "--max-messages", str(RECORDS), "--timeout-ms", "60000"]
        command = java(need_kafka(), "org.apache.kafka.tools.consumer.ConsoleConsumer", consume, *SMALL_JVM)
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(self.put), done.stderr[-2_000:])


class FanOut(Polling):
    publisher = "EFO"


if __name__ == "__main__":
    unittest.main()
