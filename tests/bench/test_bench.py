import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.logway import BENCH, BINARY, Logway
from harness.waiting import wait_until

DEADLINE_S = 120
MOMENT = ["--quick", "--rounds", "1", "--warm-up-seconds", "0", "--preload-megabytes", "8"]
FILES = ["results.json", "results.csv", "latency.hlog", "report.html"]

EXPERIMENTS = {
    "produce": ["--durability", "unsynced"],
    "fetch": [],
    "appends": ["--connections", "1,8"],
    "grpc": ["--streams", "1,8"],
    "latency": ["--no-ladder"],
    "paper": [],
    "linkedin": [],
    "ingest": ["--rate", "10000", "--batch-bytes", "16384"],
    "soak": [],
    "start": [],
}


def bench(arguments: list[str], output: str, seconds: float = 0.1) -> list[dict]:
    """The rows that an experiment prints; it must succeed and write its report."""
    command = [BENCH, *arguments, *MOMENT, "--seconds", str(seconds), "--format", "json", "--output", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} exited with {done.returncode}: {done.stderr}")
    missing = [name for name in FILES if not (Path(output) / name).stat().st_size]
    assert not missing, missing
    return [json.loads(line) for line in done.stdout.splitlines()]


def children_of(pid: int, argument: str) -> list[int]:
    """The processes that one has started with an argument and not yet waited for, oldest first."""
    children = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        children += map(int, tasks.read_text().split())
    arguments = lambda child: Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    return sorted(child for child in children if argument.encode() in arguments(child))


def brokers_of(pid: int) -> list[int]:
    return children_of(pid, "serve")


