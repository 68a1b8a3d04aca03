"""Health and metrics: by the certificates, users and rules of all listeners."""

import json
import unittest

import urllib3
from secure import PASSWORD, SecureLogway

from harness.waiting import wait_until

TIMEOUT_S = 20
DOORS = ["PLAINTEXT", "MUTUAL", "SASL_SSL"]


class WithDoors(SecureLogway):
    """`doors` says where each listener for HTTP is."""

    def command(self) -> list[str]:
        words = super().command()
        words[words.index("--http-listen") + 1] = ",".join(f"{name}://127.0.0.1:0" for name in DOORS)
        return words

    def start(self):
        super().start()
        self.doors = dict(zip(DOORS, self.http.split(","), strict=True))
        return self


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = WithDoors("security-http", {"super.users": "User:admin"})
        cls.audit = cls.broker.directory / "audit.log"
        cls.broker.settings["logway.audit.log.file"] = str(cls.audit)
        cls.addClassCleanup(cls.broker.kill)
        # The first user is made while nobody is refused.
        open_settings, cls.broker.settings = cls.broker.settings, cls.broker.settings | {"super.users": "User:ANONYMOUS"}
        cls.broker.start()
        for user in ("admin", "bob", "prometheus"):
            cls.broker.add_user(user)
        cls.broker.allow("prometheus", "--cluster", "--operation", "describe")
        cls.broker.stop()
        cls.broker.settings = open_settings
        cls.broker.start()

    def get(self, door: str, path: str, user: str = "", password: str = PASSWORD, token: str = "", certificate: str = ""):
        scheme = "http" if door == "PLAINTEXT" else "https"
        files = {}
        if scheme == "https":
            files["ca_certs"] = str(self.broker.authority.file)
        if certificate:
            files["cert_file"] = str(self.broker.authority.issue(certificate))
        headers = {}
        if user:
            headers = urllib3.make_headers(basic_auth=f"{user}:{password}")
        if token:
            headers["authorization"] = f"Bearer {token}"
        with urllib3.PoolManager(retries=False, timeout=TIMEOUT_S, **files) as pool:
            return pool.request("GET", f"{scheme}://{self.broker.doors[door]}{path}", headers=headers)

    def told(self, door: str, path: str, **who) -> tuple[int, str]:
        answer = self.get(door, path, **who)
        return answer.status, answer.data.decode()

    def test_metrics_are_for_those_who_may_describe_the_cluster(self):
        for user in ("admin", "prometheus"):
            status, text = self.told("SASL_SSL", "/metrics", user=user)
            self.assertEqual(status, 200, text)
            self.assertIn("logway_topics", text)
        self.assertEqual(self.told("SASL_SSL", "/metrics", user="bob"),
                         (403, "User:bob may not DESCRIBE the cluster\n"))

    def test_who_is_not_known_is_told_why_and_stands_in_the_audit_log(self):
        nobody = self.get("SASL_SSL", "/metrics")
        self.assertEqual((nobody.status, nobody.headers["www-authenticate"]),
                         (401, 'Basic realm="logway", charset="UTF-8"'))
        self.assertIn(b"asks who you are", nobody.data)
        wrong = "the user or the password is wrong, or the token is not good\n"
        self.assertEqual(self.told("SASL_SSL", "/metrics", user="bob", password="wrong"), (401, wrong))
        self.assertEqual(self.told("SASL_SSL", "/metrics", user="stranger"), (401, wrong))
        self.assertEqual(self.told("SASL_SSL", "/metrics", token="abc"),
                         (401, "this listener does not take OAUTHBEARER\n"))

        def is_told() -> bool:
            lines = [json.loads(line)["fields"] for line in self.audit.read_text().splitlines()]
            return any(line.get("user") == "stranger" and line.get("mechanism") == "PLAIN" for line in lines)

        wait_until(is_told, "the audit log to have the stranger", TIMEOUT_S)

    def test_health_is_told_to_everybody(self):
        for door, certificate in [("PLAINTEXT", ""), ("SASL_SSL", ""), ("MUTUAL", "bob")]:
            self.assertEqual(self.told(door, "/health/ready", certificate=certificate), (200, "ready\n"))

    def test_a_certificate_says_who_one_is(self):
        self.assertEqual(self.told("MUTUAL", "/metrics", certificate="admin")[0], 200)
        self.assertEqual(self.told("MUTUAL", "/metrics", certificate="bob")[0], 403)
        with self.assertRaises(urllib3.exceptions.HTTPError):
            self.get("MUTUAL", "/health/live")

    def test_on_this_machine_a_listener_may_ask_nobody(self):
        self.assertEqual(self.told("PLAINTEXT", "/metrics")[0], 200)

    def test_what_is_not_encrypted_is_not_answered(self):
        with self.assertRaises(urllib3.exceptions.HTTPError):
            urllib3.request("GET", f"http://{self.broker.doors['SASL_SSL']}/health/live", timeout=TIMEOUT_S, retries=False)


class Exposed(unittest.TestCase):
    def test_a_listener_without_a_guard_is_for_this_machine_alone(self):
        broker = SecureLogway("security-http-exposed")
        broker.http = "0.0.0.0:0"
        self.addCleanup(broker.kill)
        with self.assertRaises(Exception):
            broker.start()
        said = broker.log_since_start()
        self.assertIn("HTTP: listener PLAINTEXT: other machines could reach 0.0.0.0:0", said)
        self.assertIn("make it SASL_SSL", said)
