import subprocess
import time
import unittest

from kcat import BOOTSTRAP, create_topic, kcat, produce
from member import Member, committed

from client_cases.model import fresh, wait_until

FLOW_RECORDS = 100_000
FLOW_DEADLINE_S = 60


def keyed(start: int, end: int) -> bytes:
    return b"".join(b"%d:value %d\n" % (number, number) for number in range(start, end))


def ends(topic: str, partitions: int) -> list[int]:
    """The next offset of each partition: kcat answers `TOPIC [PARTITION] offset N`."""
    return [int(kcat("-Q", "-t", f"{topic}:{partition}:-1").split()[-1]) for partition in range(partitions)]


def seen_by(*members: Member) -> set[int]:
    """The numbers of the records that any of them has printed."""
    return {number for member in members for _, _, number in member.records()}


class Group(unittest.TestCase):
    def join(self, group: str, topic: str, *settings: str) -> Member:
        member = Member(group, topic, *settings)
        self.addCleanup(member.close)
        return member

    def topic(self, purpose: str, partitions: int) -> str:
        topic = fresh(f"kcat-{purpose}")
        create_topic(topic, partitions)
        return topic

    def test_group_resume(self):
        topic, group = self.topic("resume", 3), fresh("kcat-resume")
        produce(topic, "-K", ":", stdin=keyed(0, 300))
        first = self.join(group, topic)
        first.wait_until(lambda: len(first.records()) == 300, "300 records")
        first.leave()
        self.assertEqual(committed(group, topic, 3), ends(topic, 3))
        produce(topic, "-K", ":", stdin=keyed(300, 330))
        second = self.join(group, topic)
        second.wait_until(lambda: len(second.records()) >= 30, "30 records")
        second.leave()
        self.assertEqual(sorted(number for _, _, number in second.records()), list(range(300, 330)))

    def test_group_rebalance(self):
        self.run_flow("range")

    def test_group_cooperative(self):
        first, second = self.run_flow("cooperative-sticky")
        moved = first.lost()
        self.assertEqual(len(moved), 2)
        self.assertLessEqual(moved, second.lost())

    def run_flow(self, strategy: str) -> tuple[Member, Member]:
        """Records flow while a second member joins and leaves; returns both, the first while it is still there."""
        topic, group = self.topic("flow", 4), fresh("kcat-flow")
        setting = f"partition.assignment.strategy={strategy}"
        first = self.join(group, topic, setting)
        first.wait_for_partitions(4)
        produce(topic, "-K", ":", stdin=keyed(0, 20_000))
        second = self.join(group, topic, setting)
        command = ["kcat", "-b", BOOTSTRAP, "-P", "-t", topic, "-K", ":"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as producer:
            for start in range(20_000, 60_000, 2_000):
                producer.stdin.write(keyed(start, start + 2_000))
                producer.stdin.flush()
            second.wait_for_partitions(2)
            producer.stdin.write(keyed(60_000, 80_000))
        self.assertEqual(producer.returncode, 0)
        # A signal can keep kcat from printing a record that it then commits: it is ended when it has none at hand.
        second.wait_until(lambda: len(seen_by(first, second)) == 80_000, "seen 80,000 records with the other")
        self.assertTrue(second.records())
        second.leave()
        produce(topic, "-K", ":", stdin=keyed(80_000, FLOW_RECORDS))

        began = time.monotonic()
        while len(seen := seen_by(first, second)) < FLOW_RECORDS:
            self.assertLess(time.monotonic() - began, FLOW_DEADLINE_S, f"{len(seen)} of the records were seen")
            time.sleep(0.05)
        first.wait_for_partitions(4)
        self.assertTrue(first.records())
        wanted = ends(topic, 4)
        self.assertEqual(sum(wanted), FLOW_RECORDS)
        wait_until(lambda: committed(group, topic, 4) == wanted, f"the committed offsets to be {wanted}")
        return first, second

    def test_group_static(self):
        topic, group = self.topic("static", 4), fresh("kcat-static")
        stays = self.join(group, topic, "group.instance.id=stays")
        stays.wait_for_partitions(4)
        restarts = self.join(group, topic, "group.instance.id=restarts")
        restarts.wait_for_partitions(2)
        stays.wait_for_partitions(2)
        had, told = restarts.assigned(), len(stays.rebalances())
        restarts.leave()
        restarted = self.join(group, topic, "group.instance.id=restarts")
        restarted.wait_for_partitions(2)
        self.assertEqual(restarted.assigned(), had)
        for partition in range(4):
            produce(topic, "-p", str(partition), "-K", ":", stdin=keyed(0, 1))
        stays.wait_until(lambda: len(stays.records()) == 2, "a record of each partition")
        self.assertEqual(len(stays.rebalances()), told, "the other member saw a rebalance")
