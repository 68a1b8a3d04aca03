"""`logway consume --grpc`: the same lines as over Kafka's protocol, filtered and cut to fields by the server."""

import subprocess
import threading
import unittest

from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S, Appender

from harness.load import create_topics
from harness.logway import BINARY, Logway, logway

LOG = "orders"
VALUES = [b'{"id": 1, "user": {"name": "Ann"}, "price": 1.10}', b'{"id": 2, "user": {"name": "Bob"}, "price": 9}',
          b"no JSON", b'{"id": 3, "price": 20}']


class Consume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("logservice-consume", {"logservice.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)
        create_topics(cls.broker.bootstrap, NewTopic(LOG, 1, 1), NewTopic("parts", 3, 1))
        appender = Appender(lambda: cls.broker.log_service, LOG)
        appender.append(VALUES)
        appender.finish()
        appender = Appender(lambda: cls.broker.log_service, "parts")
        for number in range(30):
            appender.append([str(number).encode()], partition=number % 3)
        appender.finish()

    def consume(self, topic: str, *words: str) -> list[bytes]:
        done = logway("consume", topic, "--grpc", self.broker.log_service, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def refused(self, *words: str) -> str:
        done = logway("consume", *words)
        self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
        return done.stderr.decode()

    def test_it_prints_what_is_there(self):
        self.assertEqual(self.consume(LOG, "-e"), VALUES)
        over_kafka = logway("consume", LOG, "-e", "-b", self.broker.bootstrap, "--format", "json").stdout.splitlines()
        self.assertEqual(self.consume(LOG, "-e", "--format", "json"), over_kafka)
        self.assertEqual(self.consume(LOG, "-n", "2"), VALUES[:2])
        self.assertEqual(self.consume(LOG, "-e", "-o", "-1"), VALUES[3:])
        self.assertEqual(self.consume(LOG, "-e", "-o", "2", "-f", "%o %v\\n"), [b"2 no JSON", b"3 " + VALUES[3]])
        self.assertEqual(self.consume(LOG, "-e", "-o", "end"), [])
        self.assertEqual(sorted(self.consume("parts", "-e"), key=int), [str(it).encode() for it in range(30)])
        self.assertEqual(self.consume("parts", "-e", "-p", "1"), [str(it).encode() for it in range(1, 30, 3)])

    def test_filters_and_fields(self):
        cheap = ("-e", "--filter", "value.price < 10")
        self.assertEqual(self.consume(LOG, *cheap), VALUES[:2])
        self.assertEqual(self.consume(LOG, *cheap, "--field", "user.name", "--field", "price"),
                         [b'{"price":1.10,"user":{"name":"Ann"}}', b'{"price":9,"user":{"name":"Bob"}}'])

    def test_records_that_a_filter_cannot_judge_are_counted(self):
        done = logway("consume", LOG, "--grpc", self.broker.log_service, "-e", "--filter", "!has(value.user)")
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, VALUES[3:]))
        self.assertIn(b"warning: records left out because the filter has no result for them: 1", done.stderr)

    def test_what_went_wrong_is_told_with_a_hint(self):
        address = self.broker.log_service
        for words, expected in [
            ((LOG, "--grpc", address, "-e", "--filter", "value."), "filter.expression, at byte"),
            ((LOG, "--grpc", address, "-e", "-o", "2", "--field", "id"), "record 2 cannot be projected"),
            ((LOG, "--grpc", address, "-e", "-o", "99"), f"offset 99 of {LOG}-0 is out of range: it ends at 4"),
            (("nowhere", "--grpc", address, "-e"), "there is no log 'nowhere'"),
            ((LOG, "--grpc", self.broker.http, "-e"), self.broker.http),
            ((LOG, "--grpc", "127.0.0.1:1", "-e"), "cannot connect to 127.0.0.1:1"),
        ]:
            said = self.refused(*words)
            self.assertIn(expected, said)
            self.assertIn("hint: ", said)

    def test_it_follows_a_log_over_a_restart(self):
        broker = Logway("logservice-consume-restart", {"logservice.listen": "127.0.0.1:0"}).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic("tailed", 1, 1))

        def append(value: bytes):
            appender = Appender(lambda: broker.log_service, "tailed")
            appender.append([value])
            appender.finish()

        command = [BINARY, "consume", "tailed", "--grpc", broker.log_service]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as following:
            timer = threading.Timer(DEADLINE_S, following.kill)
            timer.start()
            self.addCleanup(timer.cancel)
            append(b"one")
            self.assertEqual(following.stdout.readline(), b"one\n")
            broker.kill()
            broker.start()
            append(b"two")
            self.assertEqual(following.stdout.readline(), b"two\n")
            following.kill()
