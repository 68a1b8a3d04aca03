"""Hops in TLS: real Flume agents before and behind ours, and who is turned away."""

import http.client
import ssl
import subprocess
import urllib.request

from agents import Agent, AgentCase, Flume, lines_in
from certificates import PASSWORD, Certificates

from harness.logway import BINARY
from harness.ports import free_port
from harness.waiting import wait_until

EVENTS = 1000
DEADLINE_S = 60


class TlsHops(AgentCase):
    def setUp(self):
        super().setUp()
        self.files = Certificates(self.directory / "certificates")

    # Name, kind, and what both halves say besides: Flume's Thrift sink refuses deflate, which it does not have.
    HOPS = [("plain", "avro", ""), ("deflate", "avro", "compression-type = deflate"), ("thrift", "thrift", "")]

    def properties(self, component: str, text: str) -> str:
        """Lines of a component, in Flume's form."""
        return "".join(f"a.{component}.{line.strip()}\n" for line in text.splitlines() if line.strip())

    def lists(self) -> str:
        names = " ".join(name for name, *_ in self.HOPS)
        return f"a.sources = {names}\na.channels = {names}\na.sinks = {names}\n"

    def sender(self, ports, of_sink: str) -> str:
        parts = [self.lists()]
        for name, kind, more in self.HOPS:
            parts += [
                self.properties(f"sources.{name}", f"type = seq\ntotalEvents = {EVENTS}\nbatchSize = 50\nchannels = {name}"),
                self.properties(f"channels.{name}", "type = memory\ncapacity = 1000"),
                self.properties(
                    f"sinks.{name}",
                    f"type = {kind}\nchannel = {name}\nhostname = 127.0.0.1\nport = {ports[name]}\nssl = true\n{more}\n{of_sink}",
                ),
            ]
        return "".join(parts)

    def receiver(self, ports, of_source: str) -> str:
        parts = [self.lists()]
        for name, kind, more in self.HOPS:
            parts += [
                self.properties(
                    f"sources.{name}",
                    f"type = {kind}\nbind = 127.0.0.1\nport = {ports[name]}\nchannels = {name}\nssl = true\n{more}\n{of_source}",
                ),
                self.properties(f"channels.{name}", "type = memory\ncapacity = 10000"),
                self.properties(f"sinks.{name}", f"type = file_roll\nchannel = {name}\nsink.directory = {self.made(name)}"),
            ]
        return "".join(parts)

    def ports(self):
        return {name: free_port() for name, *_ in self.HOPS}

    def expect_all(self):
        expected = sorted(str(number) for number in range(EVENTS))
        for name, *_ in self.HOPS:
            wait_until(lambda name=name: len(lines_in(self.made(name))) >= EVENTS, f"{EVENTS} events by {name}", DEADLINE_S)
            self.assertEqual(sorted(lines_in(self.made(name))), expected, name)

    def test_flume_sends_to_us(self):
        ports = self.ports()
        # Flume's properties, but that the key is a PEM file.
        ours = self.receiver(ports, f"keystore = {self.files.key}\nkeystore-password = {PASSWORD}")
        Agent(self, self.directory, "ours", ours, flume_name="a").start()
        theirs = self.sender(ports, f"truststore = {self.files.jks}\ntruststore-password = {PASSWORD}\ntruststore-type = JKS")
        Flume(self, self.directory, "flume", theirs).start()
        self.expect_all()

    def test_we_send_to_flume(self):
        ports = self.ports()
        theirs = self.receiver(ports, f"keystore = {self.files.p12}\nkeystore-password = {PASSWORD}\nkeystore-type = PKCS12")
        Flume(self, self.directory, "flume", theirs).start()
        Agent(self, self.directory, "ours", self.sender(ports, f"truststore = {self.files.authority}"), flume_name="a").start()
        self.expect_all()

    def test_who_shows_no_certificate_or_a_strange_one_is_turned_away(self):
        ports = self.ports()
        strange = Certificates(self.directory / "strangers")
        demanding = f"keystore = {self.files.key}\ntruststore = {self.files.authority}"
        receiver = Agent(self, self.directory, "receiver", self.receiver(ports, demanding), flume_name="a").start()
        trusting = f"truststore = {self.files.authority}\n"
        for what, more in [("nobody", trusting), ("stranger", f"{trusting}keystore = {strange.key}"), ("doubter", f"truststore = {strange.authority}")]:
            sender = Agent(self, self.directory, what, self.sender(ports, more), flume_name="a").start()
            wait_until(lambda sender=sender: sender.count("SINK.plain", "EventWriteFail") > 0, "a failure to be counted", DEADLINE_S)
            self.assertEqual(sender.count("SINK.plain", "EventDrainSuccessCount"), 0, what)
            sender.kill()
        self.assertEqual(receiver.count("SOURCE.plain", "EventReceivedCount"), 0)
        Agent(self, self.directory, "friend", self.sender(ports, f"{trusting}keystore = {self.files.key}"), flume_name="a").start()
        self.expect_all()

    def test_events_come_by_https(self):
        port, arrived = free_port(), self.made("arrived")
        text = (
            f"[sources.r]\ntype = 'http'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\nssl = true\nkeystore = '{self.files.key}'\n"
            f"truststore = '{self.files.authority}'\n[channels.c]\ntype = 'memory'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{arrived}'\n"
        )
        Agent(self, self.directory, "agent", text).start()

        def post(scheme: str, authority, key=None) -> int:
            trust = ssl.create_default_context(cafile=authority)
            if key:
                trust.load_cert_chain(key)
            request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}", b'[{"headers": {}, "body": "one"}]')
            with urllib.request.urlopen(request, timeout=DEADLINE_S, context=trust) as answer:
                return answer.status

        strange = Certificates(self.directory / "strangers")
        for why, refused in [("no TLS", ("http", self.files.authority)), ("no certificate", ("https", self.files.authority)),
                             ("a strange one", ("https", self.files.authority, strange.key)),
                             ("no trust", ("https", strange.authority, self.files.key))]:
            with self.subTest(why), self.assertRaises((OSError, http.client.HTTPException)):
                post(*refused)
        self.assertEqual(lines_in(arrived), [])
        self.assertEqual(post("https", self.files.authority, self.files.key), 200)
        wait_until(lambda: lines_in(arrived) == ["one"], "the event", DEADLINE_S)

    def test_javas_stores_are_refused_with_the_way_out(self):
        for name, keystore, kind in [("jks", self.files.jks, ""), ("p12", self.files.p12, ""), ("type", self.files.p12, "keystore-type = PKCS12")]:
            file = self.directory / f"{name}.properties"
            file.write_text(self.receiver(self.ports(), f"keystore = {keystore}\n{kind}"))
            # What a configuration says is judged by `check`, and files when they are opened.
            run = subprocess.run([BINARY, "agent", "run", "--flume-conf", file, "--name", "a"], capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("PEM", run.stderr, name)
            self.assertIn("keytool", run.stderr, name)
