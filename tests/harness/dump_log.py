"""Apache Kafka's DumpLogSegments, which must read a broker's files without a complaint."""

import re
import subprocess
from pathlib import Path

from harness.apache_kafka import SMALL_JVM, java, need_kafka

COMPLAINTS = re.compile(
    r"mismatch|corrupt|error|exception|misordered|non-consecutive|isvalid: false|found that", re.IGNORECASE
)


def dump_log(files: list[Path], *arguments: str) -> str:
    """What the tool prints about segments, indexes or producer snapshots; AssertionError if it finds fault."""
    names = ",".join(map(str, files))
    command = java(need_kafka(), "org.apache.kafka.tools.DumpLogSegments", ["--files", names, *arguments], *SMALL_JVM)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    complaint = COMPLAINTS.search(done.stdout)
    if done.returncode != 0 or complaint:
        around = (
            done.stdout[max(0, complaint.start() - 500) : complaint.end() + 500] if complaint else done.stdout[-1_000:]
        )
        raise AssertionError(f"DumpLogSegments exited with {done.returncode}: {around}\n{done.stderr[-1_000:]}")
    return done.stdout
