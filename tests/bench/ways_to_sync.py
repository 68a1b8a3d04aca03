"""What it takes to have an append to each of many files on the disk, by the way.

Each file gets so many bytes, and the round is over when all of them are there. What is written was written before in
one case, and in the other the file becomes longer. Beside the ways that sync each file stands the journal: the bytes go
to the files as well, and to one more file, whose blocks were written before, and only that is synced.

Each run is a process of its own: Linux makes the threads behind an io_uring for a process once, as many as the first
ring asks for.

    python3 tests/bench/ways_to_sync.py [--bytes 1024] [--seconds 1] [--rounds 3] [--directory DIRECTORY]
"""

import argparse
import ctypes
import mmap
import multiprocessing
import os
import statistics
import struct
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

FILES = [1, 10, 100]
# What is there before, and how much a journal has before it begins again.
WRITTEN_BYTES = 1 << 20
JOURNAL_BYTES = 32 << 20
THREADS = 16
RING_ENTRIES = 128

# linux/io_uring.h; the numbers of the calls are the same on all architectures.
SYS_IO_URING_SETUP, SYS_IO_URING_ENTER, SYS_IO_URING_REGISTER = 425, 426, 427
IORING_OFF_SQES = 0x10000000
IORING_FEAT_SINGLE_MMAP, IORING_ENTER_GETEVENTS = 1, 1
IORING_OP_FSYNC, IORING_FSYNC_DATASYNC = 3, 1
IORING_REGISTER_IOWQ_MAX_WORKERS = 19
PARAMS_BYTES, SQE_BYTES, CQE_BYTES = 120, 64, 16

LIBC = ctypes.CDLL(None, use_errno=True)


class Ring:
    """An io_uring that syncs files, with as many threads behind it as the way by threads has."""

    def __init__(self):
        params = ctypes.create_string_buffer(PARAMS_BYTES)
        self.file = call(SYS_IO_URING_SETUP, RING_ENTRIES, params)
        sq_entries, cq_entries, _, _, _, features = struct.unpack_from("6I", params)
        if not features & IORING_FEAT_SINGLE_MMAP:
            raise SystemExit("io_uring of Linux 5.4 or later is needed")
        # Those for what may block for long, as on a disk, and those for what may block for ever.
        workers = (ctypes.c_uint * 2)(THREADS, THREADS)
        call(SYS_IO_URING_REGISTER, self.file, IORING_REGISTER_IOWQ_MAX_WORKERS, workers, 2)
        self.sq_head, self.sq_tail, self.sq_mask, _, _, _, self.sq_array = struct.unpack_from("7I", params, 40)
        self.cq_head, self.cq_tail, self.cq_mask, _, _, self.cqes = struct.unpack_from("6I", params, 80)
        ring_bytes = max(self.sq_array + 4 * sq_entries, self.cqes + CQE_BYTES * cq_entries)
        self.ring = mmap.mmap(self.file, ring_bytes, mmap.MAP_SHARED)
        self.sqes = mmap.mmap(self.file, SQE_BYTES * sq_entries, mmap.MAP_SHARED, offset=IORING_OFF_SQES)

    def at(self, position: int) -> int:
        return struct.unpack_from("I", self.ring, position)[0]

    def sync(self, files: list[int]):
        tail, mask = self.at(self.sq_tail), self.at(self.sq_mask)
        for number, file in enumerate(files):
            slot = (tail + number) & mask
            sqe = (IORING_OP_FSYNC, 0, 0, file, 0, 0, 0, IORING_FSYNC_DATASYNC, number)
            struct.pack_into("BBHiQQIIQ24x", self.sqes, SQE_BYTES * slot, *sqe)
            struct.pack_into("I", self.ring, self.sq_array + 4 * slot, slot)
        struct.pack_into("I", self.ring, self.sq_tail, tail + len(files))
        taken = call(SYS_IO_URING_ENTER, self.file, len(files), len(files), IORING_ENTER_GETEVENTS, None, 0)
        head, done = self.at(self.cq_head), self.at(self.cq_tail)
        if (taken, done - head) != (len(files), len(files)):
            raise OSError(f"the ring took {taken} and did {done - head} of {len(files)} syncs")
        for number in range(head, done):
            position = self.cqes + CQE_BYTES * (number & self.at(self.cq_mask))
            _, result, _ = struct.unpack_from("QiI", self.ring, position)
            if result:
                raise OSError(-result, "a sync by the ring")
        struct.pack_into("I", self.ring, self.cq_head, done)