def is_running(pid: int) -> bool:
    """Whether a process is there, and is not only waited for."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def topics(broker: Logway) -> list[str]:
    """The names of the topics that a broker has."""
    command = [BINARY, "topic", "list", "--brokers", broker.bootstrap, "--format", "json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    return [topic["topic"] for topic in json.loads(listed.stdout)]


class Bench(unittest.TestCase):
    def setUp(self):
        self.output = self.enterContext(tempfile.TemporaryDirectory(prefix="logway-bench-"))

    def test_experiments(self):
        for experiment, arguments in EXPERIMENTS.items():
            with self.subTest(experiment):
                output = str(Path(self.output) / experiment)
                rows = bench([experiment, "--own", *arguments], output)
                self.assertTrue(rows)
                for row in rows:
                    self.assertEqual((row["experiment"], row["side"]), (experiment, "logway"), row)
                    # On a busy machine all that an open loop sends may be answered after the moment.
                    self.assertTrue(row["requests"] or row["max_ms"], row)
                    # What the page cache takes is measured without a broker.
                    if row["work"] != "files alone":
                        self.assertGreater(row["usage"]["memory"]["resident_bytes"], 0, row)
                # What the brokers wrote is gone.
                self.assertFalse((Path(output) / "brokers").exists())

    def test_a_cluster(self):
        """Each record goes to three nodes, and what they take is added up."""
        works = [word for work in ("producer", "consumer", "16 KiB", " 4 connections", "acknowledged")
                 for word in ("--work", work)]
        rows = bench(["cluster", "--own", *works], self.output)
        done = {(row["work"], row["parameters"]["durability"]) for row in rows}
        self.assertEqual(len(done), 10, done)
        for row in rows:
            self.assertEqual((row["experiment"], row["parameters"]["replicas"]), ("cluster", 3), row)
            self.assertTrue(row["requests"] or row["max_ms"], row)
            self.assertGreater(row["usage"]["memory"]["resident_bytes"], 0, row)
        results = json.loads((Path(self.output) / "results.json").read_text())
        (side,) = results["statement"]["sides"]
        self.assertNotIn("--join", side["command"])
        self.assertEqual([command.count("--join") for command in side["other_commands"]], [1, 1])
        measured = {target["over"] for target in results["targets"] if target["ratio"]}
        self.assertEqual(measured, {"1 ms", "1 MB"})
        self.assertFalse((Path(self.output) / "brokers").exists())

    def test_several_processes_share_a_rate(self):
        """And the broker has what they sent together, with and without acknowledgements."""
        several = ["--processes", "3", "--senders", "2", "--rate", "30000", "--acks", "0,all", "--batch-bytes", "16384"]
        rows = bench(["ingest", "--own", *several], self.output, seconds=1)
        self.assertEqual([row["parameters"]["acks"] for row in rows], ["0", "all"])
        for row in rows:
            self.assertEqual(row["parameters"]["producers"], 6)
            self.assertIn("3 processes", row["work"])
            # What is answered behind the window's end is not counted.
            self.assertGreater(row["records"], 30000 / 2, row)
            self.assertEqual(row["unanswered"], 0)
            self.assertLessEqual(row["broker_rates"]["measured"]["messages_per_second"], 30000 * 1.1)
            self.assertEqual(sum(row["records_of_each_100_ms"]), row["records"])
        # What gets no answers is counted as it is due, and together they are asked for all of it.
        self.assertEqual(rows[0]["requests"], int(rows[0]["parameters"]["rate"]))

    def test_a_sender_that_ends_early_ends_the_run(self):
        endless = [BENCH, "ingest", "--own", "--processes", "2", "--rate", "1000", "--seconds", "600"]
        for signum, whom in ((signal.SIGKILL, "sender"), (signal.SIGKILL, "bench"), (signal.SIGINT, "bench")):
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            output = Path(self.output) / f"{whom}-{signum}"
            command = [*endless, "--output", output]
            with self.subTest(signum=signum, whom=whom), subprocess.Popen(command, **streams) as process:
                brokers = []
                try:
                    wait_until(lambda: list(output.glob("brokers/*/**/*.log")) and any(
                        path.stat().st_size for path in output.glob("brokers/*/**/bench-*/*.log")
                    ), "records that were sent", DEADLINE_S)
                    senders, brokers = children_of(process.pid, "sender"), brokers_of(process.pid)
                    os.kill(senders[1] if whom == "sender" else process.pid, signum)
                    _, errors = process.communicate(timeout=DEADLINE_S)
                    self.assertNotEqual(process.returncode, 0)
                    if whom == "sender":
                        self.assertIn("sender 1: it has ended without saying why", errors)
                    wait_until(lambda: not any(map(is_running, senders)), "the senders' end", DEADLINE_S)
                finally:
                    process.kill()
                    # Who is killed cannot end what it started, but senders look after themselves.
                    for broker in filter(is_running, brokers):
                        os.kill(broker, signal.SIGKILL)

    def test_two_sides_in_turn(self):
        rows = bench(["fetch", "--against", "null", "--warm-broker-seconds", "0.1"], self.output)
        self.assertEqual({row["side"] for row in rows}, {"logway", "null"})
        in_turn = [row["side"] for row in rows if row["work"] in ("1 MiB cached", "8 MiB cached")]
        self.assertEqual(in_turn, ["logway", "null", "null", "logway"])
        self.assertIn("How the sides compare", (Path(self.output) / "report.html").read_text())

    def beside(self, peer: str, arguments: list[str]) -> list[dict]:
        """The rows of a peer that does not speak Kafka's protocol, each with what every row must have."""
        beside = ["--against", peer, "--warm-broker-seconds", "0.1"]
        # On a busy machine a broker may need the tenth of a second for its first message.
        rows = bench([*arguments, *beside], str(Path(self.output) / "report"), seconds=1)
        self.assertEqual({row["side"] for row in rows}, {"logway", peer})
        theirs = [row for row in rows if row["side"] == peer]
        for row in theirs:
            self.assertGreater(row["records"], 0, row)
            self.assertGreater(row["usage"]["memory"]["resident_bytes"], 0, row)
        # Nothing that was started for it is left.
        self.assertFalse((Path(self.output) / "report/brokers").exists())
        return theirs

    def omitted(self) -> dict[str, str]:
        """Why which work was not measured on the peer."""
        results = json.loads((Path(self.output) / "report/results.json").read_text())
        return {omission["work"]: omission["reason"] for omission in results["omissions"]}

    def test_beside_rabbitmq(self):
        rows = self.beside("rabbitmq", ["paper"])
        self.assertEqual(len(rows), 4)
        self.assertEqual(self.omitted(), {})

    def test_beside_activemq(self):
        rows = self.beside("activemq", ["paper"])
        self.assertEqual(len(rows), 4)
        self.assertEqual(self.omitted(), {})

    def test_beside_nats(self):
        rows = self.beside("nats", ["paper"])
        self.assertEqual({row["work"] for row in rows}, {"consumer, batches of 1", "consumer, batches of 50"})
        self.assertIn("drops", self.omitted()["producer, batch of 1"])

    def test_a_peer_syncs_when_it_is_asked_to(self):
        durability = ["--durability", "unsynced,synced"]
        rows = self.beside("nats", ["appends", "--connections", "2", *durability])
        self.assertEqual([row["parameters"]["durability"] for row in rows], ["unsynced", "synced"])

    def test_targets(self):
        peers = ["--against", "null", "--against", "bare"]
        rows = bench(["targets", *peers, "--warm-broker-seconds", "0.1"], self.output)
        path = Path(self.output) / "results.json"
        targets = json.loads(path.read_text())["targets"]
        measured = [target for target in targets if target["ratio"]]
        # Those over the broker that does nothing are of its CPU time, of which this short a run has too little.
        self.assertIn("null", {target["over"] for target in targets})
        self.assertIn("files alone, unsynced", {target["over"] for target in measured})
        self.assertIn("What is to be reached", (Path(self.output) / "report.html").read_text())
        # What only stores was asked to store, and nothing else.
        bare = {row["experiment"] for row in rows if row["side"] == "bare"}
        self.assertEqual(bare, {"produce", "appends", "latency", "start"})
        self.assertTrue([target for target in targets if target["limit"]["ours_over_bare"]])
        table = subprocess.run([BENCH, "table", path], capture_output=True, text=True, check=True)
        lines = [line for line in table.stdout.splitlines() if line.startswith("|")]
        self.assertEqual(len(lines), 2 + len(measured))
        self.assertIn(f"{len(targets) - len(measured)} other aims were not measured", table.stdout)

    def test_a_broker_that_runs(self):
        with Logway("bench-given") as broker:
            given = ["--brokers", broker.bootstrap, "--yes", "--broker-pid", str(broker.process.pid)]
            rows = bench(["appends", "--connections", "4", *given], str(Path(self.output) / "report"))
            without = bench(["appends", "--connections", "4", "--no-reads", *given], str(Path(self.output) / "without"))
        self.assertEqual({row["side"] for row in rows}, {"broker"})
        # Nobody reads the files of a broker that is not ours, or drops them from memory.
        appenders = "128 appenders, 4 connections"
        self.assertEqual([row["work"] for row in rows], [appenders, "long read, cached"])
        self.assertEqual(set(self.omitted()), {"cat, cached", "long read, uncached", "cat, uncached"})
        self.assertEqual([row["work"] for row in without], [appenders])
        self.assertGreater(rows[0]["usage"]["memory"]["resident_bytes"], 0)
        self.assertEqual(rows[0]["parameters"]["durability"], "synced")

    def test_a_broker_that_runs_is_written_to_only_if_that_is_said(self):
        """What would be written, and for how long, is said in any case."""
        with Logway("bench-asked") as broker:
            for experiment in EXPERIMENTS.keys() - {"start"}:
                with self.subTest(experiment):
                    output = Path(self.output) / experiment
                    command = [BENCH, experiment, "--brokers", broker.bootstrap, "--output", output]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                    plan, error, hint = done.stderr.splitlines()
                    self.assertRegex(
                        plan,
                        rf"^{experiment} on {broker.bootstrap}: \d+ runs for about \d+ (s|min), "
                        r"at most [\d.]+ [MG]B written in all and [\d.]+ [MG]B in a run, to topics bench-\d+-N ",
                    )
                    self.assertEqual(error, "error: nothing was written yet")
                    self.assertIn("--yes", hint)
                    self.assertFalse(output.exists())
            self.assertEqual(topics(broker), [])

    def test_a_run_writes_no_more_to_a_broker_that_runs_than_was_said(self):
        with Logway("bench-bounded") as broker:
            given = ["--brokers", broker.bootstrap, "--yes", "--run-megabytes", "1"]
            for arguments in (["produce", "--durability", "unsynced"], ["paper"], ["linkedin"]):
                rows = bench([*arguments, *given], str(Path(self.output) / arguments[0]), seconds=5)
                self.assertTrue(rows)
                for row in filter(lambda row: row["parameters"]["in_flight"] and row["parameters"]["producers"], rows):
                    self.assertLessEqual(row["value_bytes"], 1_100_000, row)
                    self.assertLess(row["seconds"], 5, row)
                self.assertEqual(topics(broker), [])

    def test_what_was_made_on_a_broker_that_runs_goes_however_it_ends(self):
        with Logway("bench-left") as broker:
            given = ["--brokers", broker.bootstrap, "--yes", "--seconds", "600", "--run-megabytes", "1000000"]
            for experiment, arguments in (("produce", ["--work", "100 partitions"]), ("paper", []), ("soak", [])):
                for interrupt in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                    output = Path(self.output) / f"{experiment}-{interrupt.name}"
                    command = [BENCH, experiment, *arguments, *given, "--output", output]
                    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
                    with self.subTest(f"{experiment}, {interrupt.name}"), subprocess.Popen(command, **streams) as process:
                        try:
                            wait_until(lambda: topics(broker), "the benchmark's topic", DEADLINE_S)
                            process.send_signal(interrupt)
                            _, errors = process.communicate(timeout=DEADLINE_S)
                        finally:
                            process.kill()
                        self.assertEqual(process.returncode, 1, errors)
                        self.assertEqual(topics(broker), [], errors)

    def test_an_interrupt_ends_the_brokers(self):
        output = Path(self.output) / "early"
        for nodes in (1, 3):
            command = [BENCH, "produce", "--own", "--nodes", str(nodes), "--seconds", "600", "--output", output]
            for interrupt in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
                with self.subTest(interrupt.name, nodes=nodes), subprocess.Popen(command, **streams) as process:
                    try:
                        wait_until(lambda: len(brokers_of(process.pid)) == nodes, "the brokers' processes", DEADLINE_S)
                        brokers = brokers_of(process.pid)
                        process.send_signal(interrupt)
                        self.assertEqual(process.wait(DEADLINE_S), 1)
                        self.assertFalse([broker for broker in brokers if os.path.exists(f"/proc/{broker}")])
                        # There was nothing to report yet.
                        self.assertFalse(output.exists())
                    finally:
                        process.kill()

    def test_what_was_measured_before_an_end_is_reported(self):
        """However it ends: on an interrupt, or because the broker does."""
        ends = {
            "ended by Ctrl-C": lambda bench, _: bench.send_signal(signal.SIGINT),
            "ended with signal: 9": lambda _, broker: os.kill(broker, signal.SIGKILL),
        }
        for number, (reason, end) in enumerate(ends.items()):
            output = Path(self.output) / str(number)
            command = [BENCH, "produce", "--own", "--work", "16 KiB batches", "--rounds", "1000",
                       "--seconds", "0.2", "--warm-up-seconds", "0", "--format", "json", "--output", output]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            with self.subTest(reason), subprocess.Popen(command, **streams) as process:
                try:
                    first = json.loads(process.stdout.readline())
                    (broker,) = brokers_of(process.pid)
                    end(process, broker)
                    _, errors = process.communicate(timeout=DEADLINE_S)
                finally:
                    process.kill()
                self.assertEqual(process.returncode, 1)
                self.assertIn(reason, errors)
                self.assertIn(f"the report is {output}", errors)
                results = json.loads((output / "results.json").read_text())
                self.assertIn(reason, results["ended_early"])
                self.assertEqual(results["rows"][0], first)
                self.assertIn("not all that was asked for", (output / "report.html").read_text())
                self.assertFalse((output / "brokers").exists())
