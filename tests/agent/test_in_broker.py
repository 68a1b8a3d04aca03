"""An agent in the broker's process, and a look at one by `agent top`."""

import json
import subprocess

from agents import AgentCase, lines_in

from harness.logway import BINARY, Logway, logway
from harness.ports import free_port
from harness.waiting import wait_until

EVENTS = 1000
DEADLINE_S = 60


class WithAgent(Logway):
    """A broker that runs an agent."""

    agent: list[str] = []

    def command(self):
        return [*super().command(), *self.agent]


class InBroker(AgentCase):
    def setUp(self):
        super().setUp()
        self.arrived = self.made("arrived")
        self.metrics = f"127.0.0.1:{free_port()}"
        self.file = self.directory / "agent.toml"
        # No component says where its broker is.
        self.file.write_text(
            "[sources.r]\ntype = 'seq'\ntotalEvents = 1000\nbatchSize = 50\nchannels = ['c']\n"
            "[channels.c]\ntype = 'logway'\ntopic = 'events'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{self.arrived}'\n"
        )

    def broker(self) -> WithAgent:
        broker = WithAgent("agent-in-broker")
        broker.agent = ["--agent", str(self.file), "--agent-metrics", self.metrics]
        self.addCleanup(broker.kill)
        return broker

    def top(self) -> dict:
        ran = logway("agent", "top", self.metrics, "--once", "--format", "json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)

    def test_an_agent_runs_and_ends_with_the_broker(self):
        broker = self.broker()
        broker.start()
        wait_until(lambda: len(lines_in(self.arrived)) >= EVENTS, "all events", DEADLINE_S)
        self.assertEqual(sorted(map(int, lines_in(self.arrived))), list(range(EVENTS)))
        wait_until(lambda: self.top()["channels"][0]["events"] == 0, "the channel to be empty", DEADLINE_S)
        look = self.top()
        self.assertEqual(look["sources"][0]["events_in"], EVENTS)
        self.assertEqual((look["sinks"][0]["name"], look["sinks"][0]["events_out"]), ("k", EVENTS))
        self.assertEqual(look["channels"][0]["lost"], 0)
        broker.process.terminate()
        self.assertEqual(broker.process.wait(DEADLINE_S), 0)
        # The agent has left its group and the broker is clean: the next life begins at once, and gives nothing again.
        broker.start()
        wait_until(lambda: len(lines_in(self.arrived)) >= 2 * EVENTS, "the events of a second life", DEADLINE_S)
        self.assertEqual(sorted(map(int, lines_in(self.arrived))), sorted([*range(EVENTS)] * 2))

    def test_the_agent_may_be_one_of_flumes(self):
        self.file.write_text(
            "a1.sources = r\na1.channels = c\na1.sinks = k\na1.sources.r.type = seq\na1.sources.r.totalEvents = 1000\n"
            "a1.sources.r.channels = c\na1.channels.c.type = org.apache.flume.channel.kafka.KafkaChannel\n"
            "a1.channels.c.kafka.topic = flume\na1.sinks.k.type = file_roll\na1.sinks.k.channel = c\n"
            f"a1.sinks.k.sink.directory = {self.arrived}\n"
        )
        broker = self.broker()
        broker.agent += ["--agent-flume-name", "a1"]
        broker.start()
        wait_until(lambda: len(lines_in(self.arrived)) >= EVENTS, "all events", DEADLINE_S)
        self.assertEqual(sorted(map(int, lines_in(self.arrived))), list(range(EVENTS)))

    def test_top_shows_numbers_in_text_again_and_again(self):
        self.broker().start()
        wait_until(lambda: len(lines_in(self.arrived)) >= EVENTS, "all events", DEADLINE_S)
        with subprocess.Popen([BINARY, "agent", "top", self.metrics, "--interval", "0.1"], stdout=subprocess.PIPE, text=True) as top:
            lines = [top.stdout.readline().split() for _ in range(24)]
            top.terminate()
        self.assertEqual(lines[0], ["SOURCE", "IN", "IN/S", "ACCEPTED", "ERRORS", "DROPPED"])
        self.assertIn(["r", str(EVENTS), "-", str(EVENTS), "0", "0"], lines)
        # The second look knows how many there were a second.
        self.assertIn(["r", str(EVENTS), "0", str(EVENTS), "0", "0"], lines)

    def test_what_is_wrong_with_the_agent_is_told_before_the_broker_starts(self):
        self.file.write_text("[sources.r]\ntype = 'sec'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n")
        broker = self.broker()
        ran = subprocess.run(broker.command(), capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("the nearest is 'seq'", ran.stderr)
        self.assertFalse((broker.data_dir).exists())

    def test_top_of_nobody_says_so(self):
        ran = logway("agent", "top", self.metrics, "--once")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn(b"agent run --metrics", ran.stderr)
