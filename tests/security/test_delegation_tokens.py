"""Delegation tokens (KIP-48): Kafka's tool and programs unchanged, ours against Kafka's broker, and the audit log."""

import json
import os
import re
import subprocess
import unittest

from harness import shapes
from harness.apache_kafka import SMALL_JVM, ApacheKafka, java, need_kafka
from harness.logway import BINARY
from harness.ports import free_addresses
from harness.waiting import wait_until
from secure import AUTHORIZER, PASSWORD, SecureLogway

DEADLINE_S = 60
PATIENCE_S = 10
SECRET = "a-key-for-no-log"
KEYS = {"delegation.token.secret.key": SECRET}
LISTENER = "SASL_PLAINTEXT"
COMMAND = "org.apache.kafka.tools.DelegationTokenCommand"
USERS = ["alice", "bob", "eve", "rita"]


class TokenKafka(ApacheKafka):
    """Apache Kafka with a listener that asks for passwords, and tokens."""

    def __init__(self, name: str):
        open_address, guarded, controller = free_addresses(3)
        self.addresses = {"PLAINTEXT": open_address, LISTENER: guarded}
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        super().__init__(name, KEYS | {
            "listeners": f"PLAINTEXT://{open_address},{LISTENER}://{guarded},CONTROLLER://{controller}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER},CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@{controller}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            f"listener.name.{LISTENER.lower()}.scram-sha-256.sasl.jaas.config": login,
            f"listener.name.{LISTENER.lower()}.scram-sha-512.sasl.jaas.config": login,
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:ANONYMOUS;User:admin",
        })
        self.bootstrap = open_address


def command(side, *words: str, user: str = "", password: str = PASSWORD, token: bool = False):
    """What one of our commands did, against either broker."""
    address = side.addresses[LISTENER if user else "PLAINTEXT"]
    who = ["--user", user] if user else []
    how = ["--token-auth"] if token else []
    environment = os.environ | {"LOGWAY_PASSWORD": password}
    return subprocess.run([BINARY, *words, "-b", address, *who, *how], env=environment, input=f"{PASSWORD}\n",
                          capture_output=True, text=True, timeout=DEADLINE_S)


