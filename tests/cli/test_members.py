import contextlib
import signal
import subprocess
import unittest

from command import (
    BOOTSTRAP,
    DEADLINE_S,
    consume_json,
    create_topic,
    logway,
    numbered_lines,
    produce,
    run,
    wait_until,
)
from groups import committed, described, is_stable, kcat_member, leave_behind, needs_groups, new_group

from harness.logway import BINARY


@contextlib.contextmanager
def logway_member(group: str, topic: str, *arguments: str, members: int = 1):
    """A member, from when the group has that many until the end of the block, where it is asked to stop."""
    command = [BINARY, "consume", topic, "--group", group, "-b", BOOTSTRAP, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as member:
        try:
            wait_until(lambda: is_stable(group, members), f"{members} members of {group}")
            yield member
        finally:
            member.send_signal(signal.SIGINT)
            member.communicate(timeout=DEADLINE_S)


def consume(group: str, topic: str, *arguments: str) -> bytes:
    return logway("consume", topic, "--group", group, "-e", *arguments)


@needs_groups
class Alone(unittest.TestCase):
    def test_goes_on_where_it_was(self):
        topic, group = create_topic("goes-on"), new_group("goes-on")
        produce(topic, numbered_lines(10))
        self.assertEqual(consume(group, topic, "-n", "4"), numbered_lines(4))
        self.assertEqual(committed(group), {(topic, 0): 4})
        self.assertEqual(consume(group, topic), numbered_lines(10)[len(numbered_lines(4)) :])
        self.assertEqual(consume(group, topic), b"")
        produce(topic, b"later\n")
        self.assertEqual(consume(group, topic), b"later\n")
        description = described(group)
        self.assertEqual((description["state"], description["lag"]), ("Empty", 0))

    def test_begins_where_it_is_told_to(self):
        topic, group = create_topic("begins"), new_group("begins")
        produce(topic, numbered_lines(10))
        self.assertEqual(consume(group, topic, "-o", "-2"), b"line 8\nline 9\n")
        # Now something is committed.
        self.assertEqual(consume(group, topic, "-o", "start"), b"")

    def test_misses_nothing_after_it_found_nothing(self):
        topic, group = create_topic("found-nothing", "-p", "2"), new_group("found-nothing")
        produce(topic, b"before\n", "-p", "0")
        self.assertEqual(consume(group, topic, "-o", "end"), b"")
        self.assertEqual(committed(group), {(topic, 0): 1, (topic, 1): 0})
        produce(topic, b"later\n", "-p", "1")
        self.assertEqual(described(group)["lag"], 1)
        self.assertEqual(consume(group, topic, "-o", "end"), b"later\n")

    def test_goes_on_at_the_start_if_what_it_wants_is_gone(self):
        topic, group = create_topic("trimmed-under"), new_group("trimmed-under")
        produce(topic, numbered_lines(10))
        leave_behind(group, topic, 2)
        logway("topic", "trim", topic, "-p", "0", "-o", "8")
        done = run("consume", topic, "--group", group, "-e")
        self.assertEqual(done.stdout, b"line 8\nline 9\n")
        self.assertIn("offsets 2 to 7 exist no more", done.stderr.decode())

    def test_commits_nothing_if_told_so(self):
        topic, group = create_topic("no-commit"), new_group("no-commit")
        produce(topic, numbered_lines(10))
        leave_behind(group, topic, 5)
        for _ in range(2):
            self.assertEqual(len(consume(group, topic, "--no-commit").splitlines()), 5)
        self.assertEqual(committed(group), {(topic, 0): 5})

    def test_commits_and_leaves_when_it_is_stopped(self):
        topic, group = create_topic("stopped"), new_group("stopped")
        produce(topic, numbered_lines(3))
        for number in [signal.SIGINT, signal.SIGTERM]:
            with self.subTest(number), logway_member(group, topic) as member:
                produce(topic, b"one more\n")
                while member.stdout.readline() != b"one more\n":
                    pass
                member.send_signal(number)
                member.communicate(timeout=DEADLINE_S)
                self.assertEqual(member.returncode, 0)
            description = described(group)
            self.assertEqual((description["state"], description["members"], description["lag"]), ("Empty", [], 0))


@needs_groups
class Together(unittest.TestCase):
    def test_members_share_and_take_over(self):
        topic, group = create_topic("shared", "-p", "4"), new_group("shared")
        with logway_member(group, topic) as first:
            with logway_member(group, topic, members=2) as second:
                wait_until(lambda: self.shares(group) == [2, 2], "two partitions for each")
                for partition in range(4):
                    produce(topic, b"to %d\n" % partition, "-p", str(partition))
                lines = [first.stdout.readline(), first.stdout.readline()]
                lines += [second.stdout.readline(), second.stdout.readline()]
                self.assertEqual(sorted(lines), [b"to 0\n", b"to 1\n", b"to 2\n", b"to 3\n"])
            # The second has left and committed, so nothing comes twice.
            wait_until(lambda: self.shares(group) == [4], "all partitions for the one that stayed")
            produce(topic, b"again\n", "-p", "3")
            self.assertEqual(first.stdout.readline(), b"again\n")

    def test_beside_a_member_that_nobody_here_wrote(self):
        for ours_leads in [True, False]:
            with self.subTest(ours_leads=ours_leads):
                topic, group = create_topic("mixed", "-p", "4"), new_group("mixed")
                first, second = (logway_member, kcat_member) if ours_leads else (kcat_member, logway_member)
                with first(group, topic) as one, second(group, topic, members=2) as other:
                    wait_until(lambda: self.shares(group) == [2, 2], "two partitions for each")
                    for partition in range(4):
                        produce(topic, b"to %d\n" % partition, "-p", str(partition))
                    lines = [member.stdout.readline() for member in [one, one, other, other]]
                    self.assertEqual(sorted(lines), [b"to 0\n", b"to 1\n", b"to 2\n", b"to 3\n"])

    def test_every_record_is_read_while_members_come_and_go(self):
        topic, group = create_topic("restless", "-p", "6"), new_group("restless")
        # Few enough lines to stay in the pipe that nobody reads.
        for partition in range(6):
            values = range(1000 * partition, 1000 * (partition + 1))
            produce(topic, b"".join(b"%d\n" % value for value in values), "-p", str(partition))
        seen = []
        for count in [1, 2, 1]:
            with contextlib.ExitStack() as stack:
                members = [
                    stack.enter_context(logway_member(group, topic, members=number + 1)) for number in range(count)
                ]
                produce(topic, b"marker\n", "-p", "0")
                wait_until(lambda: described(group)["lag"] == 0, "everything to be read and committed")
                for member in members:
                    member.send_signal(signal.SIGINT)
                    seen += member.communicate(timeout=DEADLINE_S)[0].splitlines()
        read = {record["value"] for record in consume_json(topic)}
        self.assertEqual({line.decode() for line in seen}, read)
        self.assertEqual(len(read), 6001)

    def shares(self, group: str) -> list[int]:
        return [member["partition_count"] for member in described(group)["members"]]


@needs_groups
class Refusals(unittest.TestCase):
    def test_a_missing_topic(self):
        done = run("consume", "cli-missing", "--group", new_group("missing"))
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn("cli-missing", done.stderr.decode())


class Usage(unittest.TestCase):
    def test_what_does_not_go_with_a_group(self):
        for arguments in [["--group", "g", "-p", "0"], ["--no-commit"]]:
            self.assertEqual(run("consume", "t", *arguments).returncode, 2)
