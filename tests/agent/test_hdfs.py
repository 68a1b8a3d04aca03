"""Files of HDFS, in Hadoop's own cluster: with kills of the agent and of the cluster every event is in a file."""

import io
import os
import re
from types import SimpleNamespace

import pyarrow.parquet
from agents import Agent, AgentCase
from hdfs_cluster import HdfsCluster

from harness.broker import fresh_directory
from harness.seed import SEED
from harness.waiting import wait_until

# LONG=1 is for a night, not for each change.
EVENTS, KILLS = (40_000, 40) if os.environ.get("LONG") else (4_000, 6)
# A NameNode that starts again is in safe mode for half a minute.
HDFS_KILLS = KILLS // 3
DEADLINE_S = 300

# Of each form: what its sink is told, what its names end in, and an event's body in a line of Hadoop's shell.
FORMS = {
    "sequence": ({}, "", lambda line: bytes.fromhex(line.split("\t")[1].replace(" ", "")).decode()),
    "text": ({"writeFormat": "Text"}, "", lambda line: line.split("\t")[1]),
    "blocks": ({"writeFormat": "Text", "codeC": "gzip"}, ".gz", lambda line: line.split("\t")[1]),
    "snappyblocks": ({"writeFormat": "Text", "codeC": "SnappyCodec"}, ".snappy", lambda line: line.split("\t")[1]),
    "gzip": ({"fileType": "CompressedStream", "codeC": "gzip"}, ".gz", str),
    "deflate": ({"fileType": "CompressedStream", "codeC": "DefaultCodec"}, ".deflate", str),
    "snappy": ({"fileType": "CompressedStream", "codeC": "snappy"}, ".snappy", str),
    "plain": ({"fileType": "DataStream", "fileSuffix": ".log"}, ".log", str),
}
OF_A_FORM, OF_A_FILE = 300, 40


