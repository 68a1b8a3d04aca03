"""Clients in other languages, each a program that appends numbers and reads them again."""

import subprocess
import threading

from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S, RECORDS, Appender, leader_in_sync

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.load import create_topics
from harness.logway import Logway
from harness.waiting import wait_until

SETTINGS = {"logservice.listen": "127.0.0.1:0"}
LOG = "kept"


class ClientCases:
    """The cases of a client, whose class says its `name`, and its commands `client` and `tail`."""

    name: str
    client: list
    tail: list

    def begin(self, addresses: list[str]) -> subprocess.Popen:
        command = [*self.client, ",".join(addresses), LOG, str(RECORDS)]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        # It is not waited for without an end.
        timer = threading.Timer(DEADLINE_S, program.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        first = program.stdout.readline()
        if first != "half\n":
            self.fail(f"{first!r}: {program.stderr.read()}")
        return program

    def finish(self, program: subprocess.Popen):
        out, err = program.communicate("\n", timeout=DEADLINE_S)
        self.assertEqual((program.returncode, out), (0, "done\n"), err)

    def test_appends_and_reads_over_breaks(self):
        broker = Logway(f"logservice-{self.name}", SETTINGS).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic(LOG, 1, 1))
        self.finish(self.begin([broker.log_service]))

    def test_the_leader_of_three_is_killed(self):
        with Cluster(f"logservice-{self.name}-cluster", settings=SETTINGS) as cluster:
            wait_until_all_vote(cluster)
            create_topics(cluster.bootstrap, NewTopic(LOG, 1, 3, config={"min.insync.replicas": "2"}))
            program = self.begin([node.log_service for node in cluster.nodes])
            cluster.node(leader_in_sync(cluster.nodes, LOG)).kill()
            self.finish(program)

    def test_tail(self):
        broker = Logway(f"logservice-{self.name}-tail", SETTINGS).start()
        self.addCleanup(broker.kill)
        create_topics(broker.bootstrap, NewTopic("tailed", 1, 1))
        with subprocess.Popen([*self.tail, broker.log_service, "tailed"], stdout=subprocess.PIPE, text=True) as tailing:
            self.addCleanup(tailing.kill)
            open_stream = "logway_log_service_read_streams_open 1\n"
            wait_until(lambda: open_stream in broker.metrics(), open_stream, DEADLINE_S)
            appender = Appender(lambda: broker.log_service, "tailed")
            appender.append([b"one", b"two"])
            appender.finish()
            self.assertEqual([tailing.stdout.readline() for _ in range(2)], ["0 one\n", "1 two\n"])
            tailing.kill()
