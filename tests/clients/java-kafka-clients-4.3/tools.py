"""Calls Apache Kafka's own command-line tools against the broker at $BOOTSTRAP."""

import os
import subprocess
import tempfile
from contextlib import contextmanager

from harness.apache_kafka import SMALL_JVM, java, need_kafka

BOOTSTRAP = os.environ["BOOTSTRAP"]
DEADLINE_S = 60
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LIBS = need_kafka()


def command(tool: str, *arguments: str) -> list[str]:
    """What runs a class of the package org.apache.kafka.tools, or one named in full."""
    main_class = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
    return java(LIBS, main_class, list(arguments), *SMALL_JVM)


def run(tool: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess:
    """Runs a tool to its end."""
    return subprocess.run(
        command(tool, *arguments), input=stdin, capture_output=True, text=True, timeout=DEADLINE_S
    )


@contextmanager
def running(tool: str, *arguments: str):
    """A tool that goes on until the block ends; what it prints is of no interest."""
    process = subprocess.Popen(
        command(tool, "--bootstrap-server", BOOTSTRAP, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def call(tool: str, *arguments: str, stdin: str = "") -> str:
    """What a tool prints on stdout; a nonzero exit code is an error that carries what it printed."""
    done = run(tool, *arguments, stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(f"{tool} {arguments} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def ask(tool: str, *arguments: str, stdin: str = "") -> str:
    """Calls a tool with the broker's address."""
    return call(tool, "--bootstrap-server", BOOTSTRAP, *arguments, stdin=stdin)


def create_topic(topic: str, partitions: int = 1, **configs: object):
    settings = [word for key, value in configs.items() for word in ("--config", f"{key.replace('_', '.')}={value}")]
    ask("TopicCommand", "--create", "--topic", topic, "--partitions", str(partitions), *settings)


def produce_lines(topic: str, lines: list[str], *arguments: str):
    ask("ConsoleProducer", "--topic", topic, *arguments, stdin="".join(f"{line}\n" for line in lines))


def consume_lines(topic: str, count: int, *arguments: str, offset: str = "earliest", partition: int = 0) -> list[str]:
    where = ["--topic", topic, "--partition", str(partition), "--offset", offset, "--max-messages", str(count)]
    return ask("consumer.ConsoleConsumer", *where, "--timeout-ms", "20000", *arguments).splitlines()


def write_file(suffix: str, text: str) -> str:
    """A temporary file that lives as long as the test run."""
    with tempfile.NamedTemporaryFile("w", suffix=suffix, delete=False, dir=SCRATCH.name) as file:
        file.write(text)
        return file.name


SCRATCH = tempfile.TemporaryDirectory()