def output(side, *words: str, **more) -> str:
    done = command(side, *words, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout


def document(side, *words: str, **more):
    words = (*words, "--format", "json")
    printed = output(side, *words, **more)
    shapes.check(words, printed.encode())
    return json.loads(printed)


def code(side, *words: str, **more) -> str:
    """Kafka's name of the error, or what was printed where there was none."""
    done = command(side, *words, **more)
    if done.returncode == 0:
        return "NONE"
    found = re.search(r"(?:: |\()([A-Z]+(?:_[A-Z]+)+)\)?$", done.stderr, re.M)
    return found.group(1) if found else done.stderr


def prepare(side):
    for user in USERS:
        output(side, "user", "create", user)
    output(side, "topic", "create", "tokens", "-p", "1")
    for resource in (["--topic", "tokens"], ["--group", "*"]):
        output(side, "acl", "create", "--allow", "alice", *resource, "--operation", "all")


class Story:
    """What somebody is told who does this and that with tokens; times and ids are left out.

    Where it is known what another broker has told, each question is asked until this one says the same, or for a while:
    in Kafka a change is in force some time after it is answered.
    """

    def __init__(self, side, expected: dict | None = None):
        self.side, self.expected, self.told = side, expected, {}

    def ask(self, name: str, question):
        if self.expected is None:
            self.told[name] = question()
            return
        def is_the_same():
            self.told[name] = question()
            return self.told[name] == self.expected[name]
        try:
            wait_until(is_the_same, name, PATIENCE_S)
        except AssertionError:
            pass

    def code(self, name: str, *words: str, **more):
        self.ask(name, lambda: code(self.side, *words, **more))

    def seen(self, name: str, *words: str, users: list[str]):
        def owners(user):
            return sorted(token["owner"] for token in document(self.side, "token", "list", *words, user=user))
        self.ask(name, lambda: {user: owners(user) for user in users})

    def allow(self, user: str, *words: str):
        output(self.side, "acl", "create", "--allow", user, *words)

    def run(self) -> dict:
        made = document(self.side, "token", "create", "--renewer", "rita", "--max-lifetime", "1h", user="alice")
        ident, hmac = made["token"], made["hmac"]
        facts = {name: made[name] for name in ("owner", "requester", "renewers")}
        self.told["made"] = facts | {"id": len(ident), "HMAC": len(hmac), "no later": made["expires"] == made["max"]}
        self.log_in(ident, hmac)
        self.show(ident)
        self.change(made)
        self.let_expire()
        return self.told

    def log_in(self, ident: str, hmac: str):
        program = {"user": ident, "password": hmac, "token": True}
        topics = ["topic", "list"]
        self.code("a program", *topics, **program)
        self.ask("what it sees", lambda: output(self.side, *topics, **program))
        self.code("by SHA-256", *topics, "--mechanism", "SCRAM-SHA-256", **program)
        self.code("a wrong HMAC", *topics, **program | {"password": hmac[::-1]})
        self.code("the owner's password", *topics, **program | {"password": PASSWORD})
        self.code("an unknown id", *topics, **program | {"user": ident[::-1]})
        self.code("as a password", *topics, **program | {"token": False})
        self.code("a user as a token", *topics, user="alice", token=True)
        for word in ("create", "list"):
            self.code(f"{word} by a program", "token", word, **program)
            self.code(f"{word} by nobody", "token", word)

    def show(self, ident: str):
        self.seen("seen by", users=USERS)
        self.code("for another", "token", "create", "--owner", "bob", user="alice")
        self.allow("alice", "--tokens-of", "bob", "--operation", "create-tokens")
        self.code("for another, allowed", "token", "create", "--owner", "bob", user="alice")
        self.seen("then seen by", users=USERS)
        self.seen("of bob", "--owner", "bob", users=USERS)
        self.seen("of eve", "--owner", "eve", users=USERS)
        of_bob = document(self.side, "token", "list", "--owner", "bob", user="alice")[0]["token"]
        self.code("renewed by its requester", "token", "renew", of_bob, user="alice")
        self.allow("eve", "--token", ident, "--operation", "describe")
        self.allow("eve", "--tokens-of", "bob", "--operation", "describe-tokens")
        self.seen("seen by eve", users=["eve"])
        for word in ("renew", "expire"):
            self.code(f"{word} by eve", "token", word, ident, user="eve")

    def change(self, made: dict):
        ident = made["token"]
        program = {"user": ident, "password": made["hmac"], "token": True}
        for user in ("alice", "rita"):
            renewed = document(self.side, "token", "renew", ident, "--for", "30m", user=user)
            self.told[f"renewed by {user}"] = renewed["token"] == ident and renewed["expires"] < made["expires"]
        ended = document(self.side, "token", "expire", ident, "--in", "20m", user="rita")
        self.told["ended in a while"] = ended["expires"] < renewed["expires"]
        self.code("is still good", "topic", "list", **program)
        output(self.side, "token", "expire", ident, user="alice")
        self.code("ended", "topic", "list", **program)
        self.seen("seen when ended", users=USERS)

    def let_expire(self):
        short = document(self.side, "token", "create", "--max-lifetime", "1ms", user="alice")["token"]
        self.code("expired, renewed", "token", "renew", short, user="alice")
        self.code("expired, ended in a while", "token", "expire", short, "--in", "1h", user="alice")
        self.code("expired, ended", "token", "expire", short, user="alice")


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = SecureLogway("security-delegation-tokens", KEYS)
        cls.audit = cls.broker.directory / "audit.log"
        cls.broker.settings["logway.audit.log.file"] = str(cls.audit)
        cls.broker.start()
        cls.addClassCleanup(cls.broker.kill)
        prepare(cls.broker)

    def properties(self, name: str, user: str, password: str, token: bool = False):
        """A file with what Kafka's programs log in with."""
        extension = ' tokenauth="true"' if token else ""
        path = self.broker.directory / f"{name}.properties"
        path.write_text(
            f"security.protocol={LISTENER}\nsasl.mechanism=SCRAM-SHA-256\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{password}"{extension};\n')
        return path

    def run_java(self, main_class: str, *words: str, text: str = "", exit_code: int = 0) -> str:
        done = subprocess.run(
            java(need_kafka(), main_class, ["--bootstrap-server", self.broker.addresses[LISTENER], *words], *SMALL_JVM),
            input=text, capture_output=True, text=True, timeout=DEADLINE_S)
        printed = done.stdout + done.stderr
        self.assertEqual(done.returncode, exit_code, printed)
        return printed

    def tool(self, *words: str, name: str = "alice", exit_code: int = 0) -> str:
        config = self.properties(name, name, PASSWORD)
        return self.run_java(COMMAND, "--command-config", str(config), *words, exit_code=exit_code)

    def test_kafkas_tool_and_programs(self):
        made = self.tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:rita")
        ident, hmac, owner, requester = re.search(r"^(\S{22})\s+(\S{88})\s+(\S+)\s+(\S+)", made, re.M).groups()
        self.assertEqual((owner, requester), ("User:alice", "User:alice"))
        describe = ["--describe", "--owner-principal", "User:alice"]
        for name in ("alice", "rita"):
            self.assertIn(hmac, self.tool(*describe, name=name))
        self.assertIn("Total number of tokens : 0", self.tool(*describe, name="eve"))
        # Without a name the tool asks for the tokens of an empty list of owners, which are none, of Kafka's broker, too.
        self.assertIn("Total number of tokens : 0", self.tool("--describe"))
        self.assertIn("New expiry date", self.tool("--renew", "--hmac", hmac, "--renew-time-period", "-1", name="rita"))
        self.assertIn("DelegationTokenOwnerMismatchException",
                      self.tool("--renew", "--hmac", hmac, "--renew-time-period", "-1", name="eve", exit_code=1))
        self.assertIn("DelegationTokenAuthorizationException",
                      self.tool("--create", "--max-life-time-period", "-1", "--owner-principal", "User:rita",
                                exit_code=1))

        config = str(self.properties("program", ident, hmac, token=True))
        words = ["--topic", "tokens", "--command-config", config]
        self.run_java("org.apache.kafka.tools.ConsoleProducer", *words, text="by a token\n")
        words += ["--from-beginning", "--max-messages", "1", "--group", "tokens"]
        self.assertIn("by a token", self.run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", *words))
        self.assertIn("Delegation Token requests are not allowed",
                      self.run_java(COMMAND, "--command-config", config, "--describe", exit_code=1))

        self.assertIn("Completed expire", self.tool("--expire", "--hmac", hmac, "--expiry-time-period", "-1"))
        self.assertIn("DelegationTokenNotFoundException",
                      self.tool("--expire", "--hmac", hmac, "--expiry-time-period", "-1", exit_code=1))
        failed = self.run_java(COMMAND, "--command-config", config, "--describe", exit_code=1)
        self.assertIn("SaslAuthenticationException", failed)
        self.assertIn("invalid credentials with SASL mechanism SCRAM-SHA-256", failed)

    def test_changes_are_in_the_audit_log_and_no_secret_is_in_any(self):
        made = document(self.broker, "token", "create", user="eve")
        ident, hmac = made["token"], made["hmac"]
        self.assertEqual(code(self.broker, "token", "create", "--owner", "rita", user="eve"),
                         "DELEGATION_TOKEN_AUTHORIZATION_FAILED")
        output(self.broker, "token", "renew", ident, user="eve")
        output(self.broker, "acl", "create", "--allow", "bob", "--token", ident, "--operation", "describe")
        self.assertEqual(code(self.broker, "token", "renew", ident, user="bob"), "DELEGATION_TOKEN_OWNER_MISMATCH")
        code(self.broker, "topic", "list", user=ident, password=hmac[::-1], token=True)
        code(self.broker, "token", "create", user=ident, password=hmac, token=True)
        output(self.broker, "token", "expire", ident, user="eve")
        described = document(self.broker, "config", "describe", "broker", "1")
        wanted = {
            ("User:eve", "CREATE_TOKENS", "User:eve", True),
            ("User:eve", "CREATE_TOKENS", "User:rita", False),
            ("User:eve", "ALTER", ident, True),
            ("User:bob", "ALTER", ident, False),
            ("User:eve", "CREATE_TOKENS", "User:eve", False),
            ("User:eve", "DELETE", ident, True),
        }

        def seen():
            lines = [json.loads(line)["fields"] for line in self.audit.read_text().splitlines()]
            changes = {(line.get("principal"), line.get("operation"), line.get("resource"), line.get("is_allowed"))
                       for line in lines}
            return wanted <= changes and any(line.get("user") == ident for line in lines)

        wait_until(seen, f"the changes to be in the audit log: {wanted}", DEADLINE_S)
        told = self.audit.read_text() + self.broker.log_path.read_text() + json.dumps(described)
        self.assertIn("delegation.token.secret.key", told)
        for secret in (SECRET, hmac, hmac[::-1]):
            self.assertNotIn(secret, told)


class Beside(unittest.TestCase):
    def test_kafka_tells_the_same(self):
        brokers = [SecureLogway("security-tokens-story", KEYS), TokenKafka("security-tokens-story")]
        for broker in brokers:
            broker.start()
            self.addCleanup(broker.kill)
            prepare(broker)
        ours = Story(brokers[0]).run()
        kafkas = Story(brokers[1], ours).run()
        self.maxDiff = None
        self.assertEqual(ours, kafkas)
