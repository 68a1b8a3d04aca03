"""Syslog from util-linux' `logger`, from rsyslog and syslog-ng, and what is none."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time
import unittest

from agents import Agent, AgentCase, AgentProcess, libraries_of, lines_in, needed
from certificates import Certificates

from harness.ports import free_port
from harness.waiting import wait_until

DEADLINE_S = 30


class Daemon(AgentProcess):
    """A syslog daemon of Debian's, which passes on what comes to its socket."""

    def __init__(self, case, directory, name: str, configuration: str):
        self.unpacked = needed("syslog-daemons")
        self.socket = directory / f"{name}.sock"
        super().__init__(case, directory, name, configuration.replace("SOCKET", str(self.socket)))

    def environment(self):
        return libraries_of(self.unpacked)

    def is_ready(self, log: str) -> bool:
        return self.socket.exists()

    def say(self, text: str) -> int:
        """Has `logger` say something; its process id, which messages have."""
        words = ["logger", "--socket", str(self.socket), "--priority", "local0.warning", "--tag", "app", "--id", text]
        logger = subprocess.Popen(words)
        assert logger.wait(DEADLINE_S) == 0
        return logger.pid


class Rsyslog(Daemon):
    def command(self):
        modules = self.unpacked / "usr/lib/x86_64-linux-gnu/rsyslog"
        return [self.unpacked / "usr/sbin/rsyslogd", "-n", "-f", self.file, "-M", modules, "-i", self.file.with_suffix(".pid")]


class SyslogNg(Daemon):
    def command(self):
        own = [f"--{key}={self.file.with_suffix(f'.{key}')}" for key in ["pidfile", "control", "persist-file"]]
        modules = next((self.unpacked / "usr/lib/syslog-ng").glob("[0-9]*"))
        return [self.unpacked / "usr/sbin/syslog-ng", "-F", "--no-caps", "-f", self.file, f"--module-path={modules}", *own]


