"""How to run the program of each client that does tasks (`secured.*` in its folder under tests/clients)."""

import os
import subprocess
from dataclasses import dataclass, field

from harness.apache_kafka import SMALL_JVM
from harness.broker import TESTS, WORK

CLIENTS = TESTS / "clients"
NEED, MAVEN = TESTS / "harness" / "need", TESTS / "harness" / "maven"
BUILT = WORK / "secured-clients"
MAIN_CLASS = "io.logway.clients.Secured"


@dataclass
class Program:
    """`command` runs it; `build` are the commands that make what it needs."""

    command: list
    build: list[list] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    # Where the commands of `build` run.
    directory: str = "."

    def prepare(self):
        for command in self.build:
            done = subprocess.run(command, cwd=CLIENTS / self.directory, capture_output=True, text=True)
            if done.returncode != 0:
                raise AssertionError(f"{command}: {done.stdout}{done.stderr}")

    def start(self, errors) -> subprocess.Popen:
        return subprocess.Popen(self.command, env=os.environ | self.environment, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=errors)


def python(folder: str, *build: list) -> Program:
    path = os.pathsep.join([str(TESTS), str(CLIENTS / "python-cases")])
    interpreter = WORK / "venv" / "bin" / "python"
    return Program([interpreter, CLIENTS / folder / "secured.py"], list(build), {"PYTHONPATH": path})


def javascript(folder: str) -> Program:
    # One that cannot connect keeps a thread of libuv for some seconds, and by default there are four.
    threads = {"UV_THREADPOOL_SIZE": "32"}
    return Program(["node", CLIENTS / folder / "secured.js"], [[NEED, "node-modules", CLIENTS / folder]], threads)


def java(line: str, libraries, *goals: str, build: tuple = ()) -> Program:
    folder = f"java-kafka-clients-{line}"
    path = f"{WORK / folder / 'classes'}:{libraries}/*"
    quiet = [f"-Dlog4j2.configurationFile={TESTS}/harness/kafka/log4j2.properties",
             "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = ["java", *SMALL_JVM, *quiet, "-cp", path, MAIN_CLASS]
    return Program(command, [*build, [MAVEN, CLIENTS / folder / "pom.xml", "compile", *goals]])


def go(folder: str) -> Program:
    program = BUILT / folder
    return Program([program, "secured"], [["go", "build", "-o", program, "."]], directory=folder)


def rust() -> Program:
    target = WORK / "rdkafka-rust"
    return Program([target / "debug" / "logway-rdkafka-suite", "secured"], [["./build.sh"]], directory="rdkafka-rust")


PROGRAMS = {
    "kcat": python("kcat", [NEED, "kcat"]),
    "confluent-kafka": python("confluent-kafka-python"),
    "kafka-python": python("kafka-python"),
    "aiokafka": python("aiokafka"),
    "kafkajs": javascript("kafkajs"),
    "@confluentinc/kafka-javascript": javascript("confluent-kafka-javascript"),
    "rdkafka": rust(),
    "kafka-clients-4.3": java("4.3", WORK / "kafka" / "libs", build=([NEED, "kafka"],)),
    "kafka-clients-2.8": java("2.8", WORK / "java-kafka-clients-2.8" / "libs", "dependency:copy-dependencies"),
    "franz-go": go("franz-go"),
    "sarama": go("sarama"),
    "kafka-go": go("kafka-go"),
}
