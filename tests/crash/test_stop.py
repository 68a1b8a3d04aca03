import os
import unittest

from confluent_kafka.admin import NewTopic

from harness.broker import BrokerFailed
from harness.brokers import KINDS
from harness.dump_log import dump_log
from harness.load import Writer, create_topics

KIND = KINDS[os.environ["AGAINST"]]
RECORDS = 50_000


class Stop(unittest.TestCase):
    def setUp(self):
        """A broker with a topic, and a writer to it that has written for a while and goes on."""
        self.broker = KIND("crash-stop").start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, NewTopic("stopped", 1, 1, config={"segment.bytes": "1048576"}))
        self.writer = self.enterContext(Writer(self.broker.bootstrap, "stopped", 1))
        self.writer.wait_for_acks(RECORDS)

    def test_sigterm_under_load_exits_cleanly_and_nothing_is_lost(self):
        self.assertEqual(self.broker.stop(), KIND.sigterm_exit_code)
        self.broker.start()
        self.assertLess(self.broker.ready_s, KIND.restart_s_max)
        self.writer.finish()
        self.writer.assert_all_there()

    def test_the_files_of_a_stopped_broker_satisfy_kafkas_own_check(self):
        self.writer.finish()
        self.broker.stop()
        (directory,) = self.broker.data_dir.rglob("stopped-0")
        indexes = sorted(directory.glob("*index"))
        self.assertGreater(len(indexes), 2)
        self.assertEqual(dump_log(indexes, "--index-sanity-check").count("passed sanity check"), len(indexes))
        dump_log(sorted(directory.glob("*.log")) + sorted(directory.glob("*.snapshot")) + indexes)

    def test_a_second_instance_on_the_same_data_is_refused(self):
        second = KIND("crash-second", data_dir=self.broker.data_dir)
        self.addCleanup(second.kill)
        with self.assertRaisesRegex(BrokerFailed, "ended with exit code [1-9]") as refused:
            second.start()
        self.assertRegex(str(refused.exception), "(?i)in use|lock|another")
        self.assertIn(str(self.broker.data_dir), str(refused.exception))
        self.writer.wait_for_more_acks(1_000)
