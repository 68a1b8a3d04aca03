"""Clients that say who they are with a token that somebody else has signed (OAUTHBEARER)."""

import functools
import http.server
import json
import ssl
import threading
import time
import unittest
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from secure import SecureLogway
from tokens import Signer, write_keys

from harness.broker import BrokerFailed
from harness.waiting import wait_until

TIMEOUT_S = 20


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = SecureLogway("security-tokens")
        directory = cls.broker.directory
        cls.signer, cls.stranger = Signer(directory), Signer(directory, "stranger")
        cls.keys = directory / "keys.json"
        write_keys(cls.keys, cls.signer)
        cls.broker.settings |= {
            "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{cls.keys}",
            "sasl.oauthbearer.expected.issuer": Signer.ISSUER,
            "sasl.oauthbearer.expected.audience": "logway",
        }
        cls.broker.start()
        cls.addClassCleanup(cls.broker.kill)
        cls.broker.allow("alice", "--topic", "tokens", "--prefix", "--operation", "all")
        cls.broker.allow("alice", "--group", "*", "--operation", "read")
        cls.broker.logway("topic", "create", "tokens", "-p", "1")

    def client(self, signer: Signer, user: str, lifetime_s: float = 300, **more) -> dict:
        """librdkafka's settings, with a new token each time that it asks for one."""
        self.asked = 0

        def give(_config):
            self.asked += 1
            return signer.token(user, lifetime_s), time.time() + lifetime_s

        settings = self.broker.client("SASL_SSL", "OAUTHBEARER") | more
        for password_only in ("sasl.username", "sasl.password"):
            del settings[password_only]
        return settings | {"oauth_cb": give}

    def error_of(self, settings: dict) -> str:
        said = []
        admin = AdminClient(settings | {"error_cb": lambda error: said.append(error.str()), "log_level": 0})
        wait_until(lambda: admin.poll(0.1) or said, "an error", TIMEOUT_S)
        return " ".join(said)

    def test_who_signs_is_known_and_others_are_not(self):
        self.assertIn("invalid credentials", self.error_of(self.client(self.stranger, "alice")))
        write_keys(self.keys, self.signer, self.stranger)
        # Each listener reads them for itself.
        said = 'new keys of who signs tokens are in force listener="SASL_SSL"'
        wait_until(lambda: said in self.broker.log_path.read_text(), "the new keys to be in force", TIMEOUT_S)
        listed = self.broker.logway("topic", "list", "--mechanism", "OAUTHBEARER", "--format", "json", user="alice",
                                    listener="SASL_SSL", password=self.stranger.token("alice"))
        self.assertIsInstance(json.loads(listed), list)
        token = self.signer.token("alice", aud="somebody")
        with self.assertRaisesRegex(AssertionError, "invalid credentials"):
            self.broker.logway("topic", "list", "--mechanism", "OAUTHBEARER", user="alice", listener="SASL_SSL",
                               password=token)
        self.assertNotIn(token, self.broker.log_path.read_text())

    def test_nobody_is_known_for_longer_than_the_token(self):
        """librdkafka says it again before the end; the connection stays."""
        producer = Producer(self.client(self.signer, "alice", 3))
        end = time.monotonic() + 8
        while time.monotonic() < end:
            producer.produce("tokens", "again")
            self.assertEqual(producer.flush(TIMEOUT_S), 0)
            time.sleep(0.2)
        self.assertGreater(self.asked, 2)


class KeyServer(unittest.TestCase):
    """The keys come from a server, by HTTPS; a token of a new key gets in when the server was asked for it."""

    def test_keys_of_a_server(self):
        broker = SecureLogway("security-key-server")
        signer, successor = Signer(broker.directory), Signer(broker.directory, "successor")
        keys = broker.directory / "keys.json"
        write_keys(keys, signer)
        url = self.serve(keys, broker.key)
        broker.settings |= {
            "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
            "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys.json",
        }
        with broker:
            broker.allow("alice", "--topic", "tokens", "--operation", "all")
            self.assertTrue(self.gets_in(broker, signer))
            write_keys(keys, successor)
            self.assertFalse(self.gets_in(broker, successor))
            wait_until(lambda: self.gets_in(broker, successor), "the new key to be in force", TIMEOUT_S)
            self.assertFalse(self.gets_in(broker, signer))
            broker.kill()
        broker.settings["sasl.oauthbearer.jwks.endpoint.url"] = f"{url}/none.json"
        broker.settings["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"] = "1"
        with self.assertRaisesRegex(BrokerFailed, f"{url}/none.json answers with status 404"):
            broker.start()

    def serve(self, keys: Path, certificate: Path) -> str:
        """Serves a file's directory; the address."""
        handler = functools.partial(QuietHandler, directory=str(keys.parent))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"https://127.0.0.1:{server.server_port}"

    def gets_in(self, broker: SecureLogway, signer: Signer) -> bool:
        try:
            broker.logway("topic", "list", "--mechanism", "OAUTHBEARER", user="alice", listener="SASL_SSL",
                          password=signer.token("alice"))
        except AssertionError as error:
            self.assertIn("invalid credentials", str(error))
            return False
        return True


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
