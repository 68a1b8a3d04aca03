"""What agents manage, beside Flume 1.11 and rsyslog: events a second, CPU time an event, memory.

    tests/agent/speed.sh [EVENTS] [ROUNDS]

Three works, each done by one after the other, in turns: a file that is there at once into a topic; syslog over TCP into a topic; one
hop over Avro. Channels of Logway and Flume are on disk, rsyslog's queues in memory. The broker is Logway's. Time runs from when all are ready to
when the last event has arrived; memory is the most that was resident. For a quiet machine and a release build.
"""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from agents import Agent, Flume
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from test_syslog import Rsyslog

from harness.logway import Logway
from harness.ports import free_port
from harness.waiting import wait_until

EVENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
DEADLINE_S = 300
TICKS = os.sysconf("SC_CLK_TCK")
BODY = "x" * 180


class MeasuredFlume(Flume):
    """With a heap that users give it, and its counters over HTTP."""

    def __init__(self, case, directory, name, configuration):
        super().__init__(case, directory, name, configuration)
        self.metrics_port = free_port()

    def command(self):
        command = super().command()
        monitoring = ["-Dflume.monitoring.type=http", f"-Dflume.monitoring.port={self.metrics_port}"]
        return [command[0], "-Xmx512m", *monitoring, *command[2:]]

    def count(self, component: str, counter: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as page:
                return int(json.load(page)[component][counter])
        except urllib.error.URLError:
            # Counters are served last of all.
            return 0


def cpu_s(process) -> float:
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_bytes(process) -> int:
    line = next(line for line in Path(f"/proc/{process.process.pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


class Work:
    """One work, done by one of those who are compared."""

    def __init__(self, case: unittest.TestCase, broker: Logway, directory: Path, topic: str, events: int):
        self.case, self.broker, self.directory, self.topic, self.events = case, broker, directory, topic, events
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "enable.metrics.push": False})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        self.consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "speed", "enable.metrics.push": False})
        self.input = directory / "input"
        self.input.mkdir()
        self.port = free_port()

    def arrived(self) -> int:
        return self.consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=60)[1]

    def done(self, processes, begin, arrived) -> dict:
        for process in processes:
            process.start()
        before = sum(map(cpu_s, processes))
        began = time.monotonic()
        begin()
        wait_until(lambda: arrived() >= self.events, f"{self.events} events, of which {arrived()} are there", DEADLINE_S)
        took = time.monotonic() - began
        used = sum(map(cpu_s, processes)) - before
        found = {"events/s": self.events / took, "CPU us": used / self.events * 1e6, "MiB": max(map(peak_bytes, processes)) / (1 << 20)}
        for process in processes:
            process.kill()
        return found

    # Where events come from.

    def move_file(self):
        source = self.directory / "lines"
        with source.open("w") as file:
            for number in range(self.events):
                file.write(f"{number:010} {BODY}\n")
        return lambda: source.rename(self.input / "a.log")

    def send_syslog(self):
        line = f"<134>Oct 11 22:14:15 host app[1]: {BODY}\n".encode()

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", self.port)) == 0

        def send():
            wait_until(listens, "the source to listen", DEADLINE_S)
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                for _ in range(self.events // 1000):
                    client.sendall(line * 1000)

        return send

    # Who does it.

    def logway_channel(self) -> str:
        return f"[channels.c]\ntype = 'file'\ncapacity = 10000000\nminimumRequiredSpace = 1048576\ndataDirs = '{self.directory}/channel'\n"

    def flume_channel(self) -> str:
        return (f"a.channels.c.type = file\na.channels.c.capacity = 10000000\na.channels.c.checkpointDir = {self.directory}/checkpoint\n"
                f"a.channels.c.dataDirs = {self.directory}/channel\n")

    def logway_into_topic(self, source: str) -> Agent:
        return Agent(self.case, self.directory, "agent", f"[sources.r]\nchannels = ['c']\n{source}\n{self.logway_channel()}"
                     f"[sinks.k]\ntype = 'kafka'\nchannel = 'c'\n'kafka.bootstrap.servers' = '{self.broker.bootstrap}'\n"
                     f"'kafka.topic' = '{self.topic}'\nflumeBatchSize = 1000\n")

    def flume_into_topic(self, source: str) -> MeasuredFlume:
        return MeasuredFlume(self.case, self.directory, "flume", f"a.sources = r\na.channels = c\na.sinks = k\na.sources.r.channels = c\n{source}"
                             f"{self.flume_channel()}a.sinks.k.type = org.apache.flume.sink.kafka.KafkaSink\na.sinks.k.channel = c\n"
                             f"a.sinks.k.kafka.bootstrap.servers = {self.broker.bootstrap}\na.sinks.k.kafka.topic = {self.topic}\n"
                             f"a.sinks.k.flumeBatchSize = 1000\na.sinks.k.kafka.producer.acks = all\n")

    def rsyslog_into_topic(self, source: str) -> Rsyslog:
        local = (f'global(workDirectory="{self.directory}" maxMessageSize="64k")\nmodule(load="omkafka")\nmodule(load="imuxsock" SysSock.Use="off")\n'
                 f'input(type="imuxsock" Socket="SOCKET" CreatePath="on")\ntemplate(name="raw" type="string" string="%msg%")\n')
        action = (f'action(type="omkafka" broker=["{self.broker.bootstrap}"] topic="{self.topic}" template="raw" '
                  f'confParam=["acks=all"] partitions.auto="on")\n')
        return Rsyslog(self.case, self.directory, "rsyslog", local + source + action)

    def file_into_topic(self, who: str) -> dict:
        positions = self.directory / "positions.json"
        process = {
            "logway": lambda: self.logway_into_topic(f"type = 'taildir'\nbatchSize = 1000\npositionFile = '{positions}'\n"
                                                     f"filegroups.all = '{self.input}/.*'"),
            "flume": lambda: self.flume_into_topic(f"a.sources.r.type = TAILDIR\na.sources.r.batchSize = 1000\na.sources.r.positionFile = {positions}\n"
                                                   f"a.sources.r.filegroups = all\na.sources.r.filegroups.all = {self.input}/.*\n"),
            "rsyslog": lambda: self.rsyslog_into_topic(f'module(load="imfile")\ninput(type="imfile" File="{self.input}/*.log" Tag="t")\n'),
        }[who]()
        return self.done([process], self.move_file(), self.arrived)

    def syslog_into_topic(self, who: str) -> dict:
        process = {
            "logway": lambda: self.logway_into_topic(f"type = 'syslogtcp'\nhost = '127.0.0.1'\nport = {self.port}"),
            "flume": lambda: self.flume_into_topic(f"a.sources.r.type = syslogtcp\na.sources.r.host = 127.0.0.1\na.sources.r.port = {self.port}\n"),
            "rsyslog": lambda: self.rsyslog_into_topic(f'module(load="imptcp")\ninput(type="imptcp" address="127.0.0.1" port="{self.port}")\n'),
        }[who]()
        return self.done([process], self.send_syslog(), self.arrived)

    def hop(self, who: str) -> dict:
        """Both agents count. The first has all events in its channel before the second starts."""
        if who == "rsyslog":
            return {}
        make, channel = (Agent, self.logway_channel) if who == "logway" else (MeasuredFlume, self.flume_channel)
        if who == "logway":
            first = (f"[sources.r]\ntype = 'stress'\nsize = 200\nmaxTotalEvents = {self.events}\nbatchSize = 1000\nchannels = ['c']\n{channel()}"
                     f"[sinks.k]\ntype = 'avro'\nchannel = 'c'\nhostname = '127.0.0.1'\nport = {self.port}\nbatch-size = 1000\n")
            second = (f"[sources.r]\ntype = 'avro'\nbind = '127.0.0.1'\nport = {self.port}\nchannels = ['c']\n{channel()}"
                      f"[sinks.k]\ntype = 'null'\nchannel = 'c'\nbatchSize = 1000\n")
        else:
            lists = "a.sources = r\na.channels = c\na.sinks = k\na.sources.r.channels = c\na.sinks.k.channel = c\n"
            first = (f"{lists}a.sources.r.type = org.apache.flume.source.StressSource\na.sources.r.size = 200\na.sources.r.maxTotalEvents = {self.events}\n"
                     f"a.sources.r.batchSize = 1000\n{channel()}a.sinks.k.type = avro\na.sinks.k.hostname = 127.0.0.1\na.sinks.k.port = {self.port}\n"
                     f"a.sinks.k.batch-size = 1000\n")
            second = (f"{lists}a.sources.r.type = avro\na.sources.r.bind = 127.0.0.1\na.sources.r.port = {self.port}\n{channel()}"
                      f"a.sinks.k.type = null\na.sinks.k.batchSize = 1000\n")
        sender = make(self.case, self.directory, "sender", first)
        self.directory = self.directory / "second"
        self.directory.mkdir()
        second = second.replace(str(self.directory.parent), str(self.directory))
        receiver = make(self.case, self.directory, "receiver", second)
        sender.start()
        wait_until(lambda: sender.count("CHANNEL.c", "EventPutSuccessCount") >= self.events, "events in the first channel", DEADLINE_S)
        before = cpu_s(sender)
        found = self.done([receiver], lambda: None, lambda: receiver.count("CHANNEL.c", "EventTakeSuccessCount"))
        found["CPU us"] += (cpu_s(sender) - before) / self.events * 1e6
        found["MiB"] = max(found["MiB"], peak_bytes(sender) / (1 << 20))
        sender.kill()
        return found


class Speed(unittest.TestCase):
    def test_speed(self):
        broker = Logway("agent-speed")
        broker.start()
        self.addCleanup(broker.kill)
        print(f"{ROUNDS} rounds; median of them, and every one", flush=True)
        for work in ["file_into_topic", "syslog_into_topic", "hop"]:
            found = {"logway": [], "flume": [], "rsyslog": []}
            events = EVENTS // 20 if work == "syslog_into_topic" else EVENTS
            for turn in range(ROUNDS):
                for who, of_who in found.items():
                    directory = Path(tempfile.mkdtemp(prefix="agent-speed-", dir=os.environ.get("SPEED_DIRECTORY")))
                    try:
                        of_who.append(getattr(Work(self, broker, directory, f"{work}-{who}-{turn}", events), work)(who))
                    finally:
                        shutil.rmtree(directory, ignore_errors=True)
            for who, of_who in found.items():
                for what in of_who[0]:
                    values = sorted(one[what] for one in of_who)
                    every = ", ".join(f"{value:,.1f}" for value in values)
                    print(f"{work:18} {events:8} {who:8} {what:9} {values[len(values) // 2]:12,.1f}   ({every})", flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
