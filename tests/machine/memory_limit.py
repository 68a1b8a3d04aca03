"""Memory that is bounded for some processes together, by a control group of either version."""

import os
import unittest
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class MemoryLimit:
    """A control group for the processes that `under` starts; what files of theirs the kernel caches counts, too."""

    def __init__(self, case: unittest.TestCase, limit_bytes: int):
        """Skips the case where no group can be made."""
        parent, limit_file = own_group()
        self._directory = parent / f"logway-tests-{os.getpid()}"
        try:
            self._directory.mkdir()
            case.addCleanup(self._directory.rmdir)
            (self._directory / limit_file).write_text(str(limit_bytes))
        except OSError as error:
            case.skipTest(f"memory cannot be limited here: {error}")
        self.under = ["sh", "-c", f'echo $$ >{self._directory}/cgroup.procs; exec "$@"', "sh"]


def own_group() -> tuple[Path, str]:
    """The group of this process for memory, and the file that bounds a group."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            return ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
    (path,) = [path for _, controllers, path in groups if not controllers]
    return ROOT / path.lstrip("/"), "memory.max"