class Syslog(AgentCase):
    def events(self, count: int) -> list[dict]:
        wait_until(lambda: len(lines_in(self.arrived)) >= count, f"{count} events", DEADLINE_S)
        return [json.loads(line) for line in lines_in(self.arrived)]

    def setUp(self):
        super().setUp()
        self.arrived = self.made("arrived")
        self.tcp, self.udp, self.first, self.second, self.tls = (free_port() for _ in range(5))
        self.files = Certificates(self.directory / "certificates")
        sources = (
            f"[sources.tcp]\ntype = 'syslogtcp'\nhost = '127.0.0.1'\nport = {self.tcp}\nchannels = ['c']\nclientIPHeader = 'from'\n"
            f"[sources.udp]\ntype = 'syslogudp'\nhost = '127.0.0.1'\nport = {self.udp}\nchannels = ['c']\n"
            f"[sources.many]\ntype = 'multiport_syslogtcp'\nhost = '127.0.0.1'\nports = [{self.first}, {self.second}]\n"
            f"portHeader = 'port'\nbatchSize = 2\nchannels = ['c']\n"
            f"[sources.tls]\ntype = 'multiport_syslogtcp'\nhost = '127.0.0.1'\nports = [{self.tls}]\nportHeader = 'port'\nchannels = ['c']\n"
            f"ssl = true\nkeystore = '{self.files.key}'\ntruststore = '{self.files.authority}'\n"
        )
        self.agent = Agent(
            self,
            self.directory,
            "agent",
            f"{sources}[channels.c]\ntype = 'memory'\ncapacity = 1000\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{self.arrived}'\n'sink.serializer' = 'JSON'\n",
        ).start()

    @unittest.skipUnless(shutil.which("logger"), "there is no logger(1)")
    def test_logger_sends_every_field(self):
        common = ["logger", "--server", "127.0.0.1", "--priority", "local0.warning", "--tag", "app"]
        subprocess.run([*common, "--tcp", "--port", str(self.tcp), "--rfc5424", "new over TCP"], check=True)
        subprocess.run([*common, "--tcp", "--port", str(self.tcp), "--rfc3164", "old over TCP"], check=True)
        subprocess.run([*common, "--udp", "--port", str(self.udp), "--rfc5424", "new over UDP"], check=True)
        subprocess.run([*common, "--tcp", "--port", str(self.second), "--rfc3164", "old at a second port"], check=True)
        events = self.events(4)
        for event in events:
            headers = event["headers"]
            # local0 is 16, warning is 4.
            self.assertEqual((headers["Facility"], headers["Severity"], headers["priority"]), ("16", "4", "132"), event)
            self.assertNotIn("flume.syslog.status", headers)
            self.assertEqual(headers["host"], socket.gethostname().split(".")[0] if "old" in event["body"] else headers["host"])
            self.assertTrue(headers["timestamp"].isdigit(), event)
        bodies = {event["body"].split("app")[-1].split("] ")[-1].lstrip(": -"): event["headers"] for event in events}
        self.assertEqual(len(bodies), 4)
        self.assertEqual([h.get("port") for b, h in bodies.items() if "second" in b], [str(self.second)])
        self.assertEqual([h.get("from") for b, h in bodies.items() if "old over TCP" in b], ["127.0.0.1"])
        self.assertEqual([h.get("version") for b, h in bodies.items() if "new over UDP" in b], ["1"])

    def expect_fields(self, daemon: Daemon, expected: dict[str, str]):
        """Each way of sending has every field: which version there is with which source, by names of ports."""
        began_ms = time.time() * 1000
        pid = daemon.say("hello there")
        events = self.events(len(expected))
        found = {}
        for event in events:
            headers, body = event["headers"], event["body"]
            self.assertEqual((headers["Facility"], headers["Severity"], headers["priority"]), ("16", "4", "132"), event)
            self.assertEqual(headers["host"], socket.gethostname(), event)
            self.assertNotIn("flume.syslog.status", headers, event)
            # A time of RFC 3164 has no parts of a second.
            self.assertTrue(began_ms - 1000 <= int(headers["timestamp"]) <= time.time() * 1000 + 1000, event)
            new = rf"app {pid} - (-|\[meta sequenceId=\"\d+\"\])  ?hello there"
            self.assertRegex(body, new if "version" in headers else rf"app\[{pid}\]: hello there", event)
            way = headers.get("port") or ("tcp" if "from" in headers else "udp")
            found.setdefault(way, []).append(headers.get("version"))
        self.assertEqual(found, expected)

    def test_rsyslog_sends_every_field(self):
        ways = [(self.tcp, "tcp", "TraditionalForwardFormat", ""), (self.udp, "udp", "TraditionalForwardFormat", ""),
                (self.first, "tcp", "SyslogProtocol23Format", ""), (self.second, "tcp", "SyslogProtocol23Format", 'TCP_Framing="octet-counted"')]
        actions = [f'action(type="omfwd" target="127.0.0.1" port="{port}" protocol="{protocol}" template="RSYSLOG_{form}" {more})'
                   for port, protocol, form, more in ways]
        local = f'global(workDirectory="{self.directory}")\nmodule(load="imuxsock" SysSock.Use="off")\n'
        text = f'{local}input(type="imuxsock" Socket="SOCKET" CreatePath="on")\n' + "\n".join(actions) + "\n"
        daemon = Rsyslog(self, self.directory, "rsyslog", text).start()
        self.expect_fields(daemon, {"tcp": [None], "udp": [None], str(self.first): ["1"], str(self.second): ["1"]})

    def test_syslog_ng_sends_every_field(self):
        ways = [f'network("127.0.0.1" port({self.tcp}) transport("tcp"))', f'network("127.0.0.1" port({self.udp}) transport("udp"))',
                f'network("127.0.0.1" port({self.first}) transport("tcp") flags(syslog-protocol))',
                f'syslog("127.0.0.1" port({self.second}) transport("tcp"))',
                f'syslog("127.0.0.1" port({self.tls}) transport("tls") tls(ca-file("{self.files.authority}") '
                f'cert-file("{self.files.certificate}") key-file("{self.files.private}") peer-verify(required-trusted)))']
        text = "@version: 3.38\noptions { keep-hostname(yes); stats-freq(0); };\nsource s { unix-dgram(\"SOCKET\"); };\n"
        text += "".join(f"destination d{at} {{ {way}; }};\nlog {{ source(s); destination(d{at}); }};\n" for at, way in enumerate(ways))
        daemon = SyslogNg(self, self.directory, "syslog-ng", text).start()
        expected = {"tcp": [None], "udp": [None], str(self.first): ["1"], str(self.second): ["1"], str(self.tls): ["1"]}
        self.expect_fields(daemon, expected)

    def test_who_has_no_certificate_is_turned_away(self):
        strange = Certificates(self.directory / "strangers")
        message = b"<13>Oct 11 22:14:15 host message\n"

        def say(trust: ssl.SSLContext):
            with socket.create_connection(("127.0.0.1", self.tls)) as plain, trust.wrap_socket(plain, server_hostname="127.0.0.1") as client:
                client.sendall(message)

        for key in (None, strange.key):
            trust = ssl.create_default_context(cafile=self.files.authority)
            if key:
                trust.load_cert_chain(key)
            # A client of TLS 1.3 has shaken hands, and may hear later that its certificate is refused.
            with contextlib.suppress(OSError):
                say(trust)
        with socket.create_connection(("127.0.0.1", self.tls)) as client:
            client.sendall(message)
            self.assertIn(client.recv(1)[:1], (b"", b"\x15"), "the end, or an alert before it")
        wait_until(lambda: self.agent.count("SOURCE.tls", "EventReadFail") == 3, "three are counted", DEADLINE_S)
        self.assertEqual(self.agent.count("SOURCE.tls", "EventReceivedCount"), 0)
        trust = ssl.create_default_context(cafile=self.files.authority)
        trust.load_cert_chain(self.files.key)
        say(trust)
        self.assertEqual(len(self.events(1)), 1)

    def test_a_batch_has_no_more_messages_than_it_may(self):
        with socket.create_connection(("127.0.0.1", self.first)) as client:
            client.sendall(b"".join(b"<13>Oct 11 22:14:15 host message %d\n" % n for n in range(10)))
        self.events(10)
        self.assertGreaterEqual(self.agent.count("SOURCE.many", "AppendBatchReceivedCount"), 5)

    def test_what_is_malformed_is_kept_with_its_status(self):
        with socket.create_connection(("127.0.0.1", self.tcp)) as client:
            client.sendall(b"no priority at all\n<999999>too many digits\n<13>" + b"x" * 3000 + b"\n")
        events = self.events(4)
        statuses = [(event["headers"].get("flume.syslog.status"), len(event["body"])) for event in events]
        self.assertEqual(statuses, [("Invalid", 18), ("Invalid", 23), ("Incomplete", 2500), ("Invalid", 504)])
        self.assertEqual(self.agent.count("SOURCE.tcp", "EventReadFail"), 4)
