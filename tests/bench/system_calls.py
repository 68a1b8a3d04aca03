"""How many system calls the broker makes for a request.

The release binary runs under load with strace on all of its threads; what it counts is divided by the requests that
the broker's own metrics count meanwhile. strace makes the system slow, so that more appends meet in a group than
without it: with `alone`, where each request waits for the one before, no two ever do.

    python3 tests/bench/system_calls.py [--seconds 5]
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loads import counted_loads

from harness.broker import TESTS
from harness.strace import counted

# The columns; what is rarer than that is summed up.
SHOWN = ["recvfrom", "sendto", "sendfile", "pread64", "pwritev", "fdatasync", "futex", "epoll_wait"]
DEADLINE_S = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    args = parser.parse_args()
    subprocess.run([TESTS / "harness" / "need", "strace"], check=True, stdout=subprocess.DEVNULL)
    print("| for one request | requests |", " | ".join(SHOWN), "| others | all |")
    print("|---|---|" + "---|" * (len(SHOWN) + 2))
    for load, requests, calls in counted_loads("system-calls", args.seconds, counted_in):
        shown = [calls.pop(name, 0) for name in SHOWN]
        others = sum(calls.values())
        counts = [*shown, others, sum(shown) + others]
        print(f"| {load} | {requests:,} |", " | ".join(f"{count / requests:.2f}" for count in counts), "|", flush=True)


@contextmanager
def counted_in(pid: int):
    """Fills a dictionary with the calls of a process, by name, when the block has ended."""
    calls: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory) / "calls"
        command = ["strace", "-f", "-c", "-o", str(table), "-p", str(pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        attached = tracer.stderr.readline()
        if "attached" not in attached:
            raise SystemExit(f"strace: {attached}{tracer.stderr.read()}")
        try:
            yield calls
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=DEADLINE_S)
        calls |= counted(table)


if __name__ == "__main__":
    main()
