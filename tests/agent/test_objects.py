"""Objects in files and in a store that speaks S3, with kills of the agent and of the store: every event is in an object, and is read from it."""

import gzip
import os
from pathlib import Path

from agents import Agent, AgentCase, AgentProcess, lines_in, needed

from harness.ports import free_port
from harness.seed import SEED
from harness.waiting import wait_until

# LONG=1 is for a night, not for each change.
EVENTS, KILLS = (40_000, 40) if os.environ.get("LONG") else (4_000, 6)
DEADLINE_S = 120
BUCKET = "logs"
# What s3rver knows.
KEY = "S3RVER"
# By which s3rver's files of objects end.
SUFFIX = "._S3rver_object"


class Store(AgentProcess):
    """s3rver, which keeps objects in files. Of a signature it knows the id of the key; the rest is checked by a test of the crate."""

    def __init__(self, case, directory: Path, port: int):
        super().__init__(case, directory, "store", "")
        modules = needed("node-modules", str(Path(__file__).parent / "s3"))
        self.port, self.kept = port, directory / "kept"
        self.kept.mkdir(exist_ok=True)
        self.program = f"{modules}/.bin/s3rver"

    def command(self) -> list[str]:
        return ["node", self.program, "--directory", str(self.kept), "--address", "127.0.0.1", "--port", str(self.port),
                "--configure-bucket", BUCKET]

    def is_ready(self, log: str) -> bool:
        return "S3rver listening" in log

    def names(self) -> set[str]:
        """Of the objects that are complete."""
        return set(self._found())

    def objects(self) -> dict[str, bytes]:
        """The objects that are complete, by name, while none is deleted."""
        return {name: path.read_bytes() for name, path in self._found().items()}

    def _found(self) -> dict[str, Path]:
        """Their files. A directory may go with its last object meanwhile, which only `walk` takes for an empty one."""
        walked = os.walk(self.kept / BUCKET)
        files = [Path(at) / name for at, _, names in walked for name in names if name.endswith(SUFFIX)]
        return {str(path.relative_to(self.kept / BUCKET)).removesuffix(SUFFIX): path for path in files}


