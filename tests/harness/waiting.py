"""Waiting for a state, never for time."""

import time


def wait_until(condition, what: str, deadline_s: float):
    """Asks until the condition holds: Kafka answers an admin request before the broker has applied the change."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {deadline_s} s for {what}")
        time.sleep(0.01)
