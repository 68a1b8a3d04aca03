"""Syslog from util-linux' `logger`, and what is none."""

import json
import shutil
import socket
import subprocess
import unittest

from agents import Agent, AgentCase, free_port, lines_in

from harness.waiting import wait_until

DEADLINE_S = 30


class Syslog(AgentCase):
    def events(self, count: int) -> list[dict]:
        wait_until(lambda: len(lines_in(self.arrived)) >= count, f"{count} events", DEADLINE_S)
        return [json.loads(line) for line in lines_in(self.arrived)]

    def setUp(self):
        super().setUp()
        self.arrived = self.made("arrived")
        self.tcp, self.udp, self.first, self.second = free_port(), free_port(), free_port(), free_port()
        sources = (
            f"[sources.tcp]\ntype = 'syslogtcp'\nhost = '127.0.0.1'\nport = {self.tcp}\nchannels = ['c']\nclientIPHeader = 'from'\n"
            f"[sources.udp]\ntype = 'syslogudp'\nhost = '127.0.0.1'\nport = {self.udp}\nchannels = ['c']\n"
            f"[sources.many]\ntype = 'multiport_syslogtcp'\nhost = '127.0.0.1'\nports = [{self.first}, {self.second}]\n"
            f"portHeader = 'port'\nbatchSize = 2\nchannels = ['c']\n"
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
