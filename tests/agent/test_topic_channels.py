"""Channels in topics: Flume's Kafka channel and ours share one, and kills lose nothing."""

import json
import os
import random

from agents import Agent, BrokerCase, Flume, lines_in

from harness.ports import free_port
from harness.seed import SEED
from harness.waiting import wait_until

# LONG=1 is for a night, not for each change.
EVENTS, KILLS = (40_000, 20) if os.environ.get("LONG") else (3_000, 3)
DEADLINE_S = 120


class TopicChannels(BrokerCase):
    def restarted(self, agent):
        agent.kill()
        agent.start()

    def kafka(self, topic: str, more: str = "") -> str:
        return (
            f"[channels.c]\ntype = 'kafka'\n'kafka.topic' = '{topic}'\n'kafka.bootstrap.servers' = '{self.broker.bootstrap}'\n{more}"
            "'kafka.consumer.session.timeout.ms' = 6000\n"
        )

    def logway(self, topic: str) -> str:
        return (
            f"[channels.c]\ntype = 'logway'\ntopic = '{topic}'\npartitions = 3\n"
            f"'kafka.bootstrap.servers' = '{self.broker.bootstrap}'\n'kafka.consumer.session.timeout.ms' = 6000\n"
        )

    def numbers(self, name: str) -> str:
        """A directory with a file of a number a line, as a source."""
        spool = self.spooled(range(EVENTS), name)
        return f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\nbatchSize = 50\n"

    def file_roll(self, directory, more: str = "") -> str:
        return f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{directory}'\n'sink.batchSize' = 50\n{more}"

    def expect_numbers(self, directory):
        expected = sorted(str(number) for number in range(EVENTS))
        wait_until(lambda: len(lines_in(directory)) >= EVENTS, f"{EVENTS} events in {directory}", DEADLINE_S)
        self.assertEqual(sorted(lines_in(directory)), expected)

    def test_flume_puts_and_we_take(self):
        arrived = self.made("arrived")
        # Ours begins first: with `latest`, what Flume puts after that is ours.
        ours = self.kafka("shared") + self.file_roll(arrived, "'sink.serializer' = 'JSON'\n")
        agent = Agent(self, self.directory, "ours", ours).start()
        Flume(
            self,
            self.directory,
            "flume",
            f"a.sources = r\na.channels = c\na.sources.r.type = seq\na.sources.r.totalEvents = {EVENTS}\n"
            "a.sources.r.batchSize = 50\na.sources.r.channels = c\na.sources.r.interceptors = i\n"
            "a.sources.r.interceptors.i.type=static\na.sources.r.interceptors.i.key = colour\n"
            "a.sources.r.interceptors.i.value = gr\\u00fcn\na.channels.c.type = org.apache.flume.channel.kafka.KafkaChannel\n"
            f"a.channels.c.kafka.topic = shared\na.channels.c.kafka.bootstrap.servers = {self.broker.bootstrap}\n",
        ).start()
        wait_until(lambda: len(lines_in(arrived)) >= EVENTS, "Flume's events", DEADLINE_S)
        events = [json.loads(line) for line in lines_in(arrived)]
        self.assertEqual(sorted(int(event["body"]) for event in events), list(range(EVENTS)))
        self.assertEqual({event["headers"]["colour"] for event in events}, {"grün"})
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == 0, "the channel to be empty", DEADLINE_S)
        self.assertEqual(agent.stop(), 0)

    def test_we_put_and_flume_takes(self):
        arrived = self.made("arrived")
        stamped = "[[sources.r.interceptors]]\ntype = 'static'\nkey = 'colour'\nvalue = 'rot'\n"
        agent = Agent(self, self.directory, "ours", self.numbers("spool") + stamped + self.kafka("shared")).start()
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == EVENTS, "our events", DEADLINE_S)
        Flume(
            self,
            self.directory,
            "flume",
            "a.channels = c\na.sinks = k\na.channels.c.type = org.apache.flume.channel.kafka.KafkaChannel\n"
            f"a.channels.c.kafka.topic = shared\na.channels.c.kafka.bootstrap.servers = {self.broker.bootstrap}\n"
            f"a.sinks.k.type = file_roll\na.sinks.k.channel = c\na.sinks.k.sink.directory = {arrived}\n"
            "a.sinks.k.sink.serializer = header_and_text\n",
        ).start()
        wait_until(lambda: len(lines_in(arrived)) >= EVENTS, "our events at Flume's", DEADLINE_S)
        self.assertEqual(sorted(lines_in(arrived)), sorted(f"{{colour=rot}} {number}" for number in range(EVENTS)))
        # Flume commits for the group, and our channel says that nothing is left.
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == 0, "Flume's commits", DEADLINE_S)

    def test_no_event_is_lost_though_the_agent_is_killed(self):
        for kind in ["kafka", "logway"]:
            with self.subTest(kind):
                self.killed(kind)

    def killed(self, kind: str):
        chance = random.Random(SEED)
        arrived = self.made(f"arrived-{kind}")
        channel = self.kafka("killed-kafka") if kind == "kafka" else self.logway("killed-logway")
        text = self.numbers(f"spool-{kind}") + channel + self.file_roll(arrived)
        agent = Agent(self, self.directory, kind, text).start()
        for _ in range(KILLS):
            goal = min(len(lines_in(arrived)) + chance.randrange(1, EVENTS // KILLS), EVENTS)
            wait_until(lambda goal=goal: len(lines_in(arrived)) >= goal, "events to go on", DEADLINE_S)
            self.restarted(agent)
        wait_until(lambda: len(set(lines_in(arrived))) >= EVENTS, "all events", DEADLINE_S)
        lines = lines_in(arrived)
        self.assertEqual(set(lines), {str(number) for number in range(EVENTS)})
        print(f"{kind}: {EVENTS} events with {KILLS} kills (SEED={SEED}): {len(lines) - EVENTS} came again", flush=True)
        self.assertEqual(agent.stop(), 0)

    def test_what_an_upstream_agent_sends_again_is_given_once(self):
        """Ids are made when events are first put; the sender is killed in the middle of its hop, the receiver is not."""
        chance = random.Random(SEED)
        port, arrived = free_port(), self.made("arrived")
        filler = Agent(self, self.directory, "filler", self.numbers("spool") + self.logway("first")).start()
        wait_until(lambda: filler.count("SOURCE.r", "EventAcceptedCount") == EVENTS, "the first topic", DEADLINE_S)
        self.assertEqual(filler.stop(), 0)
        receiver = Agent(
            self,
            self.directory,
            "receiver",
            f"[sources.r]\ntype = 'avro'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n"
            + self.logway("second")
            + self.file_roll(arrived),
        ).start()
        hop = f"[sinks.k]\ntype = 'avro'\nchannel = 'c'\nhostname = '127.0.0.1'\nport = {port}\nbatch-size = 50\n"
        sender = Agent(self, self.directory, "sender", self.logway("first") + hop).start()
        for _ in range(KILLS):
            goal = min(len(lines_in(arrived)) + chance.randrange(1, EVENTS // KILLS), EVENTS)
            wait_until(lambda goal=goal: len(lines_in(arrived)) >= goal, "events to go on", DEADLINE_S)
            self.restarted(sender)
        wait_until(lambda: sender.count("CHANNEL.c", "ChannelSize") == 0, "the sender to be through", DEADLINE_S)
        wait_until(lambda: receiver.count("CHANNEL.c", "ChannelSize") == 0, "the receiver to be through", DEADLINE_S)
        self.expect_numbers(arrived)
        came = receiver.count("SOURCE.r", "EventAcceptedCount")
        again = receiver.count("CHANNEL.c", "EventRepeatedCount")
        # A batch that is read again after a rebalance is counted once more.
        self.assertGreaterEqual(again, came - EVENTS)
        print(f"hop of {EVENTS} events with {KILLS} kills of the sender (SEED={SEED}): {again} came again, given once", flush=True)
