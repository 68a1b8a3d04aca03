"""How often the broker allocates memory and copies it for a request.

A broker with its symbols runs under load, with probes of the kernel (uprobes) in its allocator and in the C library's
copy; what perf counts there is divided by the requests that the broker's own metrics count meanwhile. So what it does
besides, for the topic of a load and its clients' first questions, is in it. A copy of few bytes whose number the
compiler knows is made in place and not counted, nor is what the kernel copies: each byte that comes out of a socket,
goes to a file or is sent from memory, once.

    cargo build --profile profiling --bin logway --bin logway-bench
    LOGWAY=target/profiling/logway python3 tests/bench/allocations.py [--seconds 5]

It asks for root, as the probes do, and for x86-64, whose registers they read.
"""

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loads import counted_loads

from harness.broker import TESTS
from harness.logway import BINARY

PROBES = Path("/sys/kernel/tracing/uprobe_events")
GROUP = f"logway_{os.getpid()}"
ALLOCATIONS, COPIES = "allocations", "copies"
# What is counted apart: calls with so many bytes and more.
BYTES_LEAST = [0, 1024, 16 * 1024]
DEADLINE_S = 30


@dataclass(frozen=True)
class Probe:
    # What it counts.
    what: str
    # A function, by its file and where it begins there.
    function: str
    file: str
    position: int
    # The register that has the number of bytes when it is called.
    register: str

    @property
    def event(self) -> str:
        return f"{GROUP}:{self.function}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    args = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("only root may have probes\nhint: begin again with sudo")
    subprocess.run([TESTS / "harness" / "need", "perf"], check=True, stdout=subprocess.DEVNULL)
    probes = [*in_allocator(BINARY), *in_library()]
    apart = [f"of {least // 1024} KiB and more" for least in BYTES_LEAST[1:]]
    print("| for one request | requests |", " | ".join([ALLOCATIONS, *apart, COPIES, *apart]), "|")
    print("|---|---|" + "---|" * (2 * len(BYTES_LEAST)))
    with placed(probes):
        for load, requests, calls in counted_loads("allocations", args.seconds, lambda pid: counted_in(pid, probes)):
            for what in (ALLOCATIONS, COPIES):
                if not calls[what, 0]:
                    raise SystemExit(f"no {what} were seen: these are not the functions that the broker calls")
            cells = [f"{calls[what, least] / requests:.2f}" for what in (ALLOCATIONS, COPIES) for least in BYTES_LEAST]
            print(f"| {load} | {requests:,} |", " | ".join(cells), "|", flush=True)


def in_allocator(binary: str) -> list[Probe]:
    """What Rust's allocations come to, where memory that grows in its place counts as well."""
    symbols = subprocess.run(["nm", binary], capture_output=True, text=True, check=False).stdout
    headers = subprocess.run(["readelf", "-lW", binary], capture_output=True, text=True, check=True).stdout
    loads = re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", headers)
    segments = [tuple(int(number, 16) for number in load) for load in loads]
    probes = []
    for function, register in (("mi_malloc", "%di"), ("mi_zalloc", "%di"), ("mi_realloc", "%si")):
        found = re.search(rf"^(\w+) T {function}_aligned$", symbols, re.MULTILINE)
        if not found:
            hint = "cargo build --profile profiling --bin logway --bin logway-bench, and set LOGWAY"
            raise SystemExit(f"{binary} has no symbols\nhint: {hint}")
        address = int(found[1], 16)
        starts = (at + address - begin for at, begin, length in segments if begin <= address < begin + length)
        probes.append(Probe(ALLOCATIONS, function, binary, next(starts), register))
    return probes


def in_library() -> list[Probe]:
    """What the C library copies by on this machine: it has a function for each kind of processor."""
    library = ctypes.CDLL(None)
    addresses = {ctypes.cast(library[name], ctypes.c_void_p).value for name in ("memcpy", "memmove")}
    probes = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        area, _, begins_at, _, _, *path = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in area.split("-"))
        for address in (address for address in addresses if start <= address < end):
            position = int(begins_at, 16) + address - start
            probes.append(Probe(COPIES, f"copy_{len(probes)}", path[0], position, "%dx"))
    return probes


@contextmanager
def placed(probes: list[Probe]) -> Iterator[None]:
    """Has the probes in their places while the block runs."""
    there = []
    try:
        for probe in probes:
            tell_kernel(f"p:{GROUP}/{probe.function} {probe.file}:{probe.position:#x} bytes={probe.register}:u64")
            there.append(probe)
        yield
    finally:
        for probe in there:
            tell_kernel(f"-:{GROUP}/{probe.function}")


def tell_kernel(line: str):
    # Opened for writing alone it would lose the probes of others.
    events = os.open(PROBES, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(events, f"{line}\n".encode())
    finally:
        os.close(events)


@contextmanager
def counted_in(pid: int, probes: list[Probe]) -> Iterator[dict[tuple[str, int], int]]:
    """Fills a dictionary with a process's calls, by what they do and their least bytes, when the block has ended."""
    calls = {(probe.what, least): 0 for probe in probes for least in BYTES_LEAST}
    kinds = [(probe, least) for probe in probes for least in BYTES_LEAST]
    events = [word for probe, least in kinds for word in ("-e", probe.event, "--filter", f"bytes >= {least}")]
    asked, to_ask = os.pipe()
    answers, to_answer = os.pipe()
    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory) / "table"
        command = ["perf", "stat", "-x", ",", "-o", table, "-D", "-1", "--control", f"fd:{asked},{to_answer}"]
        command += ["-p", str(pid), *events]
        perf = subprocess.Popen(command, pass_fds=(asked, to_answer), stderr=subprocess.PIPE, text=True)
        os.close(asked)
        os.close(to_answer)
        try:
            with suppress(BrokenPipeError):
                os.write(to_ask, b"enable\n")
            # Nothing, if it has ended.
            is_ready = bool(os.read(answers, 1))
            if is_ready:
                yield calls
        finally:
            perf.send_signal(signal.SIGINT)
            _, said = perf.communicate(timeout=DEADLINE_S)
            os.close(to_ask)
            os.close(answers)
        if not is_ready:
            raise SystemExit(f"perf: {said}")
        lines = [line.split(",") for line in table.read_text().splitlines() if GROUP in line]
        for (probe, least), line in zip(kinds, lines, strict=True):
            calls[probe.what, least] += int(line[0])


if __name__ == "__main__":
    main()
