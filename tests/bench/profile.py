"""Where the broker's processor time goes, by load.

A broker with its symbols runs under the load of `logway-bench`, and perf samples it. Each sample counts for the first
thing in the table that its stack has to do with, so that the rows add up to all. What a system call does is the
kernel's work for it; waking another thread, and going to sleep and coming back, is a row of its own, whichever call it
is in.

    cargo build --profile profiling --bin logway --bin logway-bench
    LOGWAY=target/profiling/logway python3 tests/bench/profile.py [--seconds 5]
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loads import PROFILED, BenchLoad, requests

from harness.broker import TESTS
from harness.logway import Logway
from harness.waiting import wait_until

SAMPLES_A_SECOND = 2000
DEADLINE_S = 120

# What a stack has to do with, the most telling first: a name, and what one of its functions is called.
ROWS = [
    ("threads woken, asleep and awake", r"^(try_to_wake_up|__schedule|schedule|finish_task_switch.*)$"),
    ("recvfrom: from the socket", r"^__x64_sys_(recvfrom|recvmsg|read|readv)$"),
    ("sendto, sendfile: to the socket", r"^__x64_sys_(sendto|sendmsg|write|writev|sendfile64|splice)$"),
    ("pwritev: to the page cache, the journal", r"^do_pwritev$|^__x64_sys_pwrite64$"),
    ("fdatasync: to the disk", r"^__x64_sys_(fdatasync|fsync|sync_file_range)$"),
    ("pread, preadv2: from the page cache", r"^do_preadv$|^__x64_sys_pread64$"),
    ("epoll_wait, futex and other calls", r"^__x64_sys_|^entry_SYSCALL|^do_syscall_64$"),
    ("the kernel besides", r"^asm_|^ret_from_fork|^page_fault"),
    ("CRC", r"^crc_fast"),
    ("records walked and validated", r"^<?logway_record"),
    ("memory copied", r"^__mem(move|cpy|set)"),
    ("memory allocated and freed", r"^_?mi_|^malloc|^free$|alloc::"),
    ("requests decoded, answers encoded", r"^<?logway_wire"),
    ("the log", r"^<?logway_log|^<?arc_swap"),
    ("the broker", r"^<?logway_"),
    ("the runtime", r"^<?(tokio|mio|futures|std|core)"),
]
OTHERS = "others"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    args = parser.parse_args()
    for needed in ("perf", "libc-symbols"):
        subprocess.run([TESTS / "harness" / "need", needed], check=True, stdout=subprocess.DEVNULL)
    profiles = [profile(load, args.seconds) for load in PROFILED]
    print("| CPU us a request |", " | ".join(load.name for load in PROFILED), "|")
    print("|---|" + "---|" * len(PROFILED))
    for row in [*(name for name, _ in ROWS), OTHERS]:
        print(f"| {row} |", " | ".join(f"{profile[row]:.2f}" for profile in profiles), "|")
    print("| all |", " | ".join(f"{sum(profile.values()):.2f}" for profile in profiles), "|")


def profile(load: BenchLoad, seconds: float) -> dict[str, float]:
    """Microseconds of processor time a request, by row."""
    with tempfile.TemporaryDirectory() as directory, Logway("profile") as broker:
        command = load.command(broker, 10 * seconds, directory)
        bench = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # The work is under way.
            begun = 1000
            wait_until(lambda: counted(broker, load.api)[0] > begun, f"{load.name} to begin", DEADLINE_S)
            before = counted(broker, load.api)
            samples = sampled(broker.process.pid, seconds, Path(directory) / "perf.data")
            made, cpu_seconds = (after - earlier for earlier, after in zip(before, counted(broker, load.api)))
        finally:
            bench.send_signal(signal.SIGTERM)
            bench.wait(DEADLINE_S)
    all_samples = sum(samples.values())
    print(f"{load.name}: {made:,.0f} requests, {all_samples:,} samples", file=sys.stderr)
    return {row: count / all_samples * cpu_seconds / made * 1e6 for row, count in samples.items()}


def counted(broker: Logway, api: str) -> tuple[float, float]:
    """How many requests of an API the broker has answered, and its processor time in seconds."""
    metrics = broker.metrics()
    cpu_seconds = re.search(r"^process_cpu_seconds_total ([\d.e+-]+)", metrics, re.MULTILINE)
    return (requests(metrics, api), float(cpu_seconds[1]))


def sampled(pid: int, seconds: float, data: Path) -> Counter[str]:
    """How many samples of a process fall into each row."""
    record = ["perf", "record", "-q", "-F", str(SAMPLES_A_SECOND), "-g", "-p", str(pid), "-o", data]
    subprocess.run([*record, "--", "sleep", str(seconds)], check=True, stderr=subprocess.DEVNULL)
    script = ["perf", "script", "-i", data, "-F", "ip,sym"]
    text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    samples = Counter({row: 0 for row in [*(name for name, _ in ROWS), OTHERS]})
    for stack in text.split("\n\n"):
        functions = [line.split(maxsplit=1)[1] for line in stack.splitlines() if len(line.split(maxsplit=1)) == 2]
        if functions:
            samples[row_of(functions)] += 1
    return samples


def row_of(functions: list[str]) -> str:
    """The row of a stack, whose innermost function is the first."""
    is_in_kernel = any(re.search(r"^entry_SYSCALL|^do_syscall_64$|^asm_", function) for function in functions)
    for name, pattern in ROWS:
        # In the broker's own code the innermost function is what it does.
        looked_at = functions if is_in_kernel else functions[:1]
        if any(re.search(pattern, function) for function in looked_at):
            return name
    return OTHERS


if __name__ == "__main__":
    main()
