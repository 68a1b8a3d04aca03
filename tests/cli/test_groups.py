import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from command import BOOTSTRAP, DEADLINE_S, consume_json, create_topic, logway, logway_json, numbered_lines, produce, run
from groups import committed, described, kcat_member, leave_behind, needs_groups, new_group
from test_errors import assert_refused

from harness.logway import BINARY


def rows_of(arguments: list[str]) -> list[tuple]:
    return [(row["topic"], row["partition"], row["before"], row["after"]) for row in logway_json(*arguments)]


@needs_groups
class Listing(unittest.TestCase):
    def test_list(self):
        topic, group = create_topic("listed"), new_group("listed")
        leave_behind(group, topic, 0)
        (row,) = [row for row in logway_json("group", "list") if row["group"] == group]
        self.assertEqual((row["state"], row["type"]), ("Empty", "classic"))
        self.assertIn(group, logway("group", "list", "--state", "stable,EMPTY").decode())
        self.assertNotIn(group, logway("group", "list", "--state", "dead").decode())
        unknown = run("group", "list", "--state", "bogus")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn(b"preparingrebalance", unknown.stderr)


@needs_groups
class Describing(unittest.TestCase):
    def test_a_group_without_members_shows_its_lag(self):
        topic, group = create_topic("left", "-p", "2"), new_group("left")
        produce(topic, numbered_lines(100), "-p", "0")
        leave_behind(group, topic, 40, 0)
        description = described(group)
        self.assertEqual((description["state"], description["members"], description["lag"]), ("Empty", [], 60))
        first, second = description["partitions"]
        self.assertEqual((first["committed_offset"], first["end_offset"], first["lag"]), (40, 100, 60))
        self.assertEqual((second["lag"], second["lag_seconds"]), (0, 0))
        self.assertIsNone(first["member_id"])

    def test_the_lag_in_seconds_is_the_age_of_the_oldest_unread_record(self):
        topic, group = create_topic("age"), new_group("age")
        for number in range(3):
            produce(topic, b"record %d\n" % number)
        made_at = [record["timestamp"] / 1000 for record in consume_json(topic)]
        for offset in [0, 1, 2]:
            leave_behind(group, topic, offset)
            before, lag_seconds, after = time.time(), described(group)["lag_seconds"], time.time()
            # Broker and client share a clock here; milliseconds may be rounded.
            self.assertGreaterEqual(lag_seconds, before - made_at[offset] - 0.01)
            self.assertLessEqual(lag_seconds, after - made_at[offset] + 0.01)

    def test_the_age_of_a_record_inside_of_a_large_batch(self):
        topic, group = create_topic("batch"), new_group("batch")
        produce(topic, b"x" * 100_000 + b"\n" + numbered_lines(10))
        leave_behind(group, topic, 5)
        self.assertLess(described(group)["lag_seconds"], 60)

    def test_records_that_retention_took_are_no_lag(self):
        topic, group = create_topic("trimmed"), new_group("trimmed")
        produce(topic, numbered_lines(100))
        leave_behind(group, topic, 10)
        logway("topic", "trim", topic, "-p", "0", "-o", "70")
        (partition,) = described(group)["partitions"]
        self.assertEqual((partition["committed_offset"], partition["start_offset"], partition["lag"]), (10, 70, 30))
        self.assertIsNotNone(partition["lag_seconds"])

    def test_members_and_what_they_read(self):
        topic, group = create_topic("members", "-p", "2"), new_group("members")
        produce(topic, numbered_lines(10))
        with kcat_member(group, topic), kcat_member(group, topic, members=2), kcat_member(group, topic, members=3):
            description = described(group)
            self.assertEqual((description["state"], description["protocol_type"]), ("Stable", "consumer"))
            self.assertEqual(description["assignor"], "range")
            self.assertEqual(description["coordinator_address"], BOOTSTRAP)
            self.assertEqual(sorted(member["partition_count"] for member in description["members"]), [0, 1, 1])
            owners = {row["member_id"] for row in description["partitions"]}
            self.assertEqual(len(owners), 2)
            self.assertLess(owners, {member["member_id"] for member in description["members"]})
            self.assertEqual({row["host"] for row in description["partitions"]}, {"127.0.0.1"})
            text = logway("group", "describe", group).decode()
            self.assertRegex(text, r"GROUP +" + group)
            self.assertRegex(text, r"\n- +- +- +- +- +- +rdkafka")

    def test_a_deleted_topic_is_told_of(self):
        topic, group = create_topic("gone"), new_group("gone")
        other = create_topic("stays")
        leave_behind(group, topic, 0)
        leave_behind(group, other, 0)
        logway("topic", "delete", topic)
        done = run("group", "describe", group)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn(other, done.stdout.decode())
        # Kafka removes the offsets of a deleted topic, sooner or later.
        if topic in done.stdout.decode():
            self.assertIn(f"warning: {topic}-0 does not exist", done.stderr.decode())

    def test_several_groups_of_which_one_is_missing(self):
        topic, group = create_topic("several"), new_group("several")
        leave_behind(group, topic, 0)
        done = run("group", "describe", "cli-no-such-group", group)
        self.assertEqual(done.returncode, 1)
        self.assertIn(group, done.stdout.decode())
        self.assertIn("cli-no-such-group", done.stderr.decode())


