import os

import client

from client_cases.case import ClientCase, numbered, produce
from client_cases.member import Member
from client_cases.model import Code, fresh, read, wait_until

UNKNOWN_BROKER = 4711


class Admin(ClientCase):
    def test_admin_topics(self):
        topic = self.create_topic("listed", partitions=3)
        self.assertIn(topic, client.topics())
        self.assertEqual(client.partitions(topic), [0, 1, 2])
        client.delete_topic(topic)
        wait_until(lambda: topic not in client.topics(), f"{topic} to be gone")

    def test_admin_partitions(self):
        self.need("add_partitions")
        topic = self.create_topic("grown")
        client.add_partitions(topic, 4)
        wait_until(lambda: client.partitions(topic) == [0, 1, 2, 3], f"{topic} to have 4 partitions")
        produce(topic, numbered(5), partition=3)
        self.assertEqual(len(self.consume(topic, 5, partition=3)), 5)

    def test_admin_topic_configs(self):
        self.need("topic_configs", "set_topic_config")
        topic = self.create_topic("configured", retention_ms="3600000")

        def retention() -> tuple[str, bool]:
            return client.topic_configs(topic)["retention.ms"]

        self.assertEqual(retention(), ("3600000", False))
        self.assertEqual(client.topic_configs(topic)["segment.bytes"], ("1073741824", True))
        client.set_topic_config(topic, "retention.ms", "7200000")
        wait_until(lambda: retention() == ("7200000", False), "the setting to be changed")
        client.set_topic_config(topic, "retention.ms", None)
        wait_until(lambda: retention() == ("604800000", True), "the setting to be reset")

    def test_admin_broker_configs(self):
        self.need("broker_configs")
        configs = client.broker_configs(client.cluster()[1][0][0])
        self.assertEqual(configs["num.partitions"], "1")
        self.assertEqual(configs["message.max.bytes"], "1048588")

    def test_admin_cluster(self):
        cluster_id, brokers, controller = client.cluster()
        if cluster_id is not None:
            self.assertRegex(cluster_id, r"^[A-Za-z0-9_-]{22}$")
        ((node, address),) = brokers
        self.assertEqual(address, os.environ["BOOTSTRAP"])
        self.assertEqual(controller, node)

    def test_admin_list_offsets(self):
        topic = self.create_topic("listed-offsets", partitions=2)
        produce(topic, numbered(10), partition=1)
        self.assertEqual([client.list_offsets(topic, partition) for partition in range(2)], [(0, 0), (0, 10)])
        if hasattr(client, "delete_records"):
            client.delete_records(topic, 1, 4)
            self.assertEqual(client.list_offsets(topic, 1), (4, 10))

    def test_admin_delete_records(self):
        self.need("delete_records")
        topic = self.create_topic("truncated")
        produce(topic, numbered(100))
        self.assertEqual(client.delete_records(topic, 0, 60), 60)
        consumer = self.consumer()
        consumer.assign(topic, {0: 0})
        consumer.seek_to_beginning(topic, 0)
        self.assertEqual(read(consumer, 1)[0].key, b"60")
        self.assert_refused(Code.OFFSET_OUT_OF_RANGE, client.delete_records, topic, 0, 101)

    def test_admin_log_dirs(self):
        self.need("log_dir_bytes")
        topic = self.create_topic("placed")
        produce(topic, numbered(1_000))
        self.assertGreater(client.log_dir_bytes(topic, 0), 10_000)

    def test_admin_quotas(self):
        self.need("client_quotas", "set_client_quota")
        name = fresh("limited")
        client.set_client_quota(name, "producer_byte_rate", 1_000_000.0)
        wait_until(lambda: client.client_quotas(name) == {"producer_byte_rate": 1_000_000.0}, "the quota")
        client.set_client_quota(name, "producer_byte_rate", None)
        wait_until(lambda: client.client_quotas(name) == {}, "the quota to be gone")

    def test_admin_reassignments(self):
        self.need("reassign", "reassignments")
        topic = self.create_topic("reassigned")
        _, ((node, _),), _ = client.cluster()
        client.reassign(topic, 0, [node])
        self.assert_refused(Code.INVALID_REPLICA_ASSIGNMENT, client.reassign, topic, 0, [UNKNOWN_BROKER])
        wait_until(lambda: not client.reassignments(), "no reassignment to be listed")

    def test_admin_elect_leaders(self):
        self.need("elect_preferred_leader")
        topic = self.create_topic("elected")
        self.assertEqual(client.elect_preferred_leader(topic, 0), Code.ELECTION_NOT_NEEDED)

    def test_admin_producers(self):
        self.need("last_sequences")
        topic = self.create_topic("produced")
        produce(topic, numbered(10), idempotent=True)
        self.assertEqual(client.last_sequences(topic, 0), [9])


class GroupAdmin(ClientCase):
    def committed_group(self) -> tuple[str, str]:
        """A topic of three partitions, ten records each, and a group without members that has read five of each."""
        topic, group = self.create_topic("group-admin", partitions=3), fresh("group-admin")
        for partition in range(3):
            produce(topic, numbered(10), partition)
        self.consumer(group=group).commit({(topic, partition): (5, "") for partition in range(3)})
        return topic, group

    def offset(self, group: str, topic: str, partition: int) -> int | None:
        found = self.consumer(group=group).committed(topic, partition)
        return found and found[0]

    def test_admin_groups(self):
        self.need("groups", "describe_group")
        topic, group = self.create_topic("described", partitions=2), fresh("described")
        member = Member(group, topic)
        self.addCleanup(member.close)
        member.wait_for_partitions(2)
        self.assertIn(group, client.groups())
        described = client.describe_group(group)
        self.assertEqual((described.state, described.protocol), ("Stable", "range"))
        (one,) = described.members
        self.assertIn("127.0.0.1", one.client_host)
        self.assertEqual(one.partitions, {(topic, 0), (topic, 1)})

    def test_admin_delete_groups(self):
        self.need("delete_group")
        topic, group = self.committed_group()
        client.delete_group(group)
        self.assertIsNone(self.offset(group, topic, 0))
        member = Member(group, topic)
        self.addCleanup(member.close)
        member.wait_for_partitions(3)
        self.assert_refused(Code.NON_EMPTY_GROUP, client.delete_group, group)

    def test_admin_group_offsets(self):
        self.need("group_offsets")
        topic, group = self.committed_group()
        self.assertEqual(client.group_offsets(group), {(topic, partition): 5 for partition in range(3)})
        if hasattr(client, "alter_group_offset"):
            client.alter_group_offset(group, topic, 1, 8)
        else:
            self.consumer(group=group).commit({(topic, 1): (8, "")})
        self.assertEqual(client.group_offsets(group)[topic, 1], 8)
        member = Member(group, topic)
        self.addCleanup(member.close)
        member.wait_until(lambda: len(member.records) >= 12, "12 records")
        self.assertEqual(min(record.offset for record in member.records if record.partition == 1), 8)

    def test_admin_delete_offsets(self):
        self.need("delete_group_offset")
        topic, group = self.committed_group()
        client.delete_group_offset(group, topic, 1)
        self.assertEqual([self.offset(group, topic, partition) for partition in range(3)], [5, None, 5])
