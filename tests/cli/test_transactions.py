import subprocess
import unittest
import uuid

from command import BOOTSTRAP, create_topic, logway, logway_json, run, served_apis, wait_until

from harness import shapes

END_TXN = 26


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
