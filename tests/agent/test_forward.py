"""Fluent's own library before the source `forward`: all modes, acknowledgements, the handshake, and who is turned away."""

import gzip
import json
import socket
import struct
import subprocess
from pathlib import Path

from agents import Agent, AgentCase, lines_in

from harness.ports import free_port
from harness.waiting import wait_until

DEADLINE_S = 60
EVENTS = 300
LIBRARY = Path(__file__).parent / "fluent"


def modules() -> None:
    need = Path(__file__).parents[1] / "harness" / "need"
    subprocess.run([need, "node-modules", LIBRARY], check=True, capture_output=True)


class Forward(AgentCase):
    def source(self, more: str = "") -> Agent:
        self.port, self.arrived = free_port(), self.made("arrived")
        return Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'forward'\nbind = '127.0.0.1'\nport = {self.port}\nchannels = ['c']\n{more}"
            f"[channels.c]\ntype = 'memory'\ntransactionCapacity = 70\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.batchSize' = 50\n'sink.directory' = '{self.arrived}'\n"
            "'sink.serializer' = 'JSON'\n",
        ).start()

    def send(self, mode: str, *more: str) -> subprocess.CompletedProcess:
        command = ["node", LIBRARY / "send.js", str(self.port), mode, str(EVENTS), *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)

    def events(self, count: int) -> list[dict]:
        wait_until(lambda: len(lines_in(self.arrived)) >= count, "all events", DEADLINE_S)
        return [json.loads(line) for line in lines_in(self.arrived)]

    def test_the_librarys_modes_are_understood_and_acknowledged(self):
        modules()
        agent = self.source()
        modes = ["Message", "Forward", "PackedForward", "CompressedPackedForward"]
        for mode in modes:
            ran = self.send(mode)
            self.assertEqual(ran.returncode, 0, f"{mode}: {ran.stderr}\n{agent.text()}")
        events = self.events(len(modes) * EVENTS)
        records = [json.loads(event["body"]) for event in events]
        found = sorted((record["mode"], record["number"]) for record in records)
        self.assertEqual(found, sorted((mode, number) for mode in modes for number in range(EVENTS)))
        self.assertEqual(records[0]["nested"], {"list": [1, None, True]})
        self.assertEqual({event["headers"]["tag"] for event in events}, {"web.access"})
        self.assertEqual(agent.count("SOURCE.r", "EventReadFail"), 0)

    def test_only_who_knows_key_and_password_is_let_in(self):
        modules()
        agent = self.source("messageKey = 'message'\nsharedKey = 'open sesame'\n[sources.r.users]\nali = 'baba'\n")
        ran = self.send("PackedForward", "open sesame", "ali", "baba")
        self.assertEqual(ran.returncode, 0, f"{ran.stderr}\n{agent.text()}")
        events = self.events(EVENTS)
        self.assertEqual({event["body"] for event in events}, {f"event {number}" for number in range(EVENTS)})
        self.assertEqual(events[0]["headers"]["nested"], '{"list":[1,null,true]}')
        for key, password, why in [("open barley", "baba", "shared key mismatch"), ("open sesame", "kasim", "username/password mismatch")]:
            self.assertNotEqual(self.send("PackedForward", key, "ali", password).returncode, 0)
            self.assertIn(why, agent.text())
        self.assertEqual(len(lines_in(self.arrived)), EVENTS)

    def test_clients_that_mean_harm_are_closed_and_others_are_served(self):
        agent = self.source("maxMessageBytes = 1048576\n")

        def closed(request: bytes) -> bool:
            with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as client:
                try:
                    client.sendall(request)
                    return client.recv(100) == b""
                except ConnectionError:
                    return True

        before = agent.rss_bytes()
        bomb = gzip.compress(b"\0" * (256 << 20))
        packed = b"\x93\xa1t\xc6" + struct.pack(">I", len(bomb)) + bomb + b"\x81\xaacompressed\xa4gzip"
        # A million entries of two empty maps fit, and take more than they may.
        entries = b"\x92\xa1t\xdd" + struct.pack(">I", 1 << 30) + b"\x92\0\x80" * 700_000
        hostile = [packed, entries, b"\x91" * (2 << 20), b"\xc1", b"GET / HTTP/1.1\r\n\r\n", b"\x92\xa1t\xdb\xff\xff\xff\xff" + b"x" * (2 << 20)]
        for request in hostile:
            self.assertTrue(closed(request), request[:20])
        self.assertLess(agent.rss_bytes() - before, 96 << 20)
        self.assertEqual(agent.count("SOURCE.r", "EventReadFail"), len(hostile))
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            for byte in b"\x94\xa1t\x07\x81\xa1a\xc0\x81\xa5chunk\xa2id":
                client.sendall(bytes([byte]))
            self.assertEqual(client.recv(100), b"\x81\xa3ack\xa2id")
        self.assertEqual(self.events(1), [{"body": '{"a":null}', "headers": {"forward.timeNs": "7000000000", "tag": "t", "timestamp": "7000"}}])
