"""What strace counts."""

import re
from pathlib import Path


def counted(table: Path) -> dict[str, int]:
    """The system calls in a table that `strace -c` has written, by name."""
    calls = {}
    for line in table.read_text().splitlines():
        # Percent, seconds, microseconds a call, calls, errors if any, name.
        if found := re.fullmatch(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)", line):
            calls[found[2]] = int(found[1])
    calls.pop("total", None)
    return calls