class Hdfs(AgentCase):
    @classmethod
    def setUpClass(cls):
        # One for all cases: it takes longer to start than they do.
        of_class = SimpleNamespace(addCleanup=cls.addClassCleanup)
        cls.cluster = HdfsCluster(of_class, fresh_directory("agent-hdfs")).start()

    def lines(self, directory: str) -> list[str]:
        return self.cluster.lines(directory)

    def test_every_event_is_there_when_the_agent_is_killed(self):
        self.expect_all("agent", lambda agent: [agent], KILLS)

    def test_every_event_is_there_when_hdfs_is_killed(self):
        self.expect_all("hdfs", lambda agent: [self.cluster], HDFS_KILLS)

    def expect_all(self, what: str, victims, kills: int):
        """Files are ended after two seconds: what a killed DataNode had of a file that grows can be read when it has ended."""
        spool = self.spooled(range(EVENTS))
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\nbatchSize = 50\n"
            f"[channels.c]\ntype = 'file'\nminimumRequiredSpace = 1048576\ncapacity = 1000000\ndataDirs = '{self.directory}/channel'\n"
            f"[sinks.k]\ntype = 'hdfs'\nchannel = 'c'\n[sinks.k.hdfs]\npath = '{self.cluster.url}/{what}/%Y'\nuseLocalTimeStamp = true\n"
            f"fileType = 'DataStream'\nrollCount = 700\nrollSize = 0\nrollInterval = 2\nbatchSize = 20\ncallTimeout = 5000\nretryInterval = 1\n",
        ).start()

        def lines() -> list[str]:
            return self.lines(f"/{what}")

        self.kill_in_turn(victims(agent), lines, EVENTS, kills, DEADLINE_S)
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == 0, "all events to be written", DEADLINE_S)
        wait_until(lambda: len(set(lines())) >= EVENTS, "the ends of all files to be readable", DEADLINE_S)
        self.assertEqual(agent.stop(), 0)
        found = lines()
        self.assertEqual(set(found), {str(number) for number in range(EVENTS)})
        print(f"{EVENTS} events in HDFS with {kills} kills of {what} (SEED={SEED}): {len(found) - EVENTS} are there again", flush=True)

    def test_hadoop_reads_each_form_by_flumes_configuration(self):
        names = " ".join(FORMS)
        text = f"a.sources = r\na.channels = {names}\na.sinks = {names}\n"
        text += f"a.sources.r.type = seq\na.sources.r.totalEvents = {OF_A_FORM}\na.sources.r.batchSize = 50\na.sources.r.channels = {names}\n"
        common = {"path": f"{self.cluster.url}/forms/NAME/%Y", "useLocalTimeStamp": "true", "rollCount": str(OF_A_FILE),
                  "rollSize": "0", "rollInterval": "0", "inUsePrefix": "_"}
        for name, (own, *_) in FORMS.items():
            text += f"a.channels.{name}.type = memory\na.channels.{name}.capacity = 1000\n"
            text += f"a.sinks.{name}.type = hdfs\na.sinks.{name}.channel = {name}\n"
            for key, value in (common | own).items():
                text += f"a.sinks.{name}.hdfs.{key} = {value.replace('NAME', name)}\n"
        agent = Agent(self, self.directory, "flume", text, flume_name="a").start()
        for name in FORMS:
            wait_until(lambda name=name: agent.count(f"SINK.{name}", "EventDrainSuccessCount") == OF_A_FORM, name, DEADLINE_S)

        def growing() -> list[str]:
            return [path for path in self.cluster.files("/forms/plain") if path.split("/")[-1].startswith("_")]

        # Those that are full get their names by tasks of their own, and the last one grows.
        wait_until(lambda: len(growing()) == 1, "full files to have their names", DEADLINE_S)
        self.assertEqual(agent.stop(), 0)
        for name, (_, ending, body) in FORMS.items():
            files = self.cluster.files(f"/forms/{name}")
            self.assertEqual(len(files), -(-OF_A_FORM // OF_A_FILE), files)
            for path in files:
                self.assertRegex(path, rf"/20\d\d/FlumeData\.\d+{re.escape(ending)}$")
            bodies = [body(line) for line in self.cluster.text(f"/forms/{name}/*/*")]
            self.assertEqual(sorted(bodies, key=int), [str(number) for number in range(OF_A_FORM)], name)

    def test_objects_in_parquet_are_complete_files(self):
        spool = self.spooled(range(EVENTS))
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\nbatchSize = 50\nbasenameHeader = true\n"
            f"[[sources.r.interceptors]]\ntype = 'timestamp'\n[[sources.r.interceptors]]\ntype = 'static'\nkey = 'key'\nvalue = 'k'\n"
            f"[channels.c]\ntype = 'file'\nminimumRequiredSpace = 1048576\ncapacity = 1000000\ndataDirs = '{self.directory}/channel'\n"
            f"[sinks.k]\ntype = 'object_store'\nchannel = 'c'\nformat = 'parquet'\nurl = '{self.cluster.url}/table/%Y'\nrollCount = 90\n"
            f"batchSize = 9\nrollInterval = 1\nrequestTimeout = 5000\n",
        ).start()

        def rows() -> list[dict]:
            complete = [path for path in self.cluster.files("/table") if not path.endswith(".part")]
            return [row for path in complete for row in pyarrow.parquet.read_table(io.BytesIO(self.cluster.read(path))).to_pylist()]

        self.kill_in_turn([agent], rows, EVENTS, KILLS)
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == 0, "all events to be written", DEADLINE_S)
        self.assertEqual(agent.stop(), 0)
        found = rows()
        self.assertEqual({int(row["body"]) for row in found}, set(range(EVENTS)))
        row = found[0]
        self.assertEqual((row["offset"], row["partition"], row["key"], dict(row["headers"])["basename"]), (None, None, "k", "events"))
        self.assertEqual(int(row["timestamp"].timestamp() * 1000), int(dict(row["headers"])["timestamp"]))
        print(f"{EVENTS} events in Parquet with {KILLS} kills (SEED={SEED}): {len(found) - EVENTS} are there again", flush=True)

    def test_a_file_is_complete_when_its_time_is_over(self):
        sinks = ""
        for name, key in [("idle", "idleTimeout"), ("old", "rollInterval")]:
            others = {"rollInterval": 0, "idleTimeout": 0} | {key: 1}
            sinks += (
                f"[sources.{name}]\ntype = 'seq'\ntotalEvents = 5\nbatchSize = 5\nchannels = ['{name}']\n[channels.{name}]\ntype = 'memory'\n"
                f"[sinks.{name}]\ntype = 'hdfs'\nchannel = '{name}'\n[sinks.{name}.hdfs]\npath = '{self.cluster.url}/{name}'\n"
                f"fileType = 'DataStream'\nrollCount = 0\nrollSize = 0\n" + "".join(f"{k} = {v}\n" for k, v in others.items())
            )
        Agent(self, self.directory, "agent", sinks).start()
        for name in ["idle", "old"]:

            def complete(name=name) -> bool:
                files = self.cluster.files(f"/{name}")
                return len(files) == 1 and not files[0].endswith(".tmp")

            wait_until(complete, f"the file of {name}", DEADLINE_S)
            self.assertEqual(self.lines(f"/{name}"), [str(number) for number in range(5)])

    def test_events_without_a_time_are_dead_letters_and_hdfs_is_waited_for(self):
        self.cluster.kill()
        dead = self.made("dead")
        agent = Agent(
            self,
            self.directory,
            "agent",
            "[sources.r]\ntype = 'seq'\ntotalEvents = 5\nbatchSize = 5\nchannels = ['c', 'd']\n"
            "[channels.c]\ntype = 'memory'\n[channels.d]\ntype = 'memory'\n[channels.dead]\ntype = 'memory'\n"
            f"[sinks.timeless]\ntype = 'hdfs'\nchannel = 'c'\ndead-letter = 'dead'\nhdfs.path = '{self.cluster.url}/%Y'\n"
            f"[sinks.waiting]\ntype = 'hdfs'\nchannel = 'd'\nhdfs.path = '{self.cluster.url}/late'\nhdfs.fileType = 'DataStream'\n"
            f"hdfs.callTimeout = 5000\n"
            f"[sinks.dead]\ntype = 'file_roll'\nchannel = 'dead'\n'sink.directory' = '{dead}'\n",
        ).start()
        wait_until(lambda: agent.count("SINK.dead", "EventDrainSuccessCount") == 5, "the dead letters", DEADLINE_S)
        wait_until(lambda: "sink=\"waiting\"" in agent.text() or "sink=waiting" in agent.text(), "a word of the failure", DEADLINE_S)
        self.cluster.start()
        wait_until(lambda: set(self.lines("/late")) == {str(number) for number in range(5)}, "the events", DEADLINE_S)
