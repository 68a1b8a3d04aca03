"""Several log directories: replicas that move between them under load and through kills, and one that is lost."""

import json
import os
import random
import time
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic

from harness.apache_kafka import run_tool
from harness.broker import fresh_directory
from harness.brokers import KINDS
from harness.load import Writer, create_topics
from harness.protocol import Connection, array, string
from harness.seed import SEED
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
TOPIC = "moved"
PARTITIONS = 4
ROUNDS = 6
DEADLINE_S = 60
ALTER_REPLICA_LOG_DIRS = 34


class LogDirs(unittest.TestCase):
    def setUp(self):
        """A broker with two log directories and a topic that is spread over them, and a writer to it."""
        root = fresh_directory(f"crash-disks-{KIND.kind}")
        self.dirs = [root / "one", root / "two"]
        both = Path(",".join(map(str, self.dirs)))
        settings = {} if KIND.kind == "logway" else {"metadata.log.dir": str(root / "metadata")}
        self.broker = KIND("crash-log-dirs", settings, data_dir=both).start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": "1048576"}))

    def test_kafkas_tools_move_replicas_and_say_where_they_are(self):
        self.assertEqual(sorted(self.described()), [(self.dirs[0], 0, 2), (self.dirs[1], 0, 2)])
        with Writer(self.broker.bootstrap, TOPIC, PARTITIONS) as writer:
            writer.wait_for_acks(50_000)
            plan = self.plan(self.dirs[1])
            started = self.reassign("--execute", plan)
            self.assertEqual(started.count(f"Successfully started moving log directory to {self.dirs[1]}"), PARTITIONS)
            wait_until(lambda: self.moved_of(plan) == PARTITIONS, "the moves are done", DEADLINE_S)
            self.assertEqual(sorted(self.described()), [(self.dirs[0], 0, 0), (self.dirs[1], 0, PARTITIONS)])
            writer.wait_for_more_acks(10_000)
            writer.finish()
        writer.assert_all_there()

    def test_a_kill_in_the_middle_of_moves_loses_nothing(self):
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        with Writer(self.broker.bootstrap, TOPIC, PARTITIONS) as writer:
            writer.wait_for_acks(50_000)
            for round in range(ROUNDS):
                self.move_all(self.dirs[round % 2])
                time.sleep(chance.uniform(0, 0.2))
                self.broker.kill()
                self.broker.start()
                writer.wait_for_more_acks(1_000)
            target = self.dirs[(ROUNDS - 1) % 2]
            wait_until(lambda: len(list(target.glob(f"{TOPIC}-?"))) == PARTITIONS, "all is there", DEADLINE_S)
            other = self.dirs[ROUNDS % 2]
            wait_until(lambda: not list(other.glob(f"{TOPIC}-?")), "nothing is left", DEADLINE_S)
            writer.finish()
        writer.assert_all_there()

    def test_a_directory_that_is_lost_takes_only_its_partitions_along(self):
        if KIND.kind != "logway":
            self.skipTest("Kafka does not start when a directory is not formatted")
        self.broker.stop()
        self.dirs[1].rename(self.dirs[1].with_name("unmounted"))
        self.broker.start()
        lost = {partition for partition in range(PARTITIONS) if not (self.dirs[0] / f"{TOPIC}-{partition}").exists()}
        self.assertEqual(len(lost), PARTITIONS // 2)
        described = self.tool("TopicCommand", "--describe", "--topic", TOPIC, "--unavailable-partitions")
        self.assertEqual({p for p in range(PARTITIONS) if f"Partition: {p}\tLeader: none" in described}, lost)
        good, bad = sorted(self.log_dirs(), key=lambda directory: directory["error"] or "")
        self.assertIsNone(good["error"])
        self.assertEqual((bad["logDir"], bad["partitions"]), (str(self.dirs[1]), []))
        self.assertIn("KafkaStorageException", bad["error"])
        self.broker.stop()
        self.dirs[1].with_name("unmounted").rename(self.dirs[1])
        self.broker.start()
        self.assertEqual(sorted(self.described()), [(self.dirs[0], 0, 2), (self.dirs[1], 0, 2)])

    def plan(self, target: Path) -> str:
        partitions = [
            {"topic": TOPIC, "partition": partition, "replicas": [1], "log_dirs": [str(target)]}
            for partition in range(PARTITIONS)
        ]
        path = self.broker.directory / "plan.json"
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(path)

    def reassign(self, action: str, plan: str) -> str:
        return self.tool("reassign.ReassignPartitionsCommand", action, "--reassignment-json-file", plan)

    def moved_of(self, plan: str) -> int:
        """How many moves of a plan the tool finds done; it also takes back the rates that it may have set."""
        return self.reassign("--verify", plan).count("completed successfully")

    def described(self) -> list[tuple[Path, int, int]]:
        """For each directory, how many future logs and how many others it holds of the topic."""
        counts = []
        for directory in self.log_dirs():
            futures = [partition["isFuture"] for partition in directory["partitions"]]
            counts.append((Path(directory["logDir"]), futures.count(True), futures.count(False)))
        return counts

    def log_dirs(self) -> list[dict]:
        printed = self.tool("LogDirsCommand", "--describe", "--topic-list", TOPIC).splitlines()
        (broker,) = json.loads(printed[-1])["brokers"]
        return broker["logDirs"]

    def move_all(self, target: Path):
        """As the tool asks for it, but at once: the JVM takes longer to start than the move."""
        topic = string(TOPIC) + array([partition.to_bytes(4) for partition in range(PARTITIONS)])
        with Connection(self.broker.bootstrap) as connection:
            connection.request(ALTER_REPLICA_LOG_DIRS, 1, array([string(str(target)) + array([topic])]))

    def tool(self, name: str, *arguments: str) -> str:
        where = ["--bootstrap-server", self.broker.bootstrap]
        done = run_tool(name, *where, *arguments, deadline_s=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout
