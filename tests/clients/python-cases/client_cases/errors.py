import client

from client_cases.case import ClientCase, produce
from client_cases.member import Member
from client_cases.model import Code, Record, fresh, read

TOO_LARGE_BYTES = 1_100_000


class Errors(ClientCase):
    def test_error_unknown_topic(self):
        self.assert_refused(Code.UNKNOWN_TOPIC_OR_PARTITION, client.delete_topic, fresh("missing"))
        if hasattr(client, "describe_missing"):
            missing = fresh("missing")
            self.assert_refused(Code.UNKNOWN_TOPIC_OR_PARTITION, client.describe_missing, missing)
            self.assertNotIn(missing, client.topics())

    def test_error_too_large(self):
        topic = self.create_topic("too-large")
        large = [Record(b"x" * TOO_LARGE_BYTES)]
        self.assert_refused(Code.MESSAGE_TOO_LARGE, produce, topic, large, request_bytes_max=2_000_000)
        produce(topic, [Record(b"fits")])
        self.assertEqual([record.value for record in self.consume(topic, 1)], [b"fits"])

    def test_error_offset_out_of_range(self):
        topic = self.create_topic("out-of-range")
        produce(topic, [Record(b"x")])
        consumer = self.consumer(reset="none")
        consumer.assign(topic, {0: 1_000})
        self.assert_refused(Code.OFFSET_OUT_OF_RANGE, read, consumer, 1)

    def test_error_topic_exists(self):
        topic = self.create_topic("taken")
        self.assert_refused(Code.TOPIC_ALREADY_EXISTS, client.create_topic, topic, 1, {})

    def test_error_invalid_config(self):
        setting = {"no.such.setting": "1"}
        refused = self.assert_refused(Code.INVALID_CONFIG, client.create_topic, fresh("odd"), 1, setting)
        self.assertIn("no.such.setting", refused.message)

    def test_error_wrong_epoch(self):
        self.need("end_of_epoch")
        topic = self.create_topic("epoch")
        produce(topic, [Record(b"x")])
        self.assert_refused(Code.UNKNOWN_LEADER_EPOCH, client.end_of_epoch, topic, 0, current_leader_epoch=1_000)


class GroupErrors(ClientCase):
    def test_error_unknown_group(self):
        self.need("delete_group")
        self.assert_refused(Code.GROUP_ID_NOT_FOUND, client.delete_group, fresh("missing"))

    def test_error_stale_member(self):
        """Whoever commits without being a member is refused as long as the group has members."""
        topic, group = self.create_topic("stale"), fresh("stale")
        member = Member(group, topic)
        self.addCleanup(member.close)
        member.wait_for_partitions(1)
        outside = self.consumer(group=group)
        self.assert_refused(Code.UNKNOWN_MEMBER_ID, outside.commit, {(topic, 0): (0, "")})
