"""A small disk: an ext4 in a file, which a case fills, breaks and cuts off from power."""

import errno
import fcntl
import os
import struct
import subprocess
import unittest
from pathlib import Path

from harness.broker import fresh_directory
from harness.waiting import wait_until

MEBIBYTE = 1 << 20
DEADLINE_S = 30

# `EXT4_IOC_SHUTDOWN`: what was not written yet is lost, the journal included.
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_THE_LOG = struct.pack("I", 2)


class Volume:
    """A file system of its own at `path`, for as long as a case runs."""

    def __init__(self, case: unittest.TestCase, name: str, size_bytes: int):
        """Formats and mounts it; skips the case where that is not allowed."""
        directory = fresh_directory(name)
        self.path = directory / "disk"
        self._image = directory / "image"
        self._ballast = self.path / "ballast"
        self._hangs = False
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(size_bytes)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(self._image)], check=True)
        mounted = self._mount()
        if mounted.returncode != 0:
            case.skipTest(f"a disk cannot be mounted here: {mounted.stderr.strip()}")
        case.addCleanup(self.unmount)

    def unmount(self):
        """When nobody uses it any more, for which it waits."""
        self.go_on()
        if self.path.is_mount():
            unmounted = lambda: subprocess.run(["umount", str(self.path)], stderr=subprocess.DEVNULL).returncode == 0
            wait_until(unmounted, f"{self.path} to be unmounted", DEADLINE_S)

    def mount_again(self):
        """As after a reboot: with a check of the file system, which plays the journal back."""
        self.unmount()
        checked = subprocess.run(["e2fsck", "-fy", str(self._image)], capture_output=True, text=True)
        # 1 means that errors were corrected.
        assert checked.returncode in (0, 1), checked.stdout
        mounted = self._mount()
        assert mounted.returncode == 0, mounted.stderr

    def fill(self):
        """Takes all the space that is left."""
        with self._ballast.open("ab") as ballast:
            piece_bytes = MEBIBYTE
            while piece_bytes >= 1_024:
                try:
                    os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, piece_bytes)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece_bytes //= 2

    def make_room(self):
        """Gives back what `fill` took."""
        self._ballast.unlink()

    def fail(self):
        """Has the file system find an error in itself, upon which it becomes read-only."""
        device = Path(os.path.realpath(self._device()))
        Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("a test\n")

    def cut_power(self):
        """Nothing is written any more, whatever was not synced is lost."""
        directory = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, WITHOUT_THE_LOG)
        finally:
            os.close(directory)

    def hang(self):
        """Whoever writes waits, until it goes on. Nothing is lost."""
        subprocess.run(["fsfreeze", "--freeze", str(self.path)], check=True)
        self._hangs = True

    def go_on(self):
        if self._hangs:
            subprocess.run(["fsfreeze", "--unfreeze", str(self.path)], check=True)
            self._hangs = False

    def _device(self) -> str:
        found = ["findmnt", "--noheadings", "--output", "SOURCE", str(self.path)]
        return subprocess.run(found, check=True, capture_output=True, text=True).stdout.strip()

    def _mount(self) -> subprocess.CompletedProcess:
        command = ["mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.path)]
        return subprocess.run(command, capture_output=True, text=True)