def call(number: int, *arguments) -> int:
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


class Appends:
    """Files with what a round of appends does to them, by each way."""

    def __init__(self, directory: str, files: int, size: int, grows: bool):
        self.size, self.grows = size, grows
        self.bytes = os.urandom(size)
        self.files = [written(directory, f"file-{number}", WRITTEN_BYTES) for number in range(files)]
        self.position = WRITTEN_BYTES if grows else 0
        self.journal = written(directory, "journal", JOURNAL_BYTES)
        self.journal_position = 0

    @cached_property
    def ring(self) -> Ring:
        return Ring()

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS)

    def write(self):
        if not self.grows and self.position + self.size > WRITTEN_BYTES:
            self.position = 0
        for file in self.files:
            os.pwrite(file, self.bytes, self.position)
        self.position += self.size

    def one_by_one(self):
        self.write()
        sync_all(self.files)

    def by_threads(self):
        self.write()
        # A task for each thread: what it takes to hand one over is not what is asked.
        tasks = [self.files[first::THREADS] for first in range(min(THREADS, len(self.files)))]
        list(self.threads.map(sync_all, tasks))

    def by_ring(self):
        self.write()
        self.ring.sync(self.files)

    def by_file_system(self):
        self.write()
        if LIBC.syncfs(self.files[0]):
            raise OSError(ctypes.get_errno(), "syncfs")

    def by_journal(self):
        self.write()
        together = len(self.files) * self.size
        if self.journal_position + together > JOURNAL_BYTES:
            self.journal_position = 0
        os.pwrite(self.journal, self.bytes * len(self.files), self.journal_position)
        self.journal_position += together
        os.fdatasync(self.journal)


def written(directory: str, name: str, size: int) -> int:
    """A new file that has so many bytes, on the disk."""
    file = os.open(os.path.join(directory, name), os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(size), 0)
    os.fsync(file)
    return file


def sync_all(files: list[int]):
    for file in files:
        os.fdatasync(file)


WAYS = {
    "fdatasync, one by one": Appends.one_by_one,
    f"fdatasync, {THREADS} threads": Appends.by_threads,
    "io_uring, all at once": Appends.by_ring,
    "syncfs": Appends.by_file_system,
    "a journal": Appends.by_journal,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1024, help="for each file")
    parser.add_argument("--seconds", type=float, default=1, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default=".", help="on the disk that is asked")
    args = parser.parse_args()
    if not (1 <= args.bytes <= JOURNAL_BYTES // max(FILES) and args.seconds > 0 and args.rounds > 0):
        parser.error(f"--bytes is 1 to {JOURNAL_BYTES // max(FILES)}, and --seconds and --rounds are more than 0")
    print(f"| files | {args.bytes} bytes of each | " + " | ".join(f"{way}: ms, CPU us" for way in WAYS) + " |")
    print("|---|---|" + "---|" * len(WAYS))
    for files in FILES:
        for grows in (False, True):
            runs = {way: [] for way in WAYS}
            for _ in range(args.rounds):
                for way in WAYS:
                    with multiprocessing.Pool(1) as process:
                        runs[way].append(process.apply(measured, (args, files, grows, way)))
            cells = " | ".join(cell(runs[way]) for way in WAYS)
            print(f"| {files} | {'behind the end' if grows else 'written before'} | {cells} |", flush=True)


def measured(args: argparse.Namespace, files: int, grows: bool, way: str) -> tuple[float, float]:
    """The median of the rounds' milliseconds, and a round's microseconds of processor, a ring's threads included."""
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        appends = Appends(directory, files, args.bytes, grows)
        WAYS[way](appends)
        taken_ms, cpu_before, end = [], time.process_time(), time.monotonic() + args.seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            WAYS[way](appends)
            taken_ms.append(1e3 * (time.monotonic() - begin))
        return statistics.median(taken_ms), 1e6 * (time.process_time() - cpu_before) / len(taken_ms)


def cell(runs: list[tuple[float, float]]) -> str:
    taken_ms, cpu_us = zip(*runs, strict=True)
    spread = f"{min(taken_ms):.2f} to {max(taken_ms):.2f}"
    return f"{statistics.median(taken_ms):.2f} ({spread}), {statistics.median(cpu_us):.0f}"


if __name__ == "__main__":
    main()
