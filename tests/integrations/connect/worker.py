"""A standalone Connect worker with one file source and one file sink, in a directory of its own."""

import json
import os
import urllib.request
from pathlib import Path

from harness.apache_kafka import SMALL_JVM, free_addresses, java, need_kafka
from harness.program import Program
from harness.waiting import wait_until

BOOTSTRAP = os.environ["BOOTSTRAP"]
# Long, because a small machine that does much else takes its time to start a JVM.
DEADLINE_S = 240


class Worker(Program):
    """Lines of `source` go to a topic, and from there to `sink`; both files are in `directory`."""

    def __init__(self, directory: Path, topic: str):
        self.source, self.sink = directory / "source.txt", directory / "sink.txt"
        self.source.touch()
        self.rest = free_addresses(1)[0]
        worker = {
            "bootstrap.servers": BOOTSTRAP,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": str(directory / "offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://{self.rest}",
            "plugin.discovery": "service_load",
            # The source creates its topic itself.
            "topic.creation.enable": "true",
        }
        source = {
            "name": f"{topic}-source",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(self.source),
            "topic": topic,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        }
        sink = {
            "name": f"{topic}-sink",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(self.sink),
            "topics": topic,
            "tasks.max": "1",
        }
        files = []
        for name, settings in (("worker", worker), ("source", source), ("sink", sink)):
            path = directory / f"{name}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            files.append(str(path))
        command = java(need_kafka(), "org.apache.kafka.connect.cli.ConnectStandalone", files, *SMALL_JVM)
        super().__init__(command, directory / "worker.log")

    def append(self, lines: list[str]):
        with self.source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def written(self) -> list[str]:
        """The whole lines in the sink's file."""
        text = self.sink.read_text() if self.sink.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def await_written(self, line: str):
        def is_written() -> bool:
            self.check()
            return line in self.written()

        wait_until(is_written, f"'{line}' in the sink", DEADLINE_S)

    def offsets(self, connector: str) -> list[dict]:
        """A connector's offsets, as the worker's own interface tells them."""
        with urllib.request.urlopen(f"http://{self.rest}/connectors/{connector}/offsets", timeout=30) as answer:
            return json.load(answer)["offsets"]
