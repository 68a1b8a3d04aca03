"""Three hops, two agents a tier, on to a cluster of three nodes, and from there to HDFS and to a store that speaks S3.

Files of events go to the first tier. It sends them over Avro to the second, by failover and by balance; that one parts them by a
header into two topics. The third tier writes both topics into HDFS and S3. One process after the other is killed, a node
hangs, a disk is full for a while, and the cable of a machine of the second tier is cut: each event is everywhere at least once.

Without a network of its own (run.sh gives it one) no cable is cut.
"""

import os
import random

from agents import Agent, AgentCase
from hdfs_cluster import HdfsCluster
from test_objects import BUCKET, KEY, Store

from harness.cluster import Cluster
from harness.logway import logway
from harness.network import WITHOUT, Network, address, is_own
from harness.ports import free_port
from harness.seed import SEED
from harness.volume import MEBIBYTE, Volume
from harness.waiting import wait_until

# THREE_HOPS_EVENTS=5000000 is for a night, not for each change.
EVENTS = int(os.environ.get("THREE_HOPS_EVENTS", 50_000))
KILLS = 10 if EVENTS <= 50_000 else 50
DEADLINE_S = 240 + EVENTS // 1000
TOPICS = ("low", "high")
# The nodes are on the first three, and each agent of the second tier is on one of the others.
HOSTS = 5
SECOND_TIER = (4, 5)


