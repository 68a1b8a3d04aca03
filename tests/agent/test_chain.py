"""Two hops with durable channels, each killed in turn: every event arrives at least once."""

import os

from agents import Agent, AgentCase, lines_in

from harness.ports import free_port
from harness.seed import SEED
from harness.waiting import wait_until

# LONG=1 is for a night, not for each change.
EVENTS, KILLS = (40_000, 40) if os.environ.get("LONG") else (4_000, 5)
DEADLINE_S = 120


class Chain(AgentCase):
    def test_no_event_is_lost_whoever_is_killed(self):
        port, arrived = free_port(), self.made("arrived")
        spool = self.spooled(range(EVENTS))
        channel = "[channels.c]\ntype = 'file'\nminimumRequiredSpace = 1048576\ncapacity = 1000000\n"
        first = Agent(
            self,
            self.directory,
            "first",
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\nbatchSize = 50\n"
            f"{channel}dataDirs = '{self.directory}/first'\n"
            f"[sinks.k]\ntype = 'avro'\nchannel = 'c'\nhostname = '127.0.0.1'\nport = {port}\nbatch-size = 50\n",
        )
        second = Agent(
            self,
            self.directory,
            "second",
            f"[sources.r]\ntype = 'avro'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n"
            f"{channel}dataDirs = '{self.directory}/second'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{arrived}'\n'sink.batchSize' = 50\n",
        )
        second.start()
        first.start()
        self.kill_in_turn([first, second], lambda: lines_in(arrived), EVENTS, KILLS)
        wait_until(lambda: len(set(lines_in(arrived))) >= EVENTS, "all events", DEADLINE_S)
        lines = lines_in(arrived)
        self.assertEqual(set(lines), {str(number) for number in range(EVENTS)})
        print(f"{EVENTS} events over two hops with {KILLS} kills (SEED={SEED}): {len(lines) - EVENTS} came again", flush=True)
        self.assertEqual((first.stop(), second.stop()), (0, 0))
