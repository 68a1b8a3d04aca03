import os
import random
import unittest

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from harness.brokers import KINDS
from harness.load import DEADLINE_S, Writer, admin_client, assert_kept, create_topics, read_all
from harness.seed import SEED

KIND = KINDS[os.environ["AGAINST"]]
PARTITIONS = 4
ROUNDS = 6


class KillNine(unittest.TestCase):
    def test_every_acked_record_is_there_once_and_in_order(self):
        """One producer writes on while its broker is killed and restarted, at random moments."""
        print(f"SEED={SEED}")
        chance = random.Random(SEED)
        with KIND("crash-kill") as broker:
            create_topics(broker.bootstrap, NewTopic("killed", PARTITIONS, 1))
            with Writer(broker.bootstrap, "killed", PARTITIONS) as writer:
                for round in range(ROUNDS):
                    writer.wait_for_more_acks(chance.randrange(1, 30_000))
                    broker.kill()
                    acked = writer.acked_now()
                    broker.start()
                    count = sum(map(len, acked))
                    print(f"round {round}: {count} records acknowledged, ready again in {broker.ready_s:.2f} s")
                    self.assertLess(broker.ready_s, KIND.restart_s_max)
                    assert_kept(acked, read_all(broker.bootstrap, "killed", PARTITIONS))
                writer.finish()
            writer.assert_all_there()

    def test_topics_and_configs_survive(self):
        with KIND("crash-metadata") as broker:
            create_topics(broker.bootstrap, *(NewTopic(f"kept-{number}", number + 1, 1) for number in range(5)))
            admin = admin_client(broker.bootstrap)
            entry = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, "kept-0", incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
            admin.delete_topics(["kept-4"])["kept-4"].result(DEADLINE_S)
            broker.kill()
            broker.start()
            admin = admin_client(broker.bootstrap)
            listed = admin.list_topics(timeout=DEADLINE_S)
            self.assertEqual(
                {name: len(topic.partitions) for name, topic in listed.topics.items()},
                {f"kept-{number}": number + 1 for number in range(4)},
            )
            self.assertEqual(
                admin.describe_configs([resource])[resource].result(DEADLINE_S)["retention.ms"].value, "12345"
            )