class ThreeHops(AgentCase):
    def agent(self, name: str, text: str, host: int | None = None) -> Agent:
        return Agent(self, self.directory, name, text, host=host)

    def channel(self, name: str, directory) -> str:
        return f"[channels.{name}]\ntype = 'file'\ncapacity = 100000000\nminimumRequiredSpace = 2097152\ndataDirs = '{directory}/{name}'\n"

    def first(self, name: str, events: range, addresses: list[tuple[str, int]], processor: str) -> Agent:
        spool = self.spooled(events, f"spool-{name}")
        hops = "".join(
            f"[sinks.k{at}]\ntype = 'avro'\nchannel = 'c'\nhostname = '{host}'\nport = {port}\nbatch-size = 200\n"
            f"'connect-timeout' = 2000\n'request-timeout' = 5000\n"
            for at, (host, port) in enumerate(addresses)
        )
        return self.agent(
            name,
            f"[sources.r]\ntype = 'spooldir'\nspoolDir = '{spool}'\nchannels = ['c']\nbatchSize = 200\n"
            f"{self.channel('c', self.made(name))}{hops}[groups.g]\nsinks = ['k0', 'k1']\n[groups.g.processor]\n{processor}",
        )

    def second(self, name: str, at: tuple[str, int], directory, brokers: str, host: int | None) -> Agent:
        sinks = "".join(
            f"{self.channel(topic, directory)}[sinks.{topic}]\ntype = 'kafka'\nchannel = '{topic}'\n"
            f"'kafka.bootstrap.servers' = '{brokers}'\n'kafka.topic' = '{topic}'\nflumeBatchSize = 200\n"
            for topic in TOPICS
        )
        return self.agent(
            name,
            f"[sources.r]\ntype = 'avro'\nbind = '{at[0]}'\nport = {at[1]}\nchannels = ['low', 'high']\n"
            f"[[sources.r.interceptors]]\ntype = 'regex_extractor'\nregex = '([0-9])$'\n"
            f"[sources.r.interceptors.serializers.s]\nname = 'last'\n"
            f"[sources.r.selector]\ntype = 'multiplexing'\nheader = 'last'\ndefault = 'high'\n"
            + "".join(f"mapping.{digit} = 'low'\n" for digit in range(5))
            + sinks,
            host,
        )

    def third(self, name: str, brokers: str, hdfs: HdfsCluster, store: Store) -> Agent:
        return self.agent(
            name,
            f"[sources.r]\ntype = 'kafka'\n'kafka.bootstrap.servers' = '{brokers}'\n'kafka.topics' = 'low,high'\nbatchSize = 200\n"
            f"'kafka.consumer.group.id' = 'third'\n'kafka.consumer.auto.offset.reset' = 'earliest'\nchannels = ['h', 's']\n"
            f"{self.channel('h', self.made(name))}{self.channel('s', self.made(name))}"
            f"[sinks.h]\ntype = 'hdfs'\nchannel = 'h'\n[sinks.h.hdfs]\npath = '{hdfs.url}/events/%{{topic}}'\nfilePrefix = '{name}'\n"
            f"fileType = 'DataStream'\nrollCount = {EVENTS // 20}\nrollSize = 0\nrollInterval = 0\nbatchSize = 200\ncallTimeout = 5000\n"
            f"retryInterval = 1\n"
            f"[sinks.s]\ntype = 's3'\nchannel = 's'\nurl = 's3://{BUCKET}/%{{topic}}'\nformat = 'text'\ncompression = 'none'\n"
            f"rollCount = {EVENTS // 20}\nrollInterval = 2\nbatchSize = 200\nendpoint = 'http://127.0.0.1:{store.port}'\n"
            f"accessKeyId = '{KEY}'\nsecretAccessKey = '{KEY}'\nrequestTimeout = 10000\n",
        )

    def test_each_event_is_everywhere(self):
        network = self.enterContext(Network(HOSTS)) if is_own() else None
        if network is None:
            print(f"no cable is cut: {WITHOUT}")
        volume = Volume(self, f"agent-three-hops-{os.getpid()}", 64 * MEBIBYTE + EVENTS * 400)
        hdfs = HdfsCluster(self, self.directory).start()
        store = Store(self, self.directory, free_port()).start()
        cluster = Cluster("agent-three-hops", hosted=network is not None)
        self.addCleanup(cluster.kill)
        with cluster:
            brokers = cluster.bootstrap
            for topic in TOPICS:
                created = logway("topic", "create", topic, "--partitions", "4", "--replicas", "3", "--brokers", brokers)
                self.assertEqual(created.returncode, 0, created.stderr)
            hosts = SECOND_TIER if network else (None, None)
            addresses = [(address(host) if host else "127.0.0.1", free_port()) for host in hosts]
            half = EVENTS // 2
            directories = (volume.path, self.made("b2"))
            seconds = [self.second(f"b{at + 1}", addresses[at], directories[at], brokers, hosts[at]) for at in range(2)]
            thirds = [self.third(name, brokers, hdfs, store) for name in ["c1", "c2"]]
            firsts = [
                self.first("a1", range(half), addresses, "type = 'failover'\npriority.k0 = 10\npriority.k1 = 5\nmaxpenalty = 2000\n"),
                self.first("a2", range(half, EVENTS), addresses, "type = 'load_balance'\nbackoff = true\n'selector.maxTimeOut' = 2000\n"),
            ]
            agents = [*thirds, *seconds, *firsts]
            for agent in agents:
                agent.start()
            self.disturb([*agents, *cluster.nodes, hdfs, store], volume, cluster, store, network)
            self.expect_all(agents, hdfs, store)

    def disturb(self, victims, volume: Volume, cluster: Cluster, store: Store, network: Network | None):
        """Something is wrong each time that more has come to the end: every process is killed once before one is killed again."""
        chance = random.Random(SEED)

        def stored_bytes() -> int:
            return sum(map(len, store.objects().values()))

        total = sum(len(f"{number}\n") for number in range(EVENTS))
        turns = chance.sample(victims, len(victims))
        for turn in range(max(KILLS, len(victims))):
            wait_until(lambda turn=turn: stored_bytes() >= total * turn // (2 * len(victims)) or stored_bytes() >= total // 2, "events", DEADLINE_S)
            victim = turns[turn % len(turns)]
            victim.kill()
            if turn == 2:
                volume.fill()
            if turn == 4:
                cluster.node(2).pause()
            victim.start()
            if turn == 4:
                cluster.node(2).resume()
            if turn == 5:
                volume.make_room()
            if turn == 6 and network:
                network.unplug(SECOND_TIER[0])
            if turn == 8 and network:
                network.plug(SECOND_TIER[0])

    def expect_all(self, agents: list[Agent], hdfs: HdfsCluster, store: Store):
        expected = {str(number) for number in range(EVENTS)}

        def objects() -> list[str]:
            return [line for body in store.objects().values() for line in body.decode().splitlines()]

        wait_until(lambda: len(set(objects())) >= EVENTS, "all events in S3", DEADLINE_S)
        self.assertEqual(set(objects()), expected)
        wait_until(lambda: all(agent.count(f"CHANNEL.{name}", "ChannelSize") == 0 for agent in agents[:2] for name in "hs"), "empty channels", DEADLINE_S)
        for agent in agents:
            self.assertEqual(agent.stop(), 0)
        for path in hdfs.files("/events"):
            if path.endswith(".tmp"):
                hdfs.recover(path)
        in_hdfs = hdfs.lines("/events")
        self.assertEqual(set(in_hdfs), expected)
        for topic, digits in [("low", "01234"), ("high", "56789")]:
            lines = hdfs.lines(f"/events/{topic}")
            self.assertTrue(all(line[-1] in digits for line in lines), topic)
        print(f"{EVENTS} events over three hops with {max(KILLS, 11)} kills, a full disk, a node that hangs and {'a' if is_own() else 'no'} cut cable (SEED={SEED}): "
              f"{len(in_hdfs) - EVENTS} again in HDFS, {len(objects()) - EVENTS} in S3", flush=True)
