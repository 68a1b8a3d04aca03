"""A broker that runs out of descriptors while it is written to."""

import os
import resource
import unittest
from pathlib import Path

from confluent_kafka.admin import NewTopic
from probe import Probe

from harness.brokers import KINDS
from harness.load import Writer, create_topics
from harness.protocol import METADATA, Connection, metadata_v1
from harness.waiting import wait_until

KIND = KINDS[os.environ["AGAINST"]]
PARTITIONS = 4
HOGS = 120
SPARE = 8
DEADLINE_S = 30


@unittest.skipIf(KIND.kind != "logway", "about Logway's own log")
class Descriptors(unittest.TestCase):
    def test_a_broker_that_is_out_of_files_says_so_once_and_recovers(self):
        broker = KIND("machine-descriptors").start()
        self.addCleanup(broker.kill)
        # Segments that are full soon: new ones need files.
        small = {"segment.bytes": str(1 << 20)}
        topics = NewTopic("kept", PARTITIONS, 1, config=small), NewTopic("probed", 1, 1, config=small)
        create_topics(broker.bootstrap, *topics)
        with (
            Writer(broker.bootstrap, "kept", PARTITIONS, producers=2) as writer,
            Probe(broker.bootstrap, "probed") as probe,
        ):
            writer.wait_for_acks(10_000)
            pid = broker.process.pid
            usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            few = len(list(Path(f"/proc/{pid}/fd").iterdir())) + SPARE
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, usual[1]))
            hogs = [Connection(broker.bootstrap) for _ in range(HOGS)]
            wait_until(lambda: "cannot accept" in broker.log_since_start(), "it to be said", DEADLINE_S)
            probe.until_refused()
            for hog in hogs:
                hog.close()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
            print(f"at {few} files; appends go on after {probe.until_taken():.2f} s")
            writer.wait_for_more_acks(10_000)
            with Connection(broker.bootstrap) as polite:
                self.assertTrue(polite.request(METADATA, 1, metadata_v1([])))
            writer.finish()
            writer.assert_all_there()
        log = broker.log_since_start()
        self.assertLessEqual(log.count("cannot accept"), 2, log)
        self.assertIn("ulimit -n", log)
