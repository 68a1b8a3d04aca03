"""CBOR (RFC 8949) as AWS's clients speak it: written with any lengths, read as far as answers need it."""

import struct


class Raw(bytes):
    """Bytes that stand in a document as they are."""


class Time(float):
    """Seconds; in CBOR a tag and milliseconds."""


def head(major: int, number: int) -> bytes:
    for info, form, most in ((24, ">B", 0xFF), (25, ">H", 0xFFFF), (26, ">I", 0xFFFFFFFF)):
        if number < 24:
            return bytes([major << 5 | number])
        if number <= most:
            return bytes([major << 5 | info]) + struct.pack(form, number)
    return bytes([major << 5 | 27]) + struct.pack(">Q", number & (1 << 64) - 1)


def encode(value, is_indefinite=lambda: False) -> bytes:
    """`is_indefinite` says of each map and list whether its end is marked, as Java does it."""
    match value:
        case Raw():
            return bytes(value)
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case Time():
            return b"\xc1" + encode(int(value * 1_000))
        case int():
            return head(0, value) if value >= 0 else head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case str():
            encoded = value.encode(errors="replace")
            return head(3, len(encoded)) + encoded
        case bytes():
            return head(2, len(value)) + value
        case dict():
            items = b"".join(encode(str(key)) + encode(it, is_indefinite) for key, it in value.items())
            return b"\xbf" + items + b"\xff" if is_indefinite() else head(5, len(value)) + items
        case list():
            items = b"".join(encode(it, is_indefinite) for it in value)
            return b"\x9f" + items + b"\xff" if is_indefinite() else head(4, len(value)) + items
    raise TypeError(type(value))


def decode(encoded: bytes):
    """The one value that is there; fails if there is more or less."""
    value, end = _decode(encoded, 0)
    if end != len(encoded):
        raise ValueError(f"{len(encoded) - end} bytes behind the value")
    return value


BREAK = object()


def _decode(encoded: bytes, at: int):
    major, info = encoded[at] >> 5, encoded[at] & 31
    at += 1
    if info == 31:
        return (BREAK, at) if major == 7 else _decode_until_break(major, encoded, at)
    number = info
    if info >= 24:
        size = 1 << info - 24
        if major == 7 and size == 8:
            return struct.unpack_from(">d", encoded, at)[0], at + 8
        number, at = int.from_bytes(encoded[at : at + size], "big"), at + size
    match major:
        case 0:
            return number, at
        case 1:
            return -1 - number, at
        case 2 | 3:
            raw = encoded[at : at + number]
            if len(raw) != number:
                raise ValueError("it is cut")
            return (raw if major == 2 else raw.decode()), at + number
        case 4 | 5:
            items = []
            for _ in range(number * (major - 3)):
                item, at = _decode(encoded, at)
                items.append(item)
            return (items if major == 4 else dict(zip(items[::2], items[1::2]))), at
        case 6:
            return _decode(encoded, at)
    return {20: False, 21: True}.get(number), at


def _decode_until_break(major: int, encoded: bytes, at: int):
    items = []
    while True:
        item, at = _decode(encoded, at)
        if item is BREAK:
            break
        items.append(item)
    if major == 4:
        return items, at
    if major == 5:
        return dict(zip(items[::2], items[1::2])), at
    return (b"" if major == 2 else "").join(items), at
