"""Apache Kafka 4.3.0 as a suite runs it: one KRaft node or three, fetched from Maven Central at the first use."""

import signal
import subprocess

from harness.broker import TESTS, Broker
from harness.network import address, on_host
from harness.nodes import Nodes
from harness.ports import free_addresses
from harness.protocol import METADATA, Connection, metadata_v1

# A UUID in base64url, 16 bytes, as Kafka writes them.
CLUSTER_ID = "TG9nd2F5IHRlc3QgcGVlcg"
LOG4J = TESTS / "harness" / "kafka" / "log4j2.properties"

# For programs that are small or run for seconds: most of their time is the JVM's own start.
SMALL_JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]


class ApacheKafka(Broker):
    """Kafka with its own defaults, but for what one node needs and what `settings` say."""

    kind = "kafka"
    sigterm_exit_code = 128 + 15
    restart_s_max = 30.0
    restart_rss_growth_bytes_max = 256 << 20
    rss_growth_bytes_max = 1200 << 20
    connection_limit = "max.connections.per.ip"

    def __init__(self, name: str, *options, **more_options):
        super().__init__(name, *options, **more_options)
        self.libs = need_kafka()
        self.bootstrap, controller = free_addresses(2)
        self.properties_path = self.directory / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.data_dir),
            # Beside the data: within it, a second instance writes to the first one's metadata before it is refused.
            "metadata.log.dir": f"{self.data_dir}-metadata",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        } | self.settings
        self.properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        config = ["--cluster-id", CLUSTER_ID, "--config", str(self.properties_path)]
        format_storage = ["format", "--ignore-formatted", *config]
        subprocess.run(java(self.libs, "kafka.tools.StorageTool", format_storage), check=True, capture_output=True)

    heap = "-Xmx1g"

    def command(self) -> list[str]:
        return java(self.libs, "kafka.Kafka", [str(self.properties_path)], self.heap, "-XX:+UseG1GC")

    def is_ready(self) -> bool:
        """Ready when a metadata answer names a broker."""
        try:
            with Connection(self.bootstrap, timeout_s=1) as connection:
                response = connection.request(METADATA, 1, metadata_v1([]))
                return int.from_bytes(response[:4]) > 0
        except OSError:
            return False


class KafkaNode(ApacheKafka):
    """One of three on a small machine."""

    heap = "-Xmx700m"

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class KafkaCluster(Nodes[KafkaNode]):
    """Combined nodes, three unless said otherwise, on loopback or each on one of these hosts of this process's network."""

    def __init__(self, name: str, hosts: list[int] | None = None, count: int = 3):
        if hosts:
            clients, controllers = ([f"{address(host)}:{port}" for host in hosts] for port in (9092, 9093))
        else:
            addresses = free_addresses(2 * count)
            clients, controllers = addresses[:count], addresses[count:]
        voters = ",".join(f"{number}@{controller}" for number, controller in enumerate(controllers, 1))
        super().__init__()
        for index in range(len(clients)):
            settings = {
                "node.id": str(index + 1),
                "listeners": f"PLAINTEXT://{clients[index]},CONTROLLER://{controllers[index]}",
                "controller.quorum.voters": voters,
                "offsets.topic.replication.factor": "3",
                "transaction.state.log.replication.factor": "3",
                "transaction.state.log.min.isr": "2",
            }
            node = KafkaNode(f"{name}-{index + 1}", settings)
            node.bootstrap = clients[index]
            node.under = on_host(hosts[index]) if hosts else []
            self.nodes.append(node)

    def start_all(self):
        for node in self.nodes:
            node.begin()
        for node in self.nodes:
            node.wait_until_ready()


def need_kafka() -> str:
    """The directory with Kafka's jars, fetched if need be."""
    need = [str(TESTS / "harness" / "need"), "kafka"]
    return subprocess.run(need, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def java(libs: str, main_class: str, arguments: list[str], *jvm_options: str) -> list[str]:
    """The command that runs one of Kafka's main classes."""
    return ["java", *jvm_options, f"-Dlog4j2.configurationFile={LOG4J}", "-cp", f"{libs}/*", main_class, *arguments]


def run_tool(name: str, *arguments: str, deadline_s: float) -> subprocess.CompletedProcess:
    """One of Kafka's own tools for operators, unchanged."""
    command = java(need_kafka(), f"org.apache.kafka.tools.{name}", list(arguments), *SMALL_JVM)
    return subprocess.run(command, capture_output=True, text=True, timeout=deadline_s)
