"""Kafka's own tools for operators, unchanged."""

import json
import subprocess
import tempfile
import threading
from pathlib import Path

from harness.apache_kafka import SMALL_JVM, java, need_kafka, run_tool

TOOL_S = 120


def tool(bootstrap: str, name: str, *arguments: str, fails: bool = False) -> str:
    """What a tool prints."""
    done = run_tool(name, "--bootstrap-server", bootstrap, *arguments, deadline_s=TOOL_S)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def reassign(bootstrap: str, *arguments: str, plan: dict | None = None, fails: bool = False) -> str:
    """`kafka-reassign-partitions`, with a plan as its file."""
    name = "reassign.ReassignPartitionsCommand"
    if plan is None:
        return tool(bootstrap, name, *arguments, fails=fails)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "plan.json"
        path.write_text(json.dumps(plan))
        return tool(bootstrap, name, "--reassignment-json-file", str(path), *arguments, fails=fails)


def plan_of(topic: str, replicas: dict[int, list[int]]) -> dict:
    """A plan as the tool reads it."""
    listed = [{"topic": topic, "partition": number, "replicas": ids} for number, ids in replicas.items()]
    return {"version": 1, "partitions": listed}


def generated(bootstrap: str, topics: list[str], brokers: list[int]) -> dict:
    """The plan that the tool proposes for topics to be on some brokers."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "topics.json"
        path.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]}))
        listed = ",".join(map(str, brokers))
        named = ("--generate", "--topics-to-move-json-file", str(path), "--broker-list", listed)
        said = reassign(bootstrap, *named)
    plans = [line for line in said.splitlines() if line.startswith("{")]
    plan = json.loads(plans[-1])
    for one in plan["partitions"]:
        one.pop("log_dirs", None)
    return plan


def verified_replicas(bootstrap: str, topic: str, reports: int) -> str:
    """What `kafka-replica-verification` prints of a topic from its beginning, up to so many reports. It runs until it is ended."""
    named = ("--broker-list", bootstrap, "--topics-include", topic, "--time", "-2", "--report-interval-ms", "500", "--max-wait-ms", "100")
    command = java(need_kafka(), "org.apache.kafka.tools.ReplicaVerificationTool", list(named), *SMALL_JVM)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
        ending = threading.Timer(TOOL_S, tool.kill)
        ending.start()
        said = []
        for line in tool.stdout:
            said.append(line)
            if sum("max lag is" in line for line in said) == reports:
                break
        ending.cancel()
        tool.kill()
    return "".join(said)


def elect_leaders(bootstrap: str, kind: str, *arguments: str, fails: bool = False) -> str:
    """`kafka-leader-election`."""
    return tool(bootstrap, "LeaderElectionCommand", "--election-type", kind, *arguments, fails=fails)
