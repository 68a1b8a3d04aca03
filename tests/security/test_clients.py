"""Clients that nobody here wrote: each way in, with records written and read; and what they say where they are kept out."""

import subprocess
import time
import unittest
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from secure import PASSWORD, Authority, SecureLogway

DEADLINE_S = 30
WAYS_IN = [
    ("PLAINTEXT", "", ""),
    ("SSL", "", ""),
    ("MUTUAL", "", "alice"),
    *[(listener, mechanism, "") for listener in ("SASL_PLAINTEXT", "SASL_SSL")
      for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")],
]


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = SecureLogway("secure-clients").start()
        cls.addClassCleanup(cls.broker.kill)
        cls.broker.add_user("alice")
        for words in (["--topic", "*", "--operation", "all"], ["--group", "*", "--operation", "read"]):
            cls.broker.allow("alice", *words)
        # Of the listener that asks for nothing but TLS the users are anonymous, and may do everything.

    def settings(self, way_in, **others):
        listener, mechanism, identity = way_in
        return self.broker.client(listener, mechanism, "alice" if mechanism else "", identity=identity, **others)

    def test_kcat(self):
        for way_in in WAYS_IN:
            with self.subTest(way_in=way_in):
                topic = "kcat-" + "-".join(filter(None, way_in)).lower()
                words = [word for name, value in self.settings(way_in).items() for word in ("-X", f"{name}={value}")]
                text = "".join(f"{number}\n" for number in range(1000))
                subprocess.run(["kcat", *words, "-P", "-t", topic], input=text, text=True, check=True,
                               timeout=DEADLINE_S)
                read = subprocess.run(["kcat", *words, "-C", "-t", topic, "-e", "-q"], text=True, check=True,
                                      capture_output=True, timeout=DEADLINE_S)
                self.assertEqual(read.stdout, text)

    def test_confluent_kafka(self):
        for way_in in WAYS_IN:
            with self.subTest(way_in=way_in):
                topic = "confluent-" + "-".join(filter(None, way_in)).lower()
                settings = self.settings(way_in)
                producer = Producer(settings)
                for number in range(1000):
                    producer.produce(topic, str(number))
                self.assertEqual(producer.flush(DEADLINE_S), 0)
                consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
                self.addCleanup(consumer.close)
                consumer.subscribe([topic])
                values, end = [], time.monotonic() + DEADLINE_S
                while len(values) < 1000 and time.monotonic() < end:
                    message = consumer.poll(1)
                    if message is not None:
                        self.assertIsNone(message.error())
                        values.append(int(message.value()))
                self.assertEqual(values, list(range(1000)))

    def test_kafka_python(self):
        for way_in in WAYS_IN:
            with self.subTest(way_in=way_in):
                listener, mechanism, identity = way_in
                topic = "python-" + "-".join(filter(None, way_in)).lower()
                known = self.settings(way_in)
                options = {"bootstrap_servers": known["bootstrap.servers"],
                           "security_protocol": known["security.protocol"], "ssl_check_hostname": False}
                if "ssl.ca.location" in known:
                    options["ssl_cafile"] = known["ssl.ca.location"]
                if identity:
                    options |= {"ssl_certfile": known["ssl.certificate.location"],
                                "ssl_keyfile": known["ssl.key.location"]}
                if mechanism:
                    options |= {"sasl_mechanism": mechanism, "sasl_plain_username": "alice",
                                "sasl_plain_password": PASSWORD}
                producer = KafkaProducer(**options)
                sent = [producer.send(topic, str(number).encode()) for number in range(100)]
                for future in sent:
                    future.get(DEADLINE_S)
                producer.close()
                consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1000,
                                         **options)
                values = [int(next(consumer).value) for _ in range(100)]
                consumer.close()
                self.assertEqual(values, list(range(100)))

    def error_of(self, settings) -> str:
        """What a client of librdkafka says that is not let in."""
        said = []
        admin = AdminClient(settings | {"error_cb": lambda error: said.append(error.str()), "log_level": 0})
        end = time.monotonic() + DEADLINE_S
        while not said and time.monotonic() < end:
            admin.poll(0.1)
        return " ".join(said)

    def test_who_is_kept_out_is_told_why(self):
        stranger = Authority(Path(self.broker.directory) / "stranger")
        for settings, words in [
            (self.broker.client("SASL_SSL", "SCRAM-SHA-512", "alice", "wrong"), "invalid credentials"),
            (self.broker.client("SASL_SSL", "SCRAM-SHA-512", "bob"), "invalid credentials"),
            (self.broker.client("SASL_SSL", "PLAIN", "alice", "wrong"), "invalid credentials"),
            (self.broker.client("SSL", authority=stranger.file), "certificate verify failed"),
            (self.broker.client("MUTUAL"), "certificate required"),
        ]:
            with self.subTest(words=words, settings=settings):
                self.assertIn(words, self.error_of(settings))

    def test_no_permission_has_its_own_error(self):
        self.broker.add_user("carol")
        producer = Producer(self.broker.client("SASL_SSL", "SCRAM-SHA-256", "carol"))
        self.broker.logway("topic", "create", "not-carols")
        codes = []
        producer.produce("not-carols", "x", on_delivery=lambda error, _: codes.append(error.code()))
        producer.flush(DEADLINE_S)
        self.assertEqual(codes, [KafkaError.TOPIC_AUTHORIZATION_FAILED])

    def test_passwords_are_in_no_log(self):
        self.error_of(self.broker.client("SASL_PLAINTEXT", "PLAIN", "alice", "a-wrong-word"))
        log = self.broker.log_path.read_text()
        self.assertIn("a client is not who it says", log)
        for secret in ("a-wrong-word", PASSWORD):
            self.assertNotIn(secret, log)
        self.assertNotIn(PASSWORD, self.broker.metrics())
