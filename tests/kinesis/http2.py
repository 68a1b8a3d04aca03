"""HTTP/2 by prior knowledge (RFC 9113): requests as frames, frames that no client sends, and what a server may answer."""

import random
import struct
from dataclasses import dataclass, replace

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
PAYLOAD_BYTES_MAX = 16_384
# What a server may send at most where nothing else was agreed upon.
ANSWER_BYTES_MAX = 16_384
NUMBERS = [0, 1, 2, 3, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]


@dataclass
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes

    def encode(self) -> bytes:
        return len(self.payload).to_bytes(3, "big") + bytes([self.kind, self.flags]) + struct.pack(">I", self.stream) + self.payload


def request_frames(stream: int, path: str, authority: str, headers: list[tuple[str, str]], body: bytes) -> list[Frame]:
    pseudo = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", authority)]
    own = [(name.lower(), value) for name, value in headers if name.lower() not in ("host", "transfer-encoding")]
    # None of them goes into the table of HPACK.
    block = b"".join(b"\0" + literal(name) + literal(value) for name, value in pseudo + own)
    parts = [body[at : at + PAYLOAD_BYTES_MAX] for at in range(0, len(body), PAYLOAD_BYTES_MAX)]
    frames = [Frame(HEADERS, END_HEADERS | (0 if parts else END_STREAM), stream, block)]
    frames += [Frame(DATA, 0, stream, part) for part in parts]
    if parts:
        frames[-1].flags |= END_STREAM
    return frames


def literal(text: str) -> bytes:
    """A string of HPACK, as it is; its length is a number of 7 bits and more."""
    raw = text.encode("utf-8", "replace")
    if len(raw) < 127:
        return bytes([len(raw)]) + raw
    encoded, rest = bytearray([127]), len(raw) - 127
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    return bytes(encoded) + bytes([rest]) + raw


def settings(chance: random.Random, is_odd: bool) -> Frame:
    pairs = [(chance.randrange(12), chance.choice(NUMBERS)) for _ in range(chance.choice([1, 5, 300]))] if is_odd else []
    return Frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def odd_frames(chance: random.Random) -> list[Frame]:
    stream = chance.choice([0, 1, 2, 3, 5, 0x7FFFFFFF])
    word = struct.pack(">I", chance.choice(NUMBERS))
    count = chance.choice([1, 1, 3, 200])
    return chance.choice([
        lambda: [settings(chance, True) for _ in range(count)],
        lambda: [Frame(PING, 0, 0, b"12345678")] * count,
        lambda: [Frame(RST_STREAM, 0, stream, word)] * count,
        lambda: [Frame(WINDOW_UPDATE, 0, stream, word)] * count,
        lambda: [Frame(PRIORITY, 0, stream, word + b"\x10")] * count,
        lambda: [Frame(CONTINUATION, chance.choice([0, END_HEADERS]), stream, chance.randbytes(20))] * count,
        lambda: [Frame(HEADERS, 0, stream or 1, literal("a"))] + [Frame(CONTINUATION, 0, stream or 1, b"\0\1a\1b" * 1_000)] * count,
        lambda: [Frame(HEADERS, chance.randrange(64), stream, chance.randbytes(chance.choice([0, 5, 500])))],
        # A table of HPACK that grows, and then what refers to it again and again.
        lambda: [Frame(HEADERS, 5, stream | 1, b"\x40" + literal("a") + literal("x" * 3_000) + b"\xbe" * 8_000)],
        lambda: [Frame(GOAWAY, 0, 0, word + word)],
        lambda: [Frame(PUSH_PROMISE, END_HEADERS, stream, word)],
        lambda: [Frame(chance.randrange(256), chance.randrange(256), stream, chance.randbytes(30))] * count,
        lambda: [request for number in range(1, 2 * count, 2)
                 for request in (Frame(HEADERS, 5, number, b"\x83\x86\x84"), Frame(RST_STREAM, 0, number, b"\0\0\0\x08"))],
    ])()


def mutated(frames: list[Frame], chance: random.Random) -> list[Frame]:
    """Frames that are damaged, repeated, swapped, left out, or among others; in most sessions only a few of them."""
    frames = list(frames)
    for _ in range(chance.choice([0, 0, 1, 1, 2, 6])):
        at, other = (chance.randrange(len(frames)) for _ in range(2))
        match chance.randrange(8):
            case 0:
                frames[at:at] = odd_frames(chance)
            case 1:
                frames[at], frames[other] = frames[other], frames[at]
            case 2 if len(frames) > 1:
                del frames[at]
            case 3:
                frames[at:at] = [frames[at]] * chance.choice([1, 5, 100])
            case 4:
                frames[at] = replace(frames[at], flags=chance.randrange(256))
            case 5:
                frames[at] = replace(frames[at], stream=chance.choice([0, 1, 2, 3, 7, 0x7FFFFFFF, 0xFFFFFFFF]))
            case 6:
                payload = bytearray(frames[at].payload)
                for _ in range(chance.choice([1, 3]) if payload else 0):
                    payload[chance.randrange(len(payload))] = chance.randrange(256)
                frames[at] = replace(frames[at], payload=bytes(payload))
            case _:
                frames[at] = replace(frames[at], payload=frames[at].payload[: chance.randrange(len(frames[at].payload) + 1)])
    return frames


def session(requests: list[tuple[str, list[tuple[str, str]], bytes]], authority: str, chance: random.Random) -> bytes:
    """What is sent on one connection: some requests, mixed and mutated."""
    streams = [request_frames(2 * number + 1, path, authority, headers, body) for number, (path, headers, body) in enumerate(requests)]
    frames = [settings(chance, chance.random() < 0.1)]
    while streams:
        # Streams begin in their order, and go on side by side.
        begun = [stream for stream in streams if stream[0].kind == DATA]
        one = chance.choice(begun) if begun and chance.random() < 0.5 else next((it for it in streams if it[0].kind == HEADERS), streams[0])
        frames.append(one.pop(0))
        streams = [stream for stream in streams if stream]
    return PREFACE + b"".join(frame.encode() for frame in mutated(frames, chance))


def take_frames(received: bytes) -> tuple[list[Frame], bytes]:
    """The whole frames, and what is behind them. ValueError: a server does not send such a frame."""
    frames = []
    while len(received) >= 9:
        length = int.from_bytes(received[:3], "big")
        kind, flags, stream = received[3], received[4], struct.unpack_from(">I", received, 5)[0]
        if length > ANSWER_BYTES_MAX or kind > CONTINUATION or kind == PUSH_PROMISE:
            raise ValueError(f"a frame of kind {kind} and {length} bytes")
        if len(received) < 9 + length:
            break
        frames.append(Frame(kind, flags, stream, received[9 : 9 + length]))
        received = received[9 + length :]
    return frames, received
