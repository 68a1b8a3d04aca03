"""How requests are damaged: in what they say, in their bytes, in their heads, in their signatures, and in how HTTP frames them."""

import copy
import gzip
import hashlib
import json
import random
import time
from dataclasses import dataclass

import cbor
import http2
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from corpus import AMZ_CBOR, SERVICES, Request

# What numbers, texts and bytes are at their worst.
VALUES = [
    None, True, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308, "", "0", "\0", "x" * 5_000, "é" * 300,
    "shardId-000000000000", "shardId-99999999999999", "arn:aws:kinesis:us-east-1:000000000000:stream/hostile", b"", b"\xff" * 300,
    cbor.Time(0), cbor.Time(1e18), [], {}, [[]] * 3, [None] * 2_000, {"": ""}, {"__type": "x"}, {"S": "x"}, {"N": "1" * 200},
    {"N": "1e999999999"}, {"L": [{"N": "1"}] * 1_100}, {"SS": ["a", "a"]}, {"NULL": False},
]
JSON_PIECES = [b"1e999999", b"-", b"\"\\ud800\"", b"\"\\u0000", b"[" * 2_000, b"{\"a\":" * 500, b"nul", b"1E400", b"0" * 400, b"\xff\xfe", b"//"]
CBOR_PIECES = [
    b"\x5b" + b"\xff" * 8, b"\x7b\x7f" + b"\xff" * 7, b"\x9b\x00\x00\x00\xff\xff\xff\xff\xff", b"\xbb" + b"\xff" * 8, b"\xff", b"\x9f",
    b"\xbf", b"\x5f\x41a\x61b\xff", b"\x7f\x61a\xff", b"\xc1" * 2_000, b"\x81" * 2_000, b"\xc1\xfb\x7f\xf0" + b"\0" * 6,
    b"\xc1\xfb\x7f\xf8" + b"\0" * 6, b"\xf9\x7c\x00", b"\xf7", b"\xf8\x20", b"\x1c", b"\x62\xff\xff", b"\xa1\x81\x00\x00",
    b"\xa2\x61a\x01\x61a\x02", b"\xc1\x1b" + b"\xff" * 8,
]
HEADER_VALUES = ["", " ", "x" * 9_000, "\t", "a,b", ";" * 300, "%00", "=?", "é", "0", "-1", "99999999999999999999"]
CONTENT_TYPES = ["application/x-amz-json-1.1", "application/x-amz-json-1.0", AMZ_CBOR, "application/cbor", "application/json",
                 "application/x-www-form-urlencoded", "text/plain", ""]
PATHS = ["/", "*", "//", "/?", "/?a=b&a=c&X-Amz-Algorithm=AWS4-HMAC-SHA256", "/%00%ff", "/" + "x" * 3_000, "http://other/",
         "/service/GraniteServiceVersion20100801/operation/PutMetricData", "/service/x/operation/y", ""]
METHODS = ["GET", "PUT", "HEAD", "OPTIONS", "DELETE", "CONNECT", "TRACE", "PRI", "post", "X" * 200]
# Rightly signed, for a key that is known; the right form, which nobody checks; and wrong ones.
RIGHT, BODY_CHANGED, SECRET_WRONG = "right", "body changed", "secret wrong"
FORGED = (BODY_CHANGED, SECRET_WRONG)


@dataclass
class Sent:
    """Bytes for a connection. `is_framed`: one response is due. `is_forged`: it must not be let in where signatures are checked."""

    raw: bytes
    is_framed: bool
    is_forged: bool
    method: str = "POST"


class AddressAuth(SigV4QueryAuth):
    """A signature in the address that is about the body, which botocore takes for more of the address."""

    def __init__(self, credentials: Credentials, service: str, expires_s: int, body: bytes):
        super().__init__(credentials, service, "us-east-1", expires_s)
        self._body = body

    def payload(self, request) -> str:
        return hashlib.sha256(self._body).hexdigest()


