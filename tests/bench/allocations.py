"""How often the broker allocates memory and copies it for a request.

A broker with its symbols runs under load, with a probe of the kernel (a uprobe) in its allocator and in the C library's
copy; what perf counts there is divided by the requests that the broker's own metrics count meanwhile. A copy of few
bytes whose number the compiler knows is made in place and not counted, nor is what the kernel copies: each byte that
comes out of a socket, goes to a file or is sent from memory, once.

    cargo build --profile profiling --bin logway
    LOGWAY=target/profiling/logway python3 tests/bench/allocations.py [--seconds 5]

It asks for root, as the probes do, and for the C library's debugging symbols, which it installs.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loads import COUNTED, BenchLoad, Load, fill, requests

from harness.broker import TESTS
from harness.logway import BINARY, Logway

GROUP = "logway_memory"
# What is counted apart: calls with so many bytes and more.
BYTES_LEAST = [0, 1024, 16 * 1024]
DEADLINE_S = 30


@dataclass
class Probe:
    # What it counts.
    name: str
    # The functions, and the register that has the number of bytes.
    function: str
    bytes: str


IN_BROKER = [
    Probe("allocated", "mi_malloc_aligned", "%di"),
    Probe("zeroed", "mi_zalloc_aligned", "%di"),
    Probe("grown", "mi_realloc_aligned", "%si"),
]
# One for each kind of processor, of which the library chooses one.
IN_LIBRARY = [Probe("copied", "__memmove_*_unaligned_erms", "%dx")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    args = parser.parse_args()
    for needed in ("perf", "libc-symbols"):
        subprocess.run([TESTS / "harness" / "need", needed], check=True, stdout=subprocess.DEVNULL)
    classes = ["all", *(f"{least // 1024} KiB and more" for least in BYTES_LEAST[1:])]
    columns = [f"{what}: {of}" for what in ("allocations", "copies") for of in classes]
    print("| for one request | requests |", " | ".join(columns), "|")
    print("|---|---|" + "---|" * len(columns))
    with probes(), Logway("allocations") as broker:
        fill(broker)
        for load in COUNTED:
            report(broker, load, args.seconds)


def report(broker: Logway, load: Load | BenchLoad, seconds: float):
    before = requests(broker, load.api)
    with counted_in(broker.process.pid) as calls:
        load.run(broker, seconds)
    made = requests(broker, load.api) - before
    allocations = [sum(calls[probe.name, least] for probe in IN_BROKER) for least in BYTES_LEAST]
    copies = [sum(calls[probe.name, least] for probe in IN_LIBRARY) for least in BYTES_LEAST]
    cells = " | ".join(f"{count / made:.2f}" for count in [*allocations, *copies])
    print(f"| {load.name} | {made:,} | {cells} |", flush=True)


@contextmanager
def probes() -> Iterator[None]:
    """Has the probes in their places while the block runs."""
    try:
        for file, some in ((BINARY, IN_BROKER), (library(), IN_LIBRARY)):
            for probe in some:
                event = f"{GROUP}:{probe.name}={probe.function} bytes={probe.bytes}:u64"
                subprocess.run(["perf", "probe", "-q", "-x", file, "--add", event], check=True)
        yield
    finally:
        subprocess.run(["perf", "probe", "-q", "--del", f"{GROUP}:*"], check=False)


def library() -> str:
    """The C library that this process has, as the broker does."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if "/libc.so" in line)


@contextmanager
def counted_in(pid: int) -> Iterator[dict[tuple[str, int], int]]:
    """Fills a dictionary with a process's calls, by probe and least number of bytes, when the block has ended."""
    calls: dict[tuple[str, int], int] = {}
    kinds = [(probe.name, least) for probe in [*IN_BROKER, *IN_LIBRARY] for least in BYTES_LEAST]
    events = [word for name, least in kinds for word in ("-e", f"{GROUP}:{name}", "--filter", f"bytes >= {least}")]
    with tempfile.TemporaryDirectory() as directory:
        control, ack, table = (Path(directory) / name for name in ("control", "ack", "table"))
        os.mkfifo(control)
        os.mkfifo(ack)
        command = ["perf", "stat", "-x", ",", "-o", table, "-D", "-1", "--control", f"fifo:{control},{ack}"]
        perf = subprocess.Popen([*command, "-p", str(pid), *events])
        with control.open("w") as asked, ack.open() as answered:
            print("enable", file=asked, flush=True)
            answered.readline()
            yield calls
        perf.send_signal(signal.SIGINT)
        perf.communicate(timeout=DEADLINE_S)
        lines = [line.split(",") for line in table.read_text().splitlines() if f"{GROUP}:" in line]
        for kind, line in zip(kinds, lines, strict=True):
            calls[kind] = int(line[0])


if __name__ == "__main__":
    main()
