"""What an agent does besides: reload, groups of sinks, dead letters, counters, the configuration's errors."""

import json
import signal
import socket
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

from agents import Agent, AgentCase, lines_in

from harness.logway import BINARY, Logway
from harness.ports import free_port
from harness.waiting import wait_until

DEADLINE_S = 60


def stored_in(topic: str, broker: Logway) -> list[str]:
    """The values of a topic's records."""
    command = [BINARY, "consume", topic, "--exit-at-end", "--brokers", broker.bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def post(port: int, events: list[dict]):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", json.dumps(events).encode(), timeout=DEADLINE_S):
        pass


def into_topic_or_dead_letters(broker: Logway, dead) -> str:
    """A channel whose events go into the topic `events`; those that cannot are in files in `dead`, as JSON."""
    return (
        f"[channels.c]\ntype = 'memory'\n[channels.dead]\ntype = 'memory'\n"
        f"[sinks.k]\ntype = 'kafka'\nchannel = 'c'\ndead-letter = 'dead'\n'kafka.topic' = 'events'\n"
        f"'kafka.bootstrap.servers' = '{broker.bootstrap}'\n"
        f"[sinks.d]\ntype = 'file_roll'\nchannel = 'dead'\n'sink.directory' = '{dead}'\n'sink.serializer' = 'JSON'\n"
    )


class Own(AgentCase):
    def test_a_reload_loses_nothing(self):
        first, second = self.made("first"), self.made("second")
        port = free_port()

        def configuration(directory, more=""):
            return (
                f"[sources.r]\ntype = 'http'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n{more}"
                f"[channels.c]\ntype = 'memory'\ncapacity = 100000\n"
                f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{directory}'\n"
            )

        agent = Agent(self, self.directory, "agent", configuration(first)).start()
        sent, ends = [], threading.Event()

        def send():
            number = 0
            while not ends.is_set():
                body = json.dumps([{"body": str(number)}]).encode()
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", body, timeout=10):
                        sent.append(str(number))
                        number += 1
                except OSError:
                    # Between two lives of the source nobody listens; what was not answered is sent again.
                    pass

        sender = threading.Thread(target=send)
        sender.start()
        self.addCleanup(ends.set)
        wait_until(lambda: lines_in(first), "events in the first place", DEADLINE_S)
        agent.file.write_text("[sources.r]\ntype = 'htp'\n")
        wait_until(lambda: "the nearest is 'http'" in agent.text(), "the error to be told", DEADLINE_S)
        agent.file.write_text(configuration(second))
        wait_until(lambda: lines_in(second), "events in the second place", DEADLINE_S)
        ends.set()
        sender.join()
        self.assertEqual(agent.stop(), 0)
        arrived = set(lines_in(first)) | set(lines_in(second))
        self.assertEqual(set(sent) - arrived, set())

    def test_a_hangup_has_the_configuration_read(self):
        configuration = "[sources.r]\ntype = 'seq'\ntotalEvents = 1\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n"
        agent = Agent(self, self.directory, "agent", configuration + "[sinks.k]\ntype = 'null'\nchannel = 'c'\n").start()
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the configuration is read again" in agent.text(), "the file to be read", DEADLINE_S)
        self.assertEqual(agent.stop(), 0)

    def test_failover_goes_to_the_next_and_back(self):
        good, other = free_port(), free_port()
        arrived, source = {good: self.made("good"), other: self.made("other")}, free_port()
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'netcat'\nbind = '127.0.0.1'\nport = {source}\nchannels = ['c']\n"
            f"[channels.c]\ntype = 'memory'\n"
            f"[sinks.good]\ntype = 'avro'\nchannel = 'c'\nhostname = '127.0.0.1'\nport = {good}\n"
            f"[sinks.other]\ntype = 'thrift'\nchannel = 'c'\nhostname = '127.0.0.1'\nport = {other}\n"
            f"[groups.g]\nsinks = ['good', 'other']\n[groups.g.processor]\ntype = 'failover'\nmaxpenalty = 1000\n"
            f"priority.good = 10\npriority.other = 5\n",
        )
        hops = {
            port: Agent(
                self,
                self.directory,
                f"hop-{kind}",
                f"[sources.r]\ntype = '{kind}'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n"
                f"[channels.c]\ntype = 'memory'\n"
                f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{arrived[port]}'\n",
            ).start()
            for port, kind in [(good, "avro"), (other, "thrift")]
        }
        agent.start()
        client = socket.create_connection(("127.0.0.1", source))
        self.addCleanup(client.close)
        client.sendall(b"one\n")
        wait_until(lambda: lines_in(arrived[good]) == ["one"], "one", DEADLINE_S)
        hops[good].kill()
        client.sendall(b"two\n")
        wait_until(lambda: lines_in(arrived[other]) == ["two"], "two", DEADLINE_S)
        hops[good].start()

        def comes_back():
            client.sendall(b"more\n")
            return "more" in lines_in(arrived[good])

        wait_until(comes_back, "the first sink to be used again", DEADLINE_S)

    def test_what_cannot_be_delivered_goes_to_the_dead_letters(self):
        broker = self.started_broker("agent-dead-letters", {"message.max.bytes": "2000"})
        source, dead = free_port(), self.made("dead")
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'netcat'\nbind = '127.0.0.1'\nport = {source}\nchannels = ['c']\nmax-line-length = 10000\n"
            + into_topic_or_dead_letters(broker, dead),
        ).start()
        with socket.create_connection(("127.0.0.1", source)) as client:
            client.sendall(b"small\n" + b"x" * 5000 + b"\nlast\n")
            wait_until(lambda: len(lines_in(dead)) == 1, "the dead letter", DEADLINE_S)
        letter = json.loads(lines_in(dead)[0])
        self.assertEqual(len(letter["body"]), 5000)
        self.assertEqual(letter["headers"]["deadletter.sink"], "k")
        self.assertIn("message_too_large", letter["headers"]["deadletter.reason"].lower())
        self.assertEqual(agent.count("SINK.k", "EventDeadLetterCount"), 1)
        wait_until(lambda: agent.count("SINK.k", "EventDrainSuccessCount") >= 2, "the others", DEADLINE_S)
        self.assertEqual(sorted(stored_in("events", broker)), ["last", "small"])

    def test_events_beside_one_that_stays_are_in_their_topic_once(self):
        broker = self.started_broker("agent-held-up", {"message.max.bytes": "2000"})
        for topic in ("events", "others"):
            subprocess.run([BINARY, "topic", "create", topic, "-p", "1", "--brokers", broker.bootstrap], check=True, capture_output=True)
        source = free_port()
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'http'\nbind = '127.0.0.1'\nport = {source}\nchannels = ['c']\n"
            f"[channels.c]\ntype = 'file'\ndataDirs = '{self.directory}/channel'\nminimumRequiredSpace = 1048576\n"
            f"[sinks.k]\ntype = 'kafka'\nchannel = 'c'\n'kafka.topic' = 'events'\n'kafka.bootstrap.servers' = '{broker.bootstrap}'\n",
        ).start()
        events = [{"body": f"before-{number}"} for number in range(20)] + [{"body": "x" * 5000}]
        events += [{"body": f"behind-{number}"} for number in range(20)] + [{"body": "o", "headers": {"topic": "others"}}]
        post(source, events)
        wait_until(lambda: agent.count("SINK.k", "EventWriteFail") >= 5, "attempts", DEADLINE_S)
        # What is behind it in its partition waits; another topic's does not have to.
        self.assertEqual(stored_in("events", broker), [f"before-{number}" for number in range(20)])
        self.assertLessEqual(len(stored_in("others", broker)), 1)
        command = [BINARY, "topic", "alter", "events", "-c", "max.message.bytes=10000", "--brokers", broker.bootstrap]
        subprocess.run(command, check=True, capture_output=True)
        wait_until(lambda: agent.count("SINK.k", "EventDrainSuccessCount") == len(events), "all events", DEADLINE_S)
        self.assertEqual(stored_in("events", broker), [event["body"] for event in events[:-1]])
        self.assertEqual(stored_in("others", broker), ["o"])

    def test_a_topic_that_cannot_be_doubles_nothing(self):
        broker = self.started_broker("agent-bad-topic")
        source, dead = free_port(), self.made("dead")
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'http'\nbind = '127.0.0.1'\nport = {source}\nchannels = ['c']\n"
            + into_topic_or_dead_letters(broker, dead),
        ).start()
        bad = {"topic": "bad topic name!"}
        events = [{"body": str(number), "headers": bad if number % 7 == 3 else {}} for number in range(60)]
        post(source, events)
        good = [event["body"] for event in events if not event["headers"]]
        wait_until(lambda: len(lines_in(dead)) == len(events) - len(good), "the dead letters", DEADLINE_S)
        wait_until(lambda: agent.count("SINK.k", "EventDrainSuccessCount") == len(good), "the others", DEADLINE_S)
        self.assertEqual(sorted(stored_in("events", broker), key=int), good)

    def test_topics_are_read_into_an_http_endpoint(self):
        broker = self.started_broker("agent-kafka-source")
        got = []

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                # Refuses each the first time.
                first = f"tried {body}" not in got
                got.append(f"tried {body}" if first else body)
                self.send_response(503 if first else 200)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Endpoint)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        for value in (b"a", b"b"):
            command = [BINARY, "produce", "events", "--brokers", broker.bootstrap]
            subprocess.run(command, input=value, check=True, capture_output=True)
        Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'kafka'\nchannels = ['c']\n'kafka.bootstrap.servers' = '{broker.bootstrap}'\n"
            f"'kafka.topics' = 'events'\n'kafka.consumer.auto.offset.reset' = 'earliest'\n"
            f"[channels.c]\ntype = 'file'\ndataDirs = '{self.directory}/channel'\nminimumRequiredSpace = 1048576\ntransactionCapacity = 1000\n"
            f"[sinks.k]\ntype = 'http'\nchannel = 'c'\nendpoint = 'http://127.0.0.1:{server.server_port}/in'\n",
        ).start()
        wait_until(lambda: {"a", "b"} <= set(got), f"both {got}", DEADLINE_S)

    def test_prometheus_reads_the_counters_too(self):
        agent = Agent(
            self,
            self.directory,
            "agent",
            "[sources.r]\ntype = 'seq'\ntotalEvents = 7\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n"
            "[sinks.k]\ntype = 'null'\nchannel = 'c'\n",
        ).start()
        wait_until(lambda: agent.count("SINK.k", "EventDrainSuccessCount") == 7, "seven events", DEADLINE_S)
        with urllib.request.urlopen(f"http://{agent.metrics}/metrics/prometheus") as page:
            text = page.read().decode()
        self.assertIn('logway_agent_source_event_accepted_total{component="r"} 7\n', text)
        self.assertIn('# TYPE logway_agent_channel_size gauge\nlogway_agent_channel_size{component="c"} 0\n', text)
        self.assertLess(agent.rss_bytes(), 40 << 20)

    def test_a_command_is_run_again_and_sinks_take_turns(self):
        first, second = self.made("first"), self.made("second")
        agent = Agent(
            self,
            self.directory,
            "agent",
            "[sources.r]\ntype = 'exec'\nshell = '/bin/sh -c'\ncommand = 'echo one; echo $((1 + 1)); echo told >&2'\n"
            "restart = true\nrestartThrottle = 50\nbatchTimeout = 10\nlogStdErr = true\nchannels = ['c']\n"
            "[channels.c]\ntype = 'memory'\n"
            f"[sinks.a]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{first}'\n"
            f"[sinks.b]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{second}'\n"
            "[groups.g]\nsinks = ['a', 'b']\n[groups.g.processor]\ntype = 'load_balance'\n",
        ).start()
        wait_until(lambda: len(lines_in(first)) >= 4 and len(lines_in(second)) >= 4, "lines in both", DEADLINE_S)
        wait_until(lambda: "told" in agent.text(), "what the command says", DEADLINE_S)
        self.assertEqual(agent.stop(), 0)
        lines = lines_in(first) + lines_in(second)
        self.assertEqual(set(lines), {"one", "2"})
        self.assertEqual(lines.count("one"), lines.count("2"))

    def test_datagrams_become_events(self):
        port, arrived = free_port(), self.made("arrived")
        Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'netcatudp'\nbind = '127.0.0.1'\nport = {port}\nremoteAddressHeader = 'from'\nchannels = ['c']\n"
            f"[channels.c]\ntype = 'memory'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{arrived}'\n'sink.serializer' = 'JSON'\n",
        ).start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"\xff bytes", ("127.0.0.1", port))
            client.sendto(b"text\r\n", ("127.0.0.1", port))
        wait_until(lambda: len(lines_in(arrived)) == 2, "both", DEADLINE_S)
        first, second = map(json.loads, lines_in(arrived))
        self.assertEqual(first, {"bodyBase64": "/yBieXRlcw==", "headers": {"from": "127.0.0.1"}})
        self.assertEqual(second, {"body": "text", "headers": {"from": "127.0.0.1"}})

    def test_a_topic_with_flumes_events_and_ids(self):
        broker = self.started_broker("agent-event-ids")
        spool, arrived = self.made("spool"), self.made("arrived")
        (spool / "file").write_text("".join(f"{number}\n" for number in range(500)))
        Agent(
            self,
            self.directory,
            "into",
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nbasenameHeader = true\nchannels = ['c']\n"
            f"[channels.c]\ntype = 'file'\ndataDirs = '{self.directory}/channel'\nminimumRequiredSpace = 1048576\n"
            f"[sinks.k]\ntype = 'kafka'\nchannel = 'c'\n'kafka.topic' = 'events'\neventIdHeader = 'id'\n"
            f"useFlumeEventFormat = true\n'kafka.producer.compression.type' = 'lz4'\n'kafka.bootstrap.servers' = '{broker.bootstrap}'\n",
        ).start()
        wait_until(lambda: (spool / "file.COMPLETED").exists(), "the file to be read", DEADLINE_S)
        Agent(
            self,
            self.directory,
            "out",
            f"[sources.r]\ntype = 'kafka'\nchannels = ['c']\n'kafka.bootstrap.servers' = '{broker.bootstrap}'\n"
            f"'kafka.topics' = 'events'\n'kafka.consumer.auto.offset.reset' = 'earliest'\nuseFlumeEventFormat = true\nbatchSize = 100\n"
            f"[channels.c]\ntype = 'memory'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{arrived}'\n'sink.serializer' = 'JSON'\n",
        ).start()
        wait_until(lambda: len(lines_in(arrived)) >= 500, "all events", DEADLINE_S)
        events = [json.loads(line) for line in lines_in(arrived)]
        self.assertEqual(sorted(int(event["body"]) for event in events), list(range(500)))
        self.assertEqual(len({event["headers"]["id"] for event in events}), 500)
        self.assertEqual({event["headers"]["basename"] for event in events}, {"file"})
        self.assertEqual({event["headers"]["topic"] for event in events}, {"events"})
