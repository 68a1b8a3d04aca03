import json
import os
import signal
import subprocess
import unittest
import uuid

from command import BOOTSTRAP, DEADLINE_S, consume, consume_json, create_topic, logway, logway_json, run, served_apis, wait_until

from harness import shapes
from harness.logway import BINARY

END_TXN = 26
# Where coordinators keep transactional ids.
STATE_TOPIC = "__transaction_state"


@unittest.skipUnless(END_TXN in served_apis(), "the broker serves no transactions")
class Transactions(unittest.TestCase):
    def test_one_is_listed_and_described_while_it_is_open_and_when_it_has_ended(self):
        topic, name = create_topic("written", "-p", "1"), f"cli-{uuid.uuid4().hex[:8]}"
        command = ["kcat", "-P", "-b", BOOTSTRAP, "-t", topic, "-p", "0", "-X", f"transactional.id={name}", "-X", "linger.ms=0"]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            writer.stdin.write(b"record\n" * 1000)
            writer.stdin.flush()
            listed = lambda *more: [row for row in logway_json("txn", "list", *more) if row["transactional_id"] == name]
            wait_until(lambda: [row["state"] for row in listed()] == ["Ongoing"], "an open transaction")
            (described,) = logway_json("txn", "describe", name)
            self.assertEqual(described["partitions"], [{"topic": topic, "partition": 0}])
            self.assertEqual(described["state"], "Ongoing")
            self.assertGreater(described["started_ms"], 0)
            self.assertIn(topic, logway("txn", "describe", name).decode())
            self.assertEqual(listed("--state", "completecommit"), [])
            writer.stdin.close()
            self.assertEqual(writer.wait(30), 0)
        finally:
            writer.kill()
            writer.wait()
        wait_until(lambda: len(listed("--state", "COMPLETECOMMIT")) == 1, "a transaction that has ended")
        self.assertIn("CompleteCommit", logway("txn", "list").decode())
        (described,) = logway_json("txn", "describe", name)
        self.assertEqual((described["state"], described["partitions"]), ("CompleteCommit", []))
        # Every field that is documented has been printed.
        self.assertEqual((shapes.unseen("txn list"), shapes.unseen("txn describe")), (set(), set()))

    def test_one_that_is_unknown_is_told_so(self):
        unknown = run("txn", "describe", "nobody")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn(b"TRANSACTIONAL_ID_NOT_FOUND", unknown.stderr)
        self.assertEqual(run("txn", "list", "--state", "bogus").returncode, 2)


class Writing(unittest.TestCase):
    """A topic, and what writes to it by transactions."""

    def setUp(self):
        self.topic, self.transactional_id = create_topic("transactional", "-p", "1"), f"cli-{uuid.uuid4().hex[:8]}"

    def seen(self, isolation: str) -> list[bytes]:
        return consume(self.topic, "--isolation", isolation).split()

    def begin(self, *arguments: str) -> subprocess.Popen:
        """A producer that reads from a pipe, and whose records are there when they are written."""
        command = [BINARY, "produce", self.topic, "--transactional-id", self.transactional_id, "--format", "json", *arguments]
        environment = {**os.environ, "LOGWAY_BROKERS": BOOTSTRAP}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(command, env=environment, **pipes)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def write(self, process: subprocess.Popen, line: bytes):
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        wait_until(lambda: line in self.seen("read-uncommitted"), f"{line} in the topic")


