import contextlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
import unittest

from attacked import MEBIBYTE, POLITE_REQUESTS, Attacked
from secure import SecureLogway

from harness.protocol import SASL_AUTHENTICATE, Connection, data, parse_address

HALF_OPEN = 10_000
# What TLS needs before it knows anything of a client.
HALF_OPEN_BYTES_MAX = 32 << 10
# How long a TLS handshake may take, and a client may say who it is.
PATIENCE_S = 10
DEADLINE_S = 60
FRAME_BYTES_MAX = 16 << 10
USER = "alice"


@unittest.skipIf(os.environ["AGAINST"] != "logway", "listeners are given as Logway takes them")
class Floods(Attacked):
    """Strangers at listeners with TLS and SASL, beside a polite producer at another."""

    def setUp(self):
        broker = self.enterContext(SecureLogway("hostile-floods"))
        broker.add_user(USER)
        self.watch(broker, broker.addresses["PLAINTEXT"])

    def test_ten_thousand_half_open_tls_connections(self):
        """Some say nothing, others break off in the middle of their first message, and 200 send it a byte at a time. All
        are closed in their time."""
        began = time.monotonic()
        connections = self.connect(self.broker.addresses["SSL"], HALF_OPEN, DEADLINE_S)
        hello = client_hello()
        slow, silent = connections[:200], connections[200:]
        for connection in silent[::2]:
            connection.socket.sendall(hello[: len(hello) // 2])
        rest = iter(hello)

        def one_byte_each():
            byte = bytes([next(rest, 0)])
            for connection in slow:
                with contextlib.suppress(ConnectionError):
                    connection.socket.send(byte)

        self.attack(one_byte_each, growth_bytes_max=HALF_OPEN * HALF_OPEN_BYTES_MAX)
        for connection in connections:
            self.assertTrue(connection.is_closed_by_peer(DEADLINE_S))
        self.assertGreater(time.monotonic() - began, PATIENCE_S)

    def test_handshakes_as_fast_as_they_come(self):
        """Two processes shake hands and leave, again and again."""
        command = [sys.executable, __file__, self.broker.addresses["SSL"]]
        flood = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            for process in flood:
                self.assertEqual(process.stdout.readline(), "shaken\n")
            self.attack(lambda: None)
        finally:
            for process in flood:
                process.terminate()
        shaken = sum(int(process.communicate()[0]) for process in flood)
        print(f"{shaken} handshakes", flush=True)
        self.assertGreater(shaken, POLITE_REQUESTS / 10)

    def test_wrong_passwords_as_fast_as_they_come(self):
        """Each password has to be hashed, and is as long as a stranger's frame can be. Who knows his own gets in beside."""
        address = self.broker.addresses["SASL_PLAINTEXT"]
        token = f"\0{USER}\0".encode() + b"x" * (FRAME_BYTES_MAX - 100)
        open_connections = [guess(address, token) for _ in range(200)]
        guesses = []

        def guess_again():
            for place, connection in enumerate(open_connections):
                if has_ended(connection):
                    connection.close()
                    open_connections[place] = guess(address, token)
                    guesses.append(place)

        try:
            self.attack(guess_again)
            began = time.monotonic()
            self.broker.logway("topic", "list", user=USER, listener="SASL_PLAINTEXT")
            print(f"{len(guesses)} guesses; the user was let in after {time.monotonic() - began:.1f} s", flush=True)
            self.assertGreater(len(guesses), 0)
        finally:
            for connection in open_connections:
                connection.close()

    def test_tokens_that_are_too_large(self):
        """Announced, or in the client's nonce, which is repeated to it."""
        address = self.broker.addresses["SASL_PLAINTEXT"]
        for connection in self.connect(address, 100, DEADLINE_S):
            connection.socket.sendall(struct.pack(">i", 100 * MEBIBYTE))
            self.assertTrue(connection.is_closed_by_peer(DEADLINE_S))

        def nonce_again():
            with choose(address, "SCRAM-SHA-256") as connection:
                token = f"n,,n={USER},r={'r' * (FRAME_BYTES_MAX - 200)}".encode()
                answer = connection.request(SASL_AUTHENTICATE, 0, data(token))
                self.assertEqual(struct.unpack_from(">h", answer), (58,))

        self.attack(nonce_again)


def choose(bootstrap: str, mechanism: str) -> Connection:
    """A connection whose client has chosen a mechanism."""
    connection = Connection(bootstrap, DEADLINE_S)
    connection.choose_mechanism(mechanism)
    return connection


def guess(bootstrap: str, token: bytes) -> Connection:
    """A connection that has sent a token by PLAIN, and does not wait."""
    connection = choose(bootstrap, "PLAIN")
    connection.send(SASL_AUTHENTICATE, 0, data(token))
    connection.socket.setblocking(False)
    return connection


def has_ended(connection: Connection) -> bool:
    """Whether the broker has closed, behind its answer."""
    try:
        while connection.socket.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def client_hello() -> bytes:
    """The first message of a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def shake_hands_until_told(bootstrap: str):
    """Prints a line after the first handshake, and how many there were when it is told to stop."""
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    shaken = 0
    while not stopped:
        with socket.create_connection(parse_address(bootstrap), DEADLINE_S) as plain, context.wrap_socket(plain):
            shaken += 1
        if shaken == 1:
            print("shaken", flush=True)
    print(shaken)


if __name__ == "__main__":
    shake_hands_until_told(sys.argv[1])
