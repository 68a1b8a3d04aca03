"""Sends a broker mutated sessions (crates/hostile), and looks at its memory meanwhile."""

import os
import subprocess
import time

from harness.broker import TESTS
from harness.seed import SEED


def send_sessions(broker, bootstrap: str, first: int, sessions: int, *words: str, password: str = "") -> int:
    """Sends so many sessions of SEED, from a number on; the most resident memory meanwhile, in bytes."""
    numbers = ["--seed", str(SEED), "--from", str(first), "--sessions", str(sessions)]
    environment = {**os.environ, "LOGWAY_PASSWORD": password}
    attack = subprocess.Popen([hostile(), "--bootstrap", bootstrap, *numbers, *words], env=environment)
    rss_bytes_most = 0
    while attack.poll() is None:
        rss_bytes_most = max(rss_bytes_most, broker.rss_bytes())
        time.sleep(0.1)
    if attack.returncode != 0:
        raise AssertionError("an answer was wrong, or the broker could not be reached")
    return rss_bytes_most


def hostile() -> str:
    """The program that attacks, built if need be."""
    subprocess.run(["cargo", "build", "--quiet", "--bin", "hostile"], cwd=TESTS.parent, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", str(TESTS.parent / "target")), "debug", "hostile")