@unittest.skipUnless(END_TXN in served_apis(), "the broker serves no transactions")
class Producing(Writing):
    def test_a_transaction_for_some_records_each_and_one_for_the_rest(self):
        lines = b"".join(b"%d\n" % number for number in range(5))
        by_two = ("--transactional-id", self.transactional_id, "--transaction-records", "2")
        report = logway_json("produce", self.topic, *by_two, stdin=lines)
        counted = {name: report[name] for name in ("records", "committed_records", "committed_transactions")}
        self.assertEqual(counted, {"records": 5, "committed_records": 5, "committed_transactions": 3})
        self.assertEqual(self.seen("read-committed"), lines.split())
        # A marker behind every second record, and behind the last.
        self.assertEqual([record["offset"] for record in consume_json(self.topic)], [0, 1, 3, 4, 6])
        self.assertIsNone(json.loads(logway("produce", self.topic, "--format", "json", stdin=b"x"))["committed_records"])

    def test_what_is_open_is_not_seen_and_aborted_at_an_interrupt(self):
        process = self.begin("--transaction-records", "2")
        for line in (b"one", b"two", b"three"):
            self.write(process, line)
        logway("produce", self.topic, stdin=b"behind")
        self.assertEqual(self.seen("read-committed"), [b"one", b"two"])
        process.send_signal(signal.SIGINT)
        # Not communicate(), which closes stdin, the other way to end.
        self.assertEqual(process.wait(DEADLINE_S), 130)
        stdout, stderr = process.stdout.read(), process.stderr.read()
        self.assertIn("the open transaction was aborted", stderr.decode())
        self.assertEqual(json.loads(stdout)["committed_records"], 2)
        wait_until(lambda: self.seen("read-committed") == [b"one", b"two", b"behind"], "an aborted transaction")
        self.assertEqual(self.seen("read-uncommitted"), [b"one", b"two", b"three", b"behind"])

    def test_another_producer_of_the_id_ends_the_first(self):
        first = self.begin()
        self.write(first, b"first")
        logway("produce", self.topic, "--transactional-id", self.transactional_id, stdin=b"second")
        stdout, stderr = first.communicate(timeout=DEADLINE_S)
        self.assertEqual((first.returncode, b"another producer has taken the transactional id" in stderr), (1, True), stderr)
        self.assertEqual(json.loads(stdout)["committed_transactions"], 0)
        wait_until(lambda: self.seen("read-committed") == [b"second"], "the second transaction")

    def test_acknowledgements_of_fewer_are_refused(self):
        refused = run("produce", self.topic, "--transactional-id", self.transactional_id, "--acks", "1", stdin=b"x")
        self.assertEqual((refused.returncode, b"--acks all" in refused.stderr), (2, True))


@unittest.skipUnless(END_TXN in served_apis(), "the broker serves no transactions")
class Hanging(Writing):
    """What a coordinator knows no more is found and aborted. It forgets when the topic of transactional ids is deleted."""

    def find(self, *more: str) -> list[dict]:
        return logway_json("txn", "find-hanging", "--topic", self.topic, *more)

    def abort(self, offset: int):
        return run("txn", "abort", self.topic, "-p", "0", "-o", str(offset), "--format", "json")

    def test_what_its_coordinator_has_forgotten_is_found_and_aborted(self):
        logway("produce", self.topic, stdin=b"before")
        producer = self.begin()
        self.write(producer, b"open")
        logway("produce", self.topic, stdin=b"behind")
        producer.kill()
        producer.wait()

        # However old it is, what its coordinator knows does not hang.
        self.assertEqual(self.find("--older-than", "1ms"), [])
        known = self.abort(1)
        self.assertEqual((known.returncode, b"does not hang" in known.stderr), (1, True), known.stderr)
        self.assertEqual(self.seen("read-committed"), [b"before"])

        logway("topic", "delete", STATE_TOPIC)
        wait_until(lambda: self.find("--older-than", "1ms"), "a hanging transaction")
        (hanging,) = self.find("--older-than", "1ms", "--partition", "0")
        place = {name: hanging[name] for name in ("topic", "partition", "start_offset", "coordinator_epoch")}
        self.assertEqual(place, {"topic": self.topic, "partition": 0, "start_offset": 1, "coordinator_epoch": None})
        self.assertEqual(self.find(), [], "it is too young to be looked for unless asked")
        self.assertEqual(run("txn", "find-hanging", "--topic", self.topic, "--partition", "1").returncode, 1)

        elsewhere = self.abort(2)
        self.assertEqual((elsewhere.returncode, b"no transaction is open" in elsewhere.stderr), (1, True), elsewhere.stderr)
        aborted = self.abort(1)
        self.assertEqual(aborted.returncode, 0, aborted.stderr)
        self.assertEqual(json.loads(aborted.stdout), {"status": "aborted", **hanging})
        self.assertEqual(self.find("--older-than", "1ms"), [])
        wait_until(lambda: self.seen("read-committed") == [b"before", b"behind"], "the records behind it")
        self.assertEqual(self.abort(1).returncode, 1)
