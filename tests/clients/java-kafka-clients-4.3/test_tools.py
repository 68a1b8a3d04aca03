import json
import unittest

from tools import BOOTSTRAP, CODECS, ask, call, consume_lines, create_topic, produce_lines, run, write_file

# The requests that the broker serves; the numbers are the newest versions in Kafka 4.3.
SERVED = {
    "Produce": 13,
    "Fetch": 18,
    "ListOffsets": 11,
    "Metadata": 13,
    "ApiVersions": 4,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "DeleteRecords": 2,
    "InitProducerId": 5,
    "OffsetForLeaderEpoch": 4,
    "DescribeConfigs": 4,
    "AlterConfigs": 2,
    "DescribeLogDirs": 5,
    "CreatePartitions": 3,
    "IncrementalAlterConfigs": 1,
    "DescribeCluster": 2,
    "DescribeTopicPartitions": 0,
}


class Topics(unittest.TestCase):
    def test_create_list_describe_alter_delete(self):
        create_topic("tools-topic", 2, retention_ms=3_600_000)
        self.assertIn("tools-topic", ask("TopicCommand", "--list").split())
        described = ask("TopicCommand", "--describe", "--topic", "tools-topic")
        self.assertRegex(
            described, r"TopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: .*retention.ms=3600000"
        )
        self.assertRegex(described, r"Partition: 1\tLeader: (\d+)\tReplicas: \1\tIsr: \1")
        ask("TopicCommand", "--alter", "--topic", "tools-topic", "--partitions", "5")
        self.assertIn("PartitionCount: 5", ask("TopicCommand", "--describe", "--topic", "tools-topic"))
        ask("TopicCommand", "--delete", "--topic", "tools-topic")
        self.assertNotIn("tools-topic", ask("TopicCommand", "--list").split())

    def test_an_existing_topic_is_refused(self):
        create_topic("tools-taken")
        refused = run("TopicCommand", "--bootstrap-server", BOOTSTRAP, "--create", "--topic", "tools-taken")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("TopicExistsException", refused.stdout + refused.stderr)

    def test_configs_are_altered_and_described(self):
        create_topic("tools-configs")
        entity = ["--entity-type", "topics", "--entity-name", "tools-configs"]
        ask(
            "kafka.admin.ConfigCommand",
            "--alter",
            *entity,
            "--add-config",
            "retention.ms=7200000,segment.bytes=2097152",
        )
        described = ask("kafka.admin.ConfigCommand", "--describe", *entity)
        self.assertIn("retention.ms=7200000", described)
        ask("kafka.admin.ConfigCommand", "--alter", *entity, "--delete-config", "retention.ms")
        described = ask("kafka.admin.ConfigCommand", "--describe", *entity)
        self.assertNotIn("retention.ms=", described)
        self.assertIn("segment.bytes=2097152", described)
        self.assertIn("max.message.bytes=1048588", ask("kafka.admin.ConfigCommand", "--describe", "--all", *entity))


class Console(unittest.TestCase):
    def test_every_codec_by_partition(self):
        create_topic("tools-console", 1)
        lines = [f"line {number}" for number in range(500)]
        for batch, codec in enumerate(CODECS):
            produce_lines("tools-console", lines[batch * 100 : (batch + 1) * 100], "--compression-codec", codec)
        self.assertEqual(consume_lines("tools-console", 500), lines)
        self.assertEqual(consume_lines("tools-console", 3, offset="321"), lines[321:324])

    def test_keys_and_headers(self):
        parse = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]
        produce_lines(
            "tools-headers",
            ["a:1,a:2\tkey\tvalue", "b:3\tkey\tNULL"],
            *(word for setting in parse for word in ("--reader-property", setting)),
        )
        show = ["print.key=true", "print.headers=true", "print.offset=true", "print.partition=true"]
        shown = consume_lines(
            "tools-headers", 2, *(word for setting in show for word in ("--formatter-property", setting))
        )
        self.assertEqual(
            shown,
            [
                "Partition:0\tOffset:0\ta:1,a:2\tkey\tvalue",
                "Partition:0\tOffset:1\tb:3\tkey\tnull",
            ],
        )


class Offsets(unittest.TestCase):
    def test_get_offsets_and_delete_records(self):
        create_topic("tools-offsets", 2)
        produce_lines(
            "tools-offsets",
            ["x"] * 100,
            "--command-property",
            "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "--batch-size",
            "1",
        )

        def offsets(time):
            listed = ask("GetOffsetShell", "--topic", "tools-offsets", "--time", time).split()
            return [int(line.rsplit(":", 1)[1]) for line in sorted(listed)]

        self.assertEqual((offsets("earliest"), sum(offsets("latest"))), ([0, 0], 100))
        self.assertEqual([offset >= 0 for offset in offsets("max-timestamp")], [True, True])
        end = offsets("latest")[1]
        deletion = {"version": 1, "partitions": [{"topic": "tools-offsets", "partition": 1, "offset": end - 1}]}
        deleted = ask("DeleteRecordsCommand", "--offset-json-file", write_file(".json", json.dumps(deletion)))
        self.assertIn(f"partition: tools-offsets-1\tlow_watermark: {end - 1}", deleted)
        self.assertEqual(offsets("earliest"), [0, end - 1])


class Load(unittest.TestCase):
    def test_verifiable_producer(self):
        for acks in ["0", "1", "-1"]:
            with self.subTest(acks):
                topic = f"tools-verified{acks}"
                create_topic(topic)
                printed = ask(
                    "VerifiableProducer", "--topic", topic, "--max-messages", "10000", "--acks", acks
                ).splitlines()
                summary = json.loads(printed[-1])
                self.assertEqual((summary["name"], summary["sent"], summary["acked"]), ("tool_data", 10_000, 10_000))
                self.assertEqual(consume_lines(topic, 10_000), [str(number) for number in range(10_000)])

    def test_producer_performance(self):
        create_topic("tools-perf", 3)
        printed = ask(
            "ProducerPerformance",
            "--topic",
            "tools-perf",
            "--num-records",
            "100000",
            "--record-size",
            "100",
            "--throughput",
            "-1",
            "--command-property",
            "acks=all",
        )
        self.assertIn("100000 records sent", printed.splitlines()[-1])
        ends = ask("GetOffsetShell", "--topic", "tools-perf").split()
        self.assertEqual(sum(int(line.rsplit(":", 1)[1]) for line in ends), 100_000)


class Cluster(unittest.TestCase):
    def test_log_directories(self):
        produce_lines("tools-directories", ["x" * 1_000] * 10)
        printed = ask("LogDirsCommand", "--describe", "--topic-list", "tools-directories").splitlines()
        (broker,) = json.loads(printed[-1])["brokers"]
        (directory,) = broker["logDirs"]
        self.assertIsNone(directory["error"])
        (partition,) = directory["partitions"]
        self.assertEqual(
            (partition["partition"], partition["offsetLag"], partition["isFuture"]), ("tools-directories-0", 0, False)
        )
        self.assertGreater(partition["size"], 10_000)

    def test_announced_versions(self):
        announced = ask("BrokerApiVersionsCommand")
        self.assertIn(BOOTSTRAP, announced)
        for name, version in SERVED.items():
            self.assertRegex(announced, rf"\b{name}\(\d+\): .*\[usable: {version}\]")

    def test_cluster_id(self):
        self.assertRegex(call("ClusterTool", "cluster-id", "--bootstrap-server", BOOTSTRAP), r"Cluster ID: [\w-]{22}\n")
