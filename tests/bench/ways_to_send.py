"""What it takes to send a file's bytes that are in memory, by the way and the size of an answer.

A client asks for an answer, throws it away and asks for the next; the server is this process, with one thread and
blocking sockets. What brokers add is not in it.

    python3 tests/bench/ways_to_send.py [--seconds 1] [--rounds 3]
"""

import argparse
import errno
import fcntl
import mmap
import os
import socket
import statistics
import tempfile
import time

FILE_BYTES = 256 << 20
SIZES = [4 << 10, 16 << 10, 64 << 10, 1 << 20, 8 << 20]
COPY_BYTES = 64 << 10
PIPE_BYTES = 1 << 20

# Not in the socket module: linux/tcp.h, asm-generic/socket.h.
SO_ZEROCOPY = 60
MSG_ZEROCOPY = 0x4000000


class Source:
    """A file that is in the page cache, and what the ways need besides."""

    def __init__(self, directory):
        self.file = os.open(os.path.join(directory, "file"), os.O_RDWR | os.O_CREAT)
        for position in range(0, FILE_BYTES, PIPE_BYTES):
            os.pwrite(self.file, os.urandom(PIPE_BYTES), position)
        self.mapped = memoryview(mmap.mmap(self.file, FILE_BYTES, prot=mmap.PROT_READ))
        self.pipe = os.pipe()
        fcntl.fcntl(self.pipe[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.buffer = bytearray(COPY_BYTES)


def by_sendfile(connection, source, position, size):
    end = position + size
    while position < end:
        position += os.sendfile(connection.fileno(), source.file, position, end - position)


def by_splice(connection, source, position, size):
    end = position + size
    while position < end:
        piped = os.splice(source.file, source.pipe[1], min(PIPE_BYTES, end - position), offset_src=position)
        position += piped
        while piped:
            piped -= os.splice(source.pipe[0], connection.fileno(), piped)


def by_copy(connection, source, position, size):
    end = position + size
    while position < end:
        piece = memoryview(source.buffer)[: min(COPY_BYTES, end - position)]
        position += os.preadv(source.file, [piece], position)
        connection.sendall(piece)


def by_zerocopy(connection, source, position, size):
    end = position + size
    while position < end:
        try:
            position += connection.send(source.mapped[position:end], MSG_ZEROCOPY)
        except OSError as error:
            # Too many of them are under way.
            if error.errno != errno.ENOBUFS:
                raise
        try:
            while connection.recvmsg(0, 256, socket.MSG_ERRQUEUE):
                pass
        except BlockingIOError:
            pass


WAYS = {"sendfile": by_sendfile, "splice": by_splice, "pread and send": by_copy, "MSG_ZEROCOPY": by_zerocopy}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as directory:
        source = Source(directory)
        runs = {(size, way): [] for size in SIZES for way in WAYS}
        for _ in range(args.rounds):
            for size, way in runs:
                runs[size, way].append(measured(source, WAYS[way], size, args.seconds))
    print("| answers of |", " | ".join(f"{way}: GB/s, CPU s a GB" for way in WAYS), "|")
    print("|---|" + "---|" * len(WAYS))
    for size in SIZES:
        print(f"| {size >> 10} KiB |", " | ".join(described(runs[size, way]) for way in WAYS), "|")


def described(runs):
    rate, cpu = (statistics.median(values) for values in zip(*runs))
    return f"{rate:.2f}, {cpu:.3f}"


def measured(source, way, size, seconds):
    """GB/s and processor seconds a GB of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = os.fork()
        if client == 0:
            ask(listener.getsockname(), size)
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        position = sent = 0
        begun, cpu_before = time.monotonic(), time.process_time()
        while time.monotonic() - begun < seconds:
            connection.recv(1)
            if position + size > FILE_BYTES:
                position = 0
            way(connection, source, position, size)
            position += size
            sent += size
        took, cpu = time.monotonic() - begun, time.process_time() - cpu_before
    os.waitpid(client, 0)
    return sent / took / 1e9, cpu / sent * 1e9


def ask(address, size):
    """The client's process, until it is sent nothing more."""
    buffer = bytearray(1 << 20)
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                connection.send(b"?")
                missing = size
                while missing:
                    received = connection.recv_into(buffer, min(missing, len(buffer)))
                    if received == 0:
                        os._exit(0)
                    missing -= received
        except ConnectionError:
            os._exit(0)


if __name__ == "__main__":
    main()