class Mutator:
    def __init__(self, corpus: list[Request], key: dict[str, str], host: str, seed: int):
        self.corpus, self.key, self.host, self.chance = corpus, key, host, random.Random(seed)

    def session(self) -> list[Sent]:
        """Requests for one connection. Behind one that is not framed rightly nothing can follow."""
        sent = []
        for _ in range(self.chance.choice([1, 4, 16, 32])):
            sent.append(self.request())
            if not sent[-1].is_framed:
                break
        return sent

    def http2_session(self) -> bytes:
        """What is sent on one connection of HTTP/2."""
        requests = []
        for _ in range(self.chance.choice([1, 4, 16])):
            lines, path, body, _ = self.asked()
            requests.append((path, lines, body))
        return http2.session(requests, self.host, self.chance)

    def asked(self) -> tuple[list[tuple[str, str]], str, bytes, bool]:
        """The headers, the path and the body of a request, and whether it must not be let in."""
        request = copy.copy(self.chance.choice(self.corpus))
        request.headers = dict(request.headers)
        if request.document is not None:
            for _ in range(self.chance.choice([0, 0, 1, 1, 2, 4])):
                request.document = self.document(request.document)
            request.body = self.encoded(request)
        if self.chance.random() < 0.1:
            request.body = self.bytes(request.body)
        lines, path, is_forged = self.signed(request)
        if self.chance.random() < 0.15:
            for _ in range(self.chance.choice([1, 2, 5])):
                lines = self.head(lines)
            # What a head is changed to may be the right thing by chance, so nothing is said of its signature.
            is_forged = False
        return lines, path, request.body, is_forged

    def request(self) -> Sent:
        lines, path, body, is_forged = self.asked()
        method = "POST"
        if self.chance.random() < 0.02:
            method = self.chance.choice(METHODS)
        if self.chance.random() < 0.02:
            path = self.chance.choice(PATHS)
        if self.chance.random() < 0.02:
            body, lines = self.chance.choice([gzip.compress, bomb])(body), [*lines, ("Content-Encoding", "gzip")]
        raw, is_framed = self.framed(method, path, lines, body)
        if self.chance.random() < 0.01:
            raw, is_framed = self.bytes(raw), False
        return Sent(raw, is_framed, is_forged, method)

    def document(self, document):
        """One place of it is something else, away, or there twice."""
        document = copy.deepcopy(document)
        node = document
        while True:
            names = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
            if not names:
                return document
            name = self.chance.choice(names)
            inner = node[name]
            if isinstance(inner, (dict, list)) and inner and self.chance.random() < 0.7:
                node = inner
                continue
            match self.chance.randrange(5):
                case 0:
                    del node[name]
                case 1 if isinstance(node, list):
                    node.extend([inner] * self.chance.choice([1, 10, 600]))
                case 1:
                    node[f"{name}x"] = inner
                case 2 if isinstance(inner, str):
                    node[name] = self.text(inner)
                case 2 if isinstance(inner, (int, float)) and not isinstance(inner, bool):
                    node[name] = inner * self.chance.choice([-1, 0, 2, 10**6])
                case _:
                    node[name] = self.chance.choice(VALUES)
            return document

    def text(self, text: str) -> str:
        at, to = sorted(self.chance.randrange(len(text) + 1) for _ in range(2))
        return self.chance.choice([
            text[:at], text[:at] + text[to:], text + text[at:to] * 20, text[:at] + self.chance.choice("\0:/;é\"\\0Z") + text[at:],
        ])

    def encoded(self, request: Request) -> bytes:
        pieces, is_cbor = JSON_PIECES, "cbor" in request.headers["Content-Type"]
        if is_cbor:
            pieces = CBOR_PIECES
            is_indefinite = self.chance.choice([lambda: True, lambda: False, lambda: self.chance.random() < 0.5])
            if self.chance.random() < 0.06 and isinstance(request.document, dict):
                request.document = request.document | {"x": cbor.Raw(self.chance.choice(pieces))}
            body = cbor.encode(request.document, is_indefinite)
        else:
            body = json.dumps(request.document, default=lambda it: it.hex(), ensure_ascii=self.chance.random() < 0.5).encode(
                errors="surrogatepass"
            )
        if self.chance.random() < 0.06:
            at = self.chance.randrange(len(body) + 1)
            body = body[:at] + self.chance.choice(pieces) + body[at + self.chance.choice([0, 1, 10]) :]
        return body

    def bytes(self, raw: bytes) -> bytes:
        raw = bytearray(raw)
        for _ in range(self.chance.choice([1, 1, 3, 20])):
            at, to = sorted(self.chance.randrange(len(raw) + 1) for _ in range(2))
            match self.chance.randrange(6):
                case 0 if raw:
                    raw[at % len(raw)] ^= 1 << self.chance.randrange(8)
                case 1:
                    del raw[at:to]
                case 2:
                    raw[at:at] = raw[at:to][:4_096]
                case 3:
                    raw[at:at] = self.chance.choice(self.corpus).body[:200]
                case 4:
                    raw[at:at] = self.chance.randbytes(self.chance.choice([1, 8, 100]))
                case _:
                    del raw[to:]
        return bytes(raw)

    def signed(self, request: Request) -> tuple[list[tuple[str, str]], str, bool]:
        """The headers with a signature, the path, and whether it is one that must not be let in."""
        how = self.chance.choice([RIGHT, RIGHT, RIGHT, BODY_CHANGED, SECRET_WRONG])
        secret = self.key["AWS_SECRET_ACCESS_KEY"] + ("x" if how == SECRET_WRONG else "")
        # In a body that is empty nothing can be changed, and a space is.
        body = request.body + b" " if how == BODY_CHANGED else request.body
        service = self.chance.choice(SERVICES) if self.chance.random() < 0.05 else request.service
        url = f"http://{self.host}{request.path}"
        asked = AWSRequest("POST", url, headers=request.headers | {"Host": self.host}, data=body)
        credentials = Credentials(self.key["AWS_ACCESS_KEY_ID"], secret)
        in_address = self.chance.random() < 0.1
        if in_address:
            asked.data = b""
            AddressAuth(credentials, service, self.chance.choice([1, 60, 604_800]), body).add_auth(asked)
        else:
            SigV4Auth(credentials, service, "us-east-1").add_auth(asked)
        path = asked.url.removeprefix(f"http://{self.host}")
        return list(asked.headers.items()), path, how in FORGED

    def head(self, lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
        lines = list(lines)
        at = self.chance.randrange(len(lines))
        name, value = lines[at]
        match self.chance.randrange(10):
            case 0:
                del lines[at]
                return lines or [("X", "y")]
            case 1:
                lines.insert(at, (name, value))
            case 2:
                lines[at] = (name, self.chance.choice(HEADER_VALUES))
            case 3 if value:
                lines[at] = (name, self.text(value).replace("\0", "0"))
            case 4:
                lines.append(("Content-Type", self.chance.choice(CONTENT_TYPES)))
            case 5:
                target = self.chance.choice(self.corpus).headers.get("X-Amz-Target", "x.y.z")
                lines = [(name, target if name == "X-Amz-Target" else value) for name, value in lines]
            case 6:
                lines += [(f"X-{number}", "y" * self.chance.choice([0, 10])) for number in range(self.chance.choice([20, 90, 300]))]
            case 7:
                lines.append(self.chance.choice([("Origin", "http://page"), ("X-Amz-Date", "20260101T000000Z"), ("Expect", "x"),
                                                 ("X-Amz-Security-Token", "x" * 300), ("Content-Encoding", "br"), ("Host", "x")]))
            case 8:
                day = time.strftime("%Y%m%d", time.gmtime())
                credential = f"{self.key['AWS_ACCESS_KEY_ID']}/{day}/us-east-1/kinesis/aws4_request"
                names = self.chance.choice(["host", "", ";", "host;host", ";".join(f"h{it}" for it in range(2_000)), "content-type;host"])
                stated = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={'0' * self.chance.choice([0, 64, 900])}"
                lines = [(name, value) for name, value in lines if name != "Authorization"] + [("Authorization", stated)]
            case _:
                lines[at] = (self.text(name).replace("\0", "0").replace(":", "") or "X", value)
        return lines

    def framed(self, method: str, path: str, lines: list[tuple[str, str]], body: bytes) -> tuple[bytes, bool]:
        """The bytes of HTTP/1.1, and whether a server can know where they end."""
        is_framed, tail = True, body
        match self.chance.randrange(100):
            case 0:
                lines, is_framed = [*lines, ("Content-Length", str(len(body) + self.chance.choice([1, 5_000, 2**40, 2**70])))], False
            case 1:
                lines, is_framed = [*lines, ("Content-Length", str(len(body) // 2))], False
            case 2:
                lines, tail, is_framed = [*lines, ("Transfer-Encoding", "chunked")], self.bytes(chunked(body)), False
            case 3:
                both = [("Content-Length", str(len(body))), ("Transfer-Encoding", "chunked")]
                lines, tail, is_framed = lines + both, chunked(body), False
            case 4 | 5 | 6 | 7:
                lines, tail = [*lines, ("Transfer-Encoding", "chunked")], chunked(body)
            case _:
                lines = [*lines, ("Content-Length", str(len(body)))]
        version = "HTTP/1.1"
        if self.chance.random() < 0.01:
            version, is_framed = self.chance.choice(["HTTP/1.0", "HTTP/2.0", "HTTP/9", "", "http/1.1 "]), False
        text = "".join([f"{method} {path} {version}\r\n", *(f"{name}: {value}\r\n" for name, value in lines), "\r\n"])
        # Hyper refuses what is no method, path or header by ending the connection.
        is_plain = method.isupper() and path[:1] == "/" and len(path) < 2_000 and len(lines) < 90 and len(text) < 8_000
        is_known = method in ("POST", "GET", "PUT", "OPTIONS", "DELETE")
        names = [name.lower() for name, _ in lines]
        is_single = all(names.count(name) <= 1 for name in ("content-length", "host", "transfer-encoding", "expect"))
        return text.encode("utf-8", "replace") + tail, is_framed and is_plain and is_known and is_single


def chunked(body: bytes) -> bytes:
    half = len(body) // 2
    parts = [part for part in (body[:half], body[half:]) if part]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


BOMB = gzip.compress(b"\0" * (64 << 20))


def bomb(_: bytes) -> bytes:
    return BOMB
