"""systemd's own program before the source `journald`, with a journal that systemd's own tool has written."""

import json
import subprocess
from pathlib import Path

from agents import Agent, AgentCase, lines_in

from harness.waiting import wait_until

DEADLINE_S = 60
WRITER = Path("/lib/systemd/systemd-journal-remote")


class Journald(AgentCase):
    def setUp(self):
        super().setUp()
        subprocess.run([Path(__file__).parents[1] / "harness" / "need", "journal-remote"], check=True, capture_output=True)
        self.journal, self.arrived = self.made("journal"), self.made("arrived")
        self.written = 0

    def configuration(self, more: str = "") -> str:
        return (
            f"[sources.r]\ntype = 'journald'\ndirectory = '{self.journal}'\ncursorFile = '{self.directory}/state/cursor'\n"
            f"batchTimeout = 50\nchannels = ['c']\n{more}"
            f"[channels.c]\ntype = 'file'\ndataDirs = '{self.directory}/channel'\nminimumRequiredSpace = 1048576\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{self.arrived}'\n'sink.serializer' = 'JSON'\n"
        )

    def write(self, count: int) -> None:
        """More entries, some of them with line ends and bytes that are no text."""
        entries = b""
        for number in range(self.written, self.written + count):
            text = f"entry {number}\nof two lines \xff".encode("latin-1")
            entries += (
                f"__REALTIME_TIMESTAMP={1_700_000_000_000_000 + number}\n__MONOTONIC_TIMESTAMP={number + 1}\n"
                "_BOOT_ID=0123456789abcdef0123456789abcdef\n_MACHINE_ID=0123456789abcdef0123456789abcdef\n"
                f"PRIORITY={number % 8}\n_SYSTEMD_UNIT=web.service\nMESSAGE\n"
            ).encode() + len(text).to_bytes(8, "little") + text + b"\n\n"
        self.written += count
        # Each file is a journal of its own; `journalctl` follows new ones too.
        file = self.journal / f"part-{self.written}.journal"
        subprocess.run([WRITER, f"--output={file}", "-"], input=entries, check=True, capture_output=True)

    def numbers(self) -> list[int]:
        return [int(json.loads(line)["headers"]["__REALTIME_TIMESTAMP"]) - 1_700_000_000_000_000 for line in lines_in(self.arrived)]

    def test_entries_are_read_on_after_a_kill(self):
        self.write(250)
        agent = Agent(self, self.directory, "agent", self.configuration()).start()
        wait_until(lambda: len(self.numbers()) >= 250, "what was there", DEADLINE_S)
        self.assertEqual(sorted(self.numbers()), list(range(250)))
        cursor = self.directory / "state" / "cursor"
        wait_until(lambda: cursor.exists() and agent.count("CHANNEL.c", "ChannelSize") == 0, "the cursor", DEADLINE_S)
        agent.kill()
        self.write(50)
        agent.start()
        wait_until(lambda: 299 in self.numbers(), "what came meanwhile", DEADLINE_S)
        self.write(10)
        wait_until(lambda: set(self.numbers()) == set(range(310)), f"what comes now {agent.text()[-2000:]}", DEADLINE_S)
        # Of what was read before the kill, no more is read again than a batch.
        self.assertLessEqual(agent.count("SOURCE.r", "EventAcceptedCount"), 60 + 100)
        event = next(json.loads(line) for line in lines_in(self.arrived))
        self.assertEqual(event["headers"]["_SYSTEMD_UNIT"], "web.service")
        self.assertEqual(event["headers"]["timestamp"], "1700000000000")
        self.assertIn("bodyBase64", event)
        self.assertEqual(agent.stop(), 0)

    def test_it_says_why_when_there_is_no_journal(self):
        missing = Agent(self, self.directory, "missing", self.configuration("journalctl = '/nowhere/journalctl'\n"))
        with self.assertRaises(AssertionError):
            missing.start()
        self.assertIn("there is no '/nowhere/journalctl' here", missing.text())
        elsewhere = self.configuration().replace(str(self.journal), str(self.directory / "nothing"))
        agent = Agent(self, self.directory, "agent", elsewhere).start()
        wait_until(lambda: "No such file or directory" in agent.text(), "what journalctl says", DEADLINE_S)
