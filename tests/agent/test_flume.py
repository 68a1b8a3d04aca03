"""Real Flume agents before and behind ours: Avro plain and deflated, Thrift compact and binary."""

from agents import Agent, AgentCase, Flume, lines_in

from harness.ports import free_port
from harness.waiting import wait_until

EVENTS = 2000
DEADLINE_S = 60

# Name, what Flume's half says besides, and what ours does.
HOPS = [
    ("avro", "avro", "", ""),
    ("deflate", "avro", "compression-type = deflate", "compression-type = 'deflate'"),
    ("compact", "thrift", "", ""),
    ("binary", "thrift", "protocol = binary", "protocol = 'binary'"),
]


class FlumeHops(AgentCase):
    def expect_all(self, directories):
        """Each number is there at least once; nothing failed on the way, so that it is there once."""
        expected = sorted(str(number) for number in range(EVENTS))

        def arrived():
            return all(len(lines_in(directory)) >= EVENTS for directory in directories)

        wait_until(arrived, f"{EVENTS} events in each of {directories}", DEADLINE_S)
        for directory in directories:
            self.assertEqual(sorted(lines_in(directory)), expected, directory.name)

    def test_flume_sends_to_us(self):
        ours, theirs, directories = [], [], []
        for name, kind, of_flume, of_ours in HOPS:
            port, directory = free_port(), self.made(name)
            directories.append(directory)
            ours.append(
                f"[sources.{name}]\ntype = '{kind}'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['{name}']\n{of_ours}\n"
                f"[channels.{name}]\ntype = 'file'\ndataDirs = '{self.directory}/channel-{name}'\nminimumRequiredSpace = 1048576\n"
                f"[sinks.{name}]\ntype = 'file_roll'\nchannel = '{name}'\n'sink.directory' = '{directory}'\n"
            )
            theirs.append(
                f"a.sources.{name}.type = seq\na.sources.{name}.totalEvents = {EVENTS}\na.sources.{name}.batchSize = 50\n"
                f"a.sources.{name}.channels = {name}\n"
                f"a.channels.{name}.type = memory\na.channels.{name}.capacity = 1000\n"
                f"a.sinks.{name}.type = {kind}\na.sinks.{name}.channel = {name}\n"
                f"a.sinks.{name}.hostname = 127.0.0.1\na.sinks.{name}.port = {port}\n"
                + (f"a.sinks.{name}.{of_flume}\n" if of_flume else "")
            )
        agent = Agent(self, self.directory, "ours", "\n".join(ours)).start()
        names = " ".join(name for name, *_ in HOPS)
        lists = f"a.sources = {names}\na.channels = {names}\na.sinks = {names}\n"
        Flume(self, self.directory, "flume", lists + "".join(theirs)).start()
        self.expect_all(directories)
        for name, *_ in HOPS:
            self.assertEqual(agent.count(f"SOURCE.{name}", "EventAcceptedCount"), EVENTS)

    def test_we_send_to_flume(self):
        ours, theirs, directories = [], [], []
        for name, kind, of_flume, of_ours in HOPS:
            port, directory = free_port(), self.made(name)
            directories.append(directory)
            theirs.append(
                f"a.sources.{name}.type = {kind}\na.sources.{name}.bind = 127.0.0.1\na.sources.{name}.port = {port}\n"
                f"a.sources.{name}.channels = {name}\n"
                + (f"a.sources.{name}.{of_flume}\n" if of_flume else "")
                + f"a.channels.{name}.type = memory\na.channels.{name}.capacity = 10000\n"
                f"a.sinks.{name}.type = file_roll\na.sinks.{name}.channel = {name}\n"
                f"a.sinks.{name}.sink.directory = {directory}\n"
            )
            ours.append(
                f"[sources.{name}]\ntype = 'seq'\ntotalEvents = {EVENTS}\nbatchSize = 50\nchannels = ['{name}']\n"
                f"[channels.{name}]\ntype = 'memory'\ncapacity = 1000\n"
                f"[sinks.{name}]\ntype = '{kind}'\nchannel = '{name}'\nhostname = '127.0.0.1'\nport = {port}\n{of_ours}\n"
            )
        names = " ".join(name for name, *_ in HOPS)
        lists = f"a.sources = {names}\na.channels = {names}\na.sinks = {names}\n"
        Flume(self, self.directory, "flume", lists + "".join(theirs)).start()
        Agent(self, self.directory, "ours", "\n".join(ours)).start()
        self.expect_all(directories)
