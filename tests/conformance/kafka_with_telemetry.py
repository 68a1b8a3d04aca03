"""Apache Kafka as the suite starts it."""

import subprocess
from pathlib import Path

from harness.apache_kafka import ApacheKafka
from harness.broker import WORK

PLUGIN = "io.logway.conformance.Telemetry"
SOURCES = Path(__file__).parent / "plugin"


class KafkaWithTelemetry(ApacheKafka):
    """With a plugin that takes clients' metrics (KIP-714): without one it announces no API for them."""

    def __init__(self, name: str, settings: dict[str, str]):
        super().__init__(name, settings | {"metric.reporters": PLUGIN})
        classes = WORK / "conformance-plugin"
        source = SOURCES.joinpath(*PLUGIN.split(".")).with_suffix(".java")
        strict = ["-Werror", "-Xlint:all", "-proc:none"]
        subprocess.run(["javac", *strict, "-cp", f"{self.libs}/*", "-d", str(classes), str(source)], check=True)
        self.libs = f"{classes}:{self.libs}"