class Objects(AgentCase):
    def configuration(self, sink: str, form: str = "text") -> str:
        spool = self.spooled(range(EVENTS))
        return (
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\nbatchSize = 50\n"
            f"[channels.c]\ntype = 'file'\nminimumRequiredSpace = 1048576\ncapacity = 1000000\ndataDirs = '{self.directory}/channel'\n"
            f"[sinks.k]\ntype = 'object_store'\nchannel = 'c'\nformat = '{form}'\nrollCount = 90\nbatchSize = 9\nrollInterval = 1\n{sink}"
        )

    def expect_all(self, agent: Agent, lines, others: list[AgentProcess]):
        """Every event, once or more, while processes are killed that write and keep them."""
        agent.start()
        self.kill_in_turn([agent, *others], lines, EVENTS, KILLS)
        wait_until(lambda: len(set(lines())) >= EVENTS and agent.count("CHANNEL.c", "ChannelSize") == 0, "all events", DEADLINE_S)
        self.assertEqual(set(lines()), {str(number) for number in range(EVENTS)})
        print(f"{EVENTS} events in objects with {KILLS} kills (SEED={SEED}): {len(lines()) - EVENTS} are there again", flush=True)
        self.assertEqual(agent.stop(), 0)

    def test_files(self):
        target = self.made("objects")
        sink = f"url = 'file://{target}/%Y'\ncompression = 'none'\n"
        agent = Agent(self, self.directory, "agent", self.configuration(sink))

        def lines() -> list[str]:
            complete = [path for path in target.rglob("*") if path.is_file() and path.suffix != ".part"]
            return [line for path in complete for line in path.read_text().splitlines()]

        self.expect_all(agent, lines, [])

    def test_a_store_that_speaks_s3(self):
        store = Store(self, self.directory, free_port()).start()
        sink = (f"url = 's3://{BUCKET}/a path/%Y'\nendpoint = 'http://127.0.0.1:{store.port}'\ncompression = 'gzip'\n"
                f"accessKeyId = '{KEY}'\nsecretAccessKey = '{KEY}'\nrequestTimeout = 5000\n")
        agent = Agent(self, self.directory, "agent", self.configuration(sink))

        def lines() -> list[str]:
            return [line for packed in store.objects().values() for line in gzip.decompress(packed).decode().splitlines()]

        self.expect_all(agent, lines, [store])
        self.assertTrue(all(name.startswith("a path/20") and name.endswith(".gz") for name in store.names()), store.names())

    def reading(self, store: Store, more: str = "") -> Agent:
        """An agent that reads what others have written into the store."""
        return Agent(
            self,
            self.directory,
            "reader",
            f"[sources.r]\ntype = 's3'\nchannels = ['c']\nurl = 's3://{BUCKET}/a path/'\npositionFile = '{self.directory}/read'\n"
            f"pollDelay = 200\nformat = 'json'\nendpoint = 'http://127.0.0.1:{store.port}'\naccessKeyId = '{KEY}'\n"
            f"secretAccessKey = '{KEY}'\nrequestTimeout = 5000\n{more}"
            f"[channels.c]\ntype = 'file'\nminimumRequiredSpace = 1048576\ncapacity = 1000000\ndataDirs = '{self.directory}/read-channel'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{self.made('out')}'\n",
        )

    def test_what_was_written_is_read_while_all_are_killed(self):
        store = Store(self, self.directory, free_port()).start()
        sink = (f"url = 's3://{BUCKET}/a path/%Y'\nendpoint = 'http://127.0.0.1:{store.port}'\n"
                f"accessKeyId = '{KEY}'\nsecretAccessKey = '{KEY}'\nrequestTimeout = 5000\n")
        writer = Agent(self, self.directory, "writer", self.configuration(sink, "json")).start()
        reader = self.reading(store).start()
        lines = lambda: lines_in(self.directory / "out")
        self.kill_in_turn([reader, store, writer], lines, EVENTS, KILLS)
        wait_until(lambda: writer.count("CHANNEL.c", "ChannelSize") == 0, "all objects", DEADLINE_S)
        # Its first line is about the store. Some events may be in two objects.
        is_read = lambda: len((self.directory / "read").read_text().splitlines()) > len(store.names())
        wait_until(lambda: is_read() and reader.count("CHANNEL.c", "ChannelSize") == 0, "all events", DEADLINE_S)
        self.assertEqual(set(lines()), {str(number) for number in range(EVENTS)})
        print(f"{EVENTS} events through objects with {KILLS} kills (SEED={SEED}): {len(lines()) - EVENTS} came again", flush=True)
        self.assertEqual(writer.stop(), 0)
        self.assertEqual(reader.stop(), 0)
        # All of it was read: another start finds nothing, and takes it away.
        before = len(lines())
        reader = self.reading(store, "deletePolicy = 'immediate'\n").start()
        wait_until(lambda: not store.names(), "the objects to be deleted", DEADLINE_S)
        self.assertEqual(reader.stop(), 0)
        self.assertEqual(len(lines()), before)

    def test_a_large_object_comes_in_parts(self):
        store = Store(self, self.directory, free_port()).start()
        texts = [f"{number} {'x' * 100_000}" for number in range(150)]
        spool = self.spooled(texts)
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\ndeserializer.maxLineLength = 200000\n"
            f"[channels.c]\ntype = 'file'\nminimumRequiredSpace = 1048576\ndataDirs = '{self.directory}/channel'\n"
            f"[sinks.k]\ntype = 's3'\nchannel = 'c'\nformat = 'text'\ncompression = 'none'\nrollSize = 12000000\nrollInterval = 2\n"
            f"partSize = {5 << 20}\nurl = 's3://{BUCKET}/large'\nendpoint = 'http://127.0.0.1:{store.port}'\n"
            f"accessKeyId = '{KEY}'\nsecretAccessKey = '{KEY}'\n",
        ).start()
        wait_until(lambda: agent.count("SINK.k", "EventDrainSuccessCount") == len(texts), "all events", DEADLINE_S)
        objects = [packed for _, packed in sorted(store.objects().items())]
        self.assertGreater(max(map(len, objects)), 2 * (5 << 20))
        self.assertEqual(sorted(line for one in objects for line in one.decode().splitlines()), sorted(texts))
        self.assertEqual(agent.stop(), 0)

    def test_a_store_that_refuses_is_told_of_and_nothing_is_lost(self):
        store = Store(self, self.directory, free_port()).start()
        sink = (f"url = 's3://{BUCKET}/x'\nendpoint = 'http://127.0.0.1:{store.port}'\n"
                f"accessKeyId = 'NOBODY'\nsecretAccessKey = '{KEY}'\n")
        agent = Agent(self, self.directory, "agent", self.configuration(sink)).start()
        wait_until(lambda: "InvalidAccessKeyId" in agent.text(), "the refusal", DEADLINE_S)
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == EVENTS, "all events to wait", DEADLINE_S)
        self.assertEqual(store.names(), set())
