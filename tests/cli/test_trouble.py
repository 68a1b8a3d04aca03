"""What the command line says when something is wrong with a broker, which here is always one of its own."""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from command import DEADLINE_S, numbered_lines, run, wait_until

from harness.broker import fresh_directory
from harness.logway import BINARY, Logway


@unittest.skipUnless(os.environ.get("AGAINST", "logway") == "logway", "it is about Logway's own brokers")
class Trouble(unittest.TestCase):
    def setUp(self):
        self.broker = Logway("cli-trouble").start()
        self.addCleanup(self.broker.kill)

    def restart(self, change):
        """Stops the broker, changes its files, and starts it again."""
        self.assertEqual(self.broker.stop(), 0)
        change()
        self.broker.start()

    def logway(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
        return run(*arguments, "-b", self.broker.bootstrap, stdin=stdin)

    def done(self, *arguments: str, stdin: bytes = b"") -> tuple[bytes, str]:
        """What a command that succeeds prints."""
        done = self.logway(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout, done.stderr.decode()

    def refused(self, *arguments: str, stdin: bytes = b"") -> str:
        refused = self.logway(*arguments, stdin=stdin)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        return refused.stderr.decode()


class Leaderless(Trouble):
    def setUp(self):
        """A topic whose second partition has vanished."""
        super().setUp()
        self.done("topic", "create", "t", "-p", "2")
        for partition in ["0", "1"]:
            self.done("produce", "t", "-p", partition, stdin=numbered_lines(10))
        self.restart(lambda: (self.broker.data_dir / "t-1").rename(self.broker.directory / "t-1"))

    def test_the_other_partitions_are_described(self):
        stdout, stderr = self.done("topic", "describe", "t")
        self.assertRegex(stdout.decode(), r"\n0 +1 .* 10 ")
        self.assertRegex(stdout.decode(), r"\n1 +none ")
        self.assertIn("t-1", stderr)
        self.assertIn("hint: ", stderr)
        first, second = json.loads(self.done("topic", "describe", "t", "--format", "json")[0])[0]["partitions"]
        self.assertEqual((first["end_offset"], second["leader"], second["end_offset"]), (10, None, None))

    def test_the_other_partitions_are_written_and_read(self):
        self.done("produce", "t", stdin=b"new\n")
        self.assertEqual(self.done("consume", "t", "-e", "-n", "11")[0], numbered_lines(10) + b"new\n")
        stdout, stderr = self.done("consume", "t", "-g", "readers", "-n", "11")
        self.assertEqual(stdout, numbered_lines(10) + b"new\n", stderr)


    def test_reading_to_the_end_does_not_wait_for_ever(self):
        for group in ([], ["-g", "readers"]):
            with self.subTest(group):
                ended = self.logway("consume", "t", "-e", *group)
                self.assertEqual((ended.returncode, ended.stdout), (1, numbered_lines(10)))
                self.assertRegex(ended.stderr.decode(), "error: partition t-1 has no leader\nhint: ")

    def test_what_is_known_of_other_topics_is_not_lost(self):
        described = self.logway("topic", "describe", "no-such", "t", "--format", "json")
        self.assertEqual(described.returncode, 1)
        self.assertEqual([topic["topic"] for topic in json.loads(described.stdout)], ["t"])
        self.assertRegex(described.stderr.decode(), "error: cannot find topic 'no-such'.*\nhint: ")


class OfflineDirectory(Trouble):
    def setUp(self):
        """A topic with a partition in each of two directories, the second of which is missing."""
        root = fresh_directory("cli-trouble-dirs")
        one, two = root / "one", root / "two"
        self.broker = Logway("cli-trouble", data_dir=Path(f"{one},{two}")).start()
        self.addCleanup(self.broker.kill)
        self.done("topic", "create", "t", "-p", "2")
        for partition in ["0", "1"]:
            self.done("produce", "t", "-p", partition, stdin=numbered_lines(10))
        self.restart(lambda: two.rename(root / "unmounted"))

    def test_the_sizes_in_the_others_are_known(self):
        (topic,) = json.loads(self.done("topic", "describe", "t", "--format", "json")[0])
        known = [(partition["leader"] is not None, partition["size_bytes"] is not None) for partition in topic["partitions"]]
        self.assertEqual(sorted(known), [(False, False), (True, True)])


class Waiting(Trouble):
    def test_what_is_waited_for_is_said(self):
        self.done("topic", "create", "t", "-p", "1")
        self.done("produce", "t", stdin=b"early\n")
        log, elsewhere = self.broker.data_dir / "t-0", self.broker.directory / "t-0"
        self.restart(lambda: log.rename(elsewhere))
        command = [BINARY, "produce", "t", "-b", self.broker.bootstrap]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
            waiting.stdin.write(b"x\n")
            waiting.stdin.close()
            said = waiting.stderr.readline().decode()
            self.assertIn("t-0 has no leader", said)
            self.assertIn("still trying", said)
            # The broker looks for it again and again.
            elsewhere.rename(log)
            self.assertEqual(waiting.wait(DEADLINE_S), 0)


class Damage(Trouble):
    def setUp(self):
        """A topic of four batches, of which one is damaged."""
        super().setUp()
        self.done("topic", "create", "t", "-p", "1")
        for _ in range(4):
            self.done("produce", "t", stdin=numbered_lines(10))
        self.restart(self.flip_a_byte_of_the_second_batch)

    @property
    def segment(self) -> Path:
        return self.broker.data_dir / "t-0" / f"{0:020}.log"

    def flip_a_byte_of_the_second_batch(self):
        stored = bytearray(self.segment.read_bytes())
        stored[len(stored) // 2 - 1] ^= 1
        self.segment.write_bytes(stored)

    def test_it_is_passed_over_by_who_looks_into_the_files(self):
        verified = run("log", "verify", str(self.broker.data_dir), "--while-running", "--format", "json")
        self.assertEqual(verified.returncode, 1)
        (row,) = [row for row in json.loads(verified.stdout) if (row["topic"], row["partition"]) == ("t", 0)]
        (problem,) = row["problems"]
        self.assertEqual((row["batches"], row["records"], row["end_offset"]), (3, 30, 40))
        self.assertEqual((problem["first_lost_offset"], problem["end_lost_offset"]), (10, 20))
        self.assertIn("while no broker runs", verified.stderr.decode())
        dumped = run("log", "dump", str(self.segment.parent), str(self.broker.data_dir), "--records")
        self.assertEqual((dumped.returncode, dumped.stdout.count(b"line 9\n")), (1, 6))
        self.assertIn("offsets 10 to 19 lost", dumped.stderr.decode())

    def test_a_consumer_is_told_how_to_go_on(self):
        stderr = self.refused("consume", "t", "-e")
        self.assertIn("at offset 10", stderr)
        self.assertIn("log verify", stderr)
        (arguments,) = re.findall(r"'logway (consume [^']+)'", stderr)
        self.assertEqual(self.done(*arguments.split(), "-e")[0], numbered_lines(10) * 2)

    def test_the_broker_tells_of_it_when_it_is_read_again(self):
        for _ in range(2):
            self.refused("consume", "t", "-e", "-o", "10")
        self.assertIn("logway_damaged_batches_total 1\n", self.broker.metrics())
        self.assertRegex(self.broker.log_since_start(), r"t-0.*offset=10.*0\.log is corrupt at byte \d+")


class Settings(Trouble):
    def test_a_value_without_an_effect_is_warned_of(self):
        for command in (
            ["topic", "create", "t", "-c", "preallocate=true"],
            ["topic", "alter", "t", "-c", "preallocate=true"],
            ["config", "set", "topic", "t", "preallocate=true"],
        ):
            with self.subTest(command):
                self.assertRegex(self.done(*command)[1], rf"warning: {command[-1].split('=')[0]} has no effect here: ")
        self.assertNotIn("warning", self.done("topic", "alter", "t", "-c", "cleanup.policy=delete")[1])

    def test_a_topic_cannot_have_very_many_partitions_at_once(self):
        stderr = self.refused("topic", "create", "t", "-p", "1000000")
        self.assertIn("9999 partitions of a topic at most", stderr)
        self.assertEqual(stderr.count("'t'"), 1)

    def test_a_compacted_topic_wants_keys(self):
        self.done("topic", "create", "t", "-c", "cleanup.policy=compact")
        self.assertIn("-k SEPARATOR", self.refused("produce", "t", stdin=b"x\n"))


class Serving(Trouble):
    """A second broker that cannot run."""

    def serve(self, *arguments: str) -> str:
        with tempfile.TemporaryDirectory() as directory:
            own = ["--data-dir", directory, "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
            for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
                if flag in own:
                    own[own.index(flag) + 1] = value
                else:
                    own += [flag, value]
            refused = run("serve", *own)
        self.assertEqual((refused.returncode, refused.stdout), (1, b""))
        return refused.stderr.decode()

    def test_what_is_in_use_is_named_with_a_way_out(self):
        for flag, value in [
            ("--kafka-listen", self.broker.bootstrap),
            ("--http-listen", self.broker.http),
            ("--log-listen", self.broker.http),
            ("--logspec", f"{self.broker.http}=t"),
            ("--data-dir", str(self.broker.data_dir)),
        ]:
            with self.subTest(flag):
                named = re.escape(value.removesuffix("=t"))
                self.assertRegex(self.serve(flag, value), rf"error: .*{named}(.|\n)*hint: .*{flag}")

    def test_a_second_broker_hears_of_the_first(self):
        stderr = self.serve("--kafka-listen", self.broker.bootstrap, "--http-listen", self.broker.http)
        self.assertIn(self.broker.bootstrap, stderr)

    def test_settings_that_cannot_be(self):
        self.assertIn("settings.md", self.serve("--set", "no.such.setting=1"))
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
            file.write("log.dirs=/var/lib/kafka\nlisteners=PLAINTEXT://:9092\n")
            file.flush()
            self.assertRegex(self.serve("--config", file.name), r"hint: .*TOML.*properties")


class Index(Trouble):
    def test_what_there_is_over_http(self):
        with urllib.request.urlopen(f"http://{self.broker.http}/", timeout=DEADLINE_S) as answer:
            self.assertIn("/health/ready", answer.read().decode())


class Away(Trouble):
    def test_a_producer_whose_broker_went_away_says_what_was_acknowledged(self):
        self.done("topic", "create", "t", "-p", "1")
        command = [BINARY, "produce", "t", "-b", self.broker.bootstrap]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as producer:
            producer.stdin.write(b"acknowledged\n")
            producer.stdin.flush()
            wait_until(lambda: self.done("consume", "t", "-e")[0] == b"acknowledged\n", "the first record")
            self.broker.kill()
            producer.stdin.write(b"on its way\n")
            producer.stdin.flush()
            self.assertIn("still trying", producer.stderr.readline().decode())
            producer.send_signal(signal.SIGINT)
            said = producer.stderr.read().decode()
            self.assertEqual(producer.wait(DEADLINE_S), 130)
        self.assertIn("produced 1 record", said)
        # The connection may have taken it before the broker was gone.
        self.assertRegex(said, "1 record more was (read and never sent|sent and not acknowledged)")

    def test_a_consumer_says_that_its_broker_is_away(self):
        self.done("topic", "create", "t", "-p", "1")
        command = [BINARY, "consume", "t", "-b", self.broker.bootstrap]
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as reader,
        ):

            def has_said(text: bytes) -> bool:
                # Not by the position in the file, which the process shares.
                return text in os.pread(said.fileno(), 1 << 20, 0)

            try:
                self.done("produce", "t", stdin=b"before\n")
                self.assertEqual(reader.stdout.readline(), b"before\n")
                self.broker.kill()
                wait_until(lambda: has_said(b"still trying"), "a word about the broker")
                self.broker.start()
                self.done("produce", "t", stdin=b"after\n")
                self.assertEqual(reader.stdout.readline(), b"after\n")
                wait_until(lambda: has_said(b"it goes on"), "a word that it is back")
            finally:
                reader.kill()
