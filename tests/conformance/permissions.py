"""Both brokers as the suite asks them about permissions: with ACLs in force, and a user who has none."""

import hashlib

from conformance.connection import User
from conformance.kafka_with_telemetry import KafkaWithTelemetry
from conformance.side import Side
from harness.broker import Broker
from harness.logway import Logway
from harness.ports import free_addresses

STRANGER = User("stranger", "a word")
# Of Kafka's mechanisms.
SCRAM_SHA_256 = 1
ITERATIONS = 4096

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
}


class GuardedKafka(KafkaWithTelemetry):
    """Knows the stranger by its settings."""

    def __init__(self, name: str, settings: dict[str, str]):
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        user = f'user_{STRANGER.name}="{STRANGER.password}"'
        super().__init__(name, settings | SETTINGS | {
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login} {user};",
        })
        (self.for_strangers,) = free_addresses(1)
        lines = self.properties_path.read_text().splitlines()
        (listeners,) = [line for line in lines if line.startswith("listeners=")]
        with self.properties_path.open("a") as properties:
            properties.write(f"{listeners},SASL_PLAINTEXT://{self.for_strangers}\n")

    def start(self) -> Broker:
        super().start()
        self.bootstrap += f",{self.for_strangers}"
        return self


class GuardedLogway(Logway):
    """Is told of the stranger when it serves."""

    def __init__(self, name: str, settings: dict[str, str]):
        super().__init__(name, settings | SETTINGS)

    def command(self) -> list[str]:
        words = super().command()
        words[words.index("--kafka-listen") + 1] = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
        return words


def make_known(side: Side):
    """Gives the stranger a password, where that is no setting."""
    if side.kind == "kafka":
        return
    salt = b"salt of the stranger"
    salted = hashlib.pbkdf2_hmac("sha256", STRANGER.password.encode(), salt, ITERATIONS)
    credential = {"Name": STRANGER.name, "Mechanism": SCRAM_SHA_256, "Iterations": ITERATIONS, "Salt": salt,
                  "SaltedPassword": salted}
    (result,) = side.do("AlterUserScramCredentials", Deletions=[], Upsertions=[credential])["Results"]
    if result["ErrorCode"]:
        raise AssertionError(f"the stranger cannot be made known: {result}")