@needs_groups
class Watching(unittest.TestCase):
    def test_tables_follow_each_other_where_there_is_no_terminal(self):
        topic, group = create_topic("followed"), new_group("followed")
        leave_behind(group, topic, 0)
        command = [BINARY, "group", "describe", group, "-b", BOOTSTRAP, "--watch=0.1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
            seen = b""
            while seen.count(b"GROUP  ") < 3:
                seen += watch.stdout.read1()
            self.assertNotIn(b"\x1b", seen)
            times = re.findall(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\nGROUP  ", seen, re.MULTILINE)
            self.assertGreaterEqual(len(times), 3, seen)
            watch.send_signal(signal.SIGINT)
            watch.stdout.read()
            self.assertEqual(watch.wait(DEADLINE_S), 0)

    def test_a_pause_needs_its_sign(self):
        assert_refused(self, ["group", "describe", "--watch", "2"], "--watch=2")

    def test_json_is_a_line_each_time(self):
        topic, group = create_topic("lines"), new_group("lines")
        leave_behind(group, topic, 0)
        command = [BINARY, "group", "describe", group, "-b", BOOTSTRAP, "--watch=0.1", "--format", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
            for lag in [0, 5]:
                while json.loads(watch.stdout.readline())[0]["lag"] != lag:
                    pass
                produce(topic, numbered_lines(5))
            watch.terminate()
            watch.stdout.read()
            self.assertEqual(watch.wait(DEADLINE_S), 0)

    def test_a_terminal_is_drawn_on_in_place_and_given_back(self):
        topic, group = create_topic("drawn"), new_group("drawn")
        leave_behind(group, topic, 0)
        ours, theirs = pty.openpty()
        command = [BINARY, "group", "describe", group, "-b", BOOTSTRAP, "--watch=0.1"]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as watch:
            os.close(theirs)
            screen = Screen(ours)
            screen.read_until(lambda seen: seen.count(b"\x1b[H") >= 3)
            watch.send_signal(signal.SIGINT)
            screen.read_until(lambda seen: False)
            self.assertEqual(watch.wait(DEADLINE_S), 0)
        os.close(ours)
        entered, left = screen.seen.index(b"\x1b[?1049h"), screen.seen.index(b"\x1b[?1049l")
        self.assertLess(entered, left)
        # The last table stays.
        self.assertIn(group.encode(), screen.seen[left:])
        self.assertIn(b"\x1b[?25h", screen.seen)


class Screen:
    """What a program has written to a terminal."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        self.seen = b""

    def read_until(self, is_enough):
        """Reads until it is enough, or the program ends."""
        deadline = threading.Timer(DEADLINE_S, lambda: os.close(self.descriptor))
        deadline.start()
        try:
            while not is_enough(self.seen):
                part = os.read(self.descriptor, 4096)
                if not part:
                    return
                self.seen += part
        except OSError:
            # How Linux says that the other side is closed.
            return
        finally:
            deadline.cancel()


@needs_groups
class Seeking(unittest.TestCase):
    def test_every_target(self):
        topic, group = create_topic("targets", "-p", "2"), new_group("targets")
        produce(topic, numbered_lines(100), "-p", "0")
        produce(topic, numbered_lines(10), "-p", "1")
        logway("topic", "trim", topic, "-p", "0", "-o", "20")
        leave_behind(group, topic, 50, 5)
        at = consume_json(topic, "-p", "1")[0]["timestamp"]
        for arguments, first, second in [
            (["--to", "start"], 20, 0),
            (["--to", "end"], 100, 10),
            (["--to", "7"], 20, 7),
            (["--to", "-3"], 97, 7),
            (["--to", "+3"], 23, 3),
            (["--to", f"@{at}"], 100, 0),
            (["--to", "@2020-01-01T00:00:00Z"], 20, 0),
            (["--to", "@2120-01-01T00:00:00Z"], 100, 10),
            (["--by", "-4"], 96, 6),
            (["--by", "+1"], 97, 7),
            (["--by", "1000"], 100, 10),
        ]:
            with self.subTest(arguments):
                before = committed(group)
                expected = [(topic, 0, before[topic, 0], first), (topic, 1, before[topic, 1], second)]
                dry = rows_of(["group", "seek", group, *arguments, "--dry-run"])
                self.assertEqual((dry, committed(group)), (expected, before))
                self.assertEqual(rows_of(["group", "seek", group, *arguments]), expected)
                self.assertEqual(committed(group), {(topic, 0): first, (topic, 1): second})

    def test_only_some_partitions(self):
        one, two, group = create_topic("some", "-p", "3"), create_topic("others"), new_group("some")
        produce(one, numbered_lines(10), "-p", "1")
        leave_behind(group, one, 0, 0)
        leave_behind(group, two, 0)
        # Partition 2 has not been committed before.
        self.assertEqual(
            rows_of(["group", "seek", group, "--to", "end", "-t", f"{one}:1,2"]), [(one, 1, 0, 10), (one, 2, None, 0)]
        )
        self.assertEqual(committed(group), {(one, 0): 0, (one, 1): 10, (one, 2): 0, (two, 0): 0})

    def test_to_where_another_group_or_a_file_is(self):
        topic, group, other = create_topic("copied", "-p", "2"), new_group("copy"), new_group("original")
        produce(topic, numbered_lines(50), "-p", "0")
        produce(topic, numbered_lines(50), "-p", "1")
        leave_behind(other, topic, 11, 22)
        assert_refused(self, ["group", "seek", group, "--to-group", "cli-nobody"], "'cli-nobody' has committed nothing")
        logway("group", "seek", group, "--to-group", other)
        self.assertEqual(committed(group), committed(other))
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"{topic} 0 33\n\n{topic}\t1\t44\n")
            file.flush()
            logway("group", "seek", group, "--to-file", file.name, "--topic", f"{topic}:1")
            self.assertEqual(committed(group), {(topic, 0): 11, (topic, 1): 44})

    def test_a_group_reads_on_where_it_was_moved(self):
        topic, group = create_topic("moved"), new_group("moved")
        produce(topic, numbered_lines(10))
        leave_behind(group, topic, 8)
        with kcat_member(group, topic) as member:
            self.assertEqual([member.stdout.readline(), member.stdout.readline()], [b"line 8\n", b"line 9\n"])


@needs_groups
class Deleting(unittest.TestCase):
    def test_delete(self):
        topic, group, other = create_topic("removed"), new_group("removed"), new_group("kept")
        leave_behind(group, topic, 0)
        leave_behind(other, topic, 0)
        logway("group", "delete", group)
        names = [row["group"] for row in logway_json("group", "list")]
        self.assertNotIn(group, names)
        self.assertIn(other, names)


@needs_groups
class Refusals(unittest.TestCase):
    def test_a_group_with_members_is_neither_moved_nor_deleted(self):
        topic, group = create_topic("busy"), new_group("busy")
        produce(topic, numbered_lines(10))
        with kcat_member(group, topic):
            assert_refused(self, ["group", "seek", group, "--to", "start"], group, "1 member ", "group describe")
            assert_refused(self, ["group", "delete", group], group, "group describe")

    def test_a_group_that_does_not_exist(self):
        for command in ["describe", "delete"]:
            assert_refused(self, ["group", command, "cli-no-such-group"], "cli-no-such-group", "group list")
        done = run("group", "seek", "cli-no-such-group", "--to", "start")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn("--topic", done.stderr.decode())

    def test_a_topic_or_partition_that_does_not_exist(self):
        topic, group = create_topic("absent"), new_group("absent")
        leave_behind(group, topic, 0)
        assert_refused(self, ["group", "seek", group, "--to", "start", "-t", "cli-no-such-topic"], "cli-no-such-topic")
        assert_refused(self, ["group", "seek", group, "--to", "start", "-t", f"{topic}:9"], topic, "9")


class Usage(unittest.TestCase):
    def test_wrong_usage_exits_with_2(self):
        for arguments in [
            ["describe"],
            ["describe", "g", "--watch=0"],
            ["seek", "g"],
            ["seek", "g", "--to", "yesterday"],
            ["seek", "g", "--to", "start", "--by", "1"],
            ["seek", "g", "--to", "start", "-t", "t:x"],
            ["delete"],
        ]:
            with self.subTest(arguments):
                refused = run("group", *arguments)
                self.assertEqual((refused.returncode, refused.stdout), (2, b""))
