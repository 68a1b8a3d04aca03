"""Kafka's messages by their definitions: values to bytes, bytes to values, at any version.

The definitions are the JSON files inside the `kafka-clients` jar. A message is a dict by the definitions' own field
names; what a request leaves out has its default. The encoder refuses what no definition has, and nothing else: what
Kafka's own client would refuse to send is what these tests are for.
"""

import json
import struct
import uuid
import zipfile
from functools import cache
from pathlib import Path

NO_ID = uuid.UUID(int=0)

NUMBERS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


class Versions:
    """A range of versions as the definitions spell it: `3`, `3-5`, `3+` or `none`."""

    def __init__(self, text: str):
        self.first, self.last = 1, 0
        if text.endswith("+"):
            self.first, self.last = int(text[:-1]), 1 << 15
        elif text != "none":
            self.first, self.last = (int(end) for end in (text.split("-") * 2)[:2])

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class Field:
    """One field of a struct."""

    def __init__(self, definition: dict, structs: dict[str, list]):
        self.name = definition["name"]
        self.type = definition["type"]
        self.is_array = self.type.startswith("[]")
        self.element = self.type.removeprefix("[]")
        self.versions = Versions(definition.get("versions", "0+"))
        self.nullable = Versions(definition.get("nullableVersions", "none"))
        self.tagged = Versions(definition.get("taggedVersions", "none"))
        self.tag = definition.get("tag")
        self.is_key = definition.get("mapKey", False)
        self.fields: list[Field] | None = None
        if self.element not in NUMBERS and self.element not in ("string", "bytes", "records", "uuid"):
            inner = definition.get("fields") or structs[self.element]
            self.fields = [Field(field, structs) for field in inner]
        self._default = definition.get("default")

    def default(self) -> object:
        if self._default == "null":
            return None
        if self.is_array:
            return []
        if self.fields is not None:
            return {}
        if self.element == "bool":
            return str(self._default).lower() == "true"
        if self.element == "float64":
            return float(self._default or 0)
        if self.element in NUMBERS:
            return int(str(self._default or 0), 0)
        return {"string": self._default or "", "uuid": NO_ID}.get(self.element, b"")


class Message:
    """A request or a response."""

    def __init__(self, definition: dict):
        structs = {common["name"]: common["fields"] for common in definition.get("commonStructs", [])}
        self.name = definition["name"]
        self.api_key = definition["apiKey"]
        self.versions = Versions(definition["validVersions"])
        if definition.get("latestVersionUnstable"):
            self.versions.last -= 1
        self.flexible = Versions(definition["flexibleVersions"])
        self.fields = [Field(field, structs) for field in definition["fields"]]

    def encode(self, values: dict, version: int) -> bytes:
        return Encoder(version, version in self.flexible).struct(self.fields, values, self.name)

    def decode(self, raw: bytes, version: int) -> dict:
        decoder = Decoder(raw, version, version in self.flexible)
        values = decoder.struct(self.fields)
        if decoder.position != len(raw):
            raise ValueError(f"{self.name} version {version}: {len(raw) - decoder.position} bytes are left over")
        return values


class Encoder:
    def __init__(self, version: int, is_flexible: bool):
        self._version, self._is_flexible = version, is_flexible

    def struct(self, fields: list[Field], values: dict, path: str) -> bytes:
        unknown = set(values) - {field.name for field in fields}
        if unknown:
            raise KeyError(f"{path} has no {', '.join(sorted(unknown))}")
        body, tags = bytearray(), []
        for field in fields:
            if self._version not in field.versions:
                continue
            value = values.get(field.name, field.default())
            if self._version in field.tagged:
                if value != field.default():
                    tags.append((field.tag, self._value(field, value, path)))
            else:
                body += self._value(field, value, path)
        if self._is_flexible:
            body += unsigned_varint(len(tags))
            for tag, raw in sorted(tags):
                body += unsigned_varint(tag) + unsigned_varint(len(raw)) + raw
        return bytes(body)

    def _value(self, field: Field, value: object, path: str) -> bytes:
        path = f"{path}.{field.name}"
        if not field.is_array:
            return self._one(field, value, path)
        if value is None:
            return self._length(None, ">i")
        return self._length(len(value), ">i") + b"".join(self._one(field, item, path, False) for item in value)

    def _one(self, field: Field, value: object, path: str, may_be_null: bool = True) -> bytes:
        if field.fields is not None:
            if may_be_null and self._version in field.nullable and self._version not in field.tagged:
                if value is None:
                    return b"\xff"
                return b"\1" + self.struct(field.fields, value, path)
            return self.struct(field.fields, value or {}, path)
        if field.element in NUMBERS:
            return struct.pack(NUMBERS[field.element], value)
        if field.element == "uuid":
            return value.bytes
        raw = value.encode() if isinstance(value, str) else value
        length = self._length(None if raw is None else len(raw), ">h" if field.element == "string" else ">i")
        return length + (raw or b"")

    def _length(self, length: int | None, fixed: str) -> bytes:
        if self._is_flexible:
            return unsigned_varint(0 if length is None else length + 1)
        return struct.pack(fixed, -1 if length is None else length)


class Decoder:
    def __init__(self, raw: bytes, version: int, is_flexible: bool):
        self._raw, self._version, self._is_flexible = raw, version, is_flexible
        self.position = 0

    def struct(self, fields: list[Field]) -> dict:
        values, tagged = {}, {}
        for field in fields:
            if self._version not in field.versions:
                continue
            if self._version in field.tagged:
                tagged[field.tag] = field
                values[field.name] = "not said"
            else:
                values[field.name] = self._value(field)
        if self._is_flexible:
            for _ in range(self._varint()):
                tag, length = self._varint(), self._varint()
                end = self.position + length
                if tag in tagged:
                    values[tagged[tag].name] = self._value(tagged[tag])
                else:
                    values[f"tag {tag}"] = self._take(length)
                if self.position != end:
                    raise ValueError(f"tag {tag} does not end where it says")
        return values

    def _value(self, field: Field) -> object:
        if not field.is_array:
            return self._one(field)
        count = self._length(">i")
        return None if count is None else [self._one(field, False) for _ in range(count)]

    def _one(self, field: Field, may_be_null: bool = True) -> object:
        if field.fields is not None:
            if may_be_null and self._version in field.nullable and self._version not in field.tagged:
                if self._take(1) == b"\xff":
                    return None
            return self.struct(field.fields)
        if field.element in NUMBERS:
            kind = NUMBERS[field.element]
            return struct.unpack(kind, self._take(struct.calcsize(kind)))[0]
        if field.element == "uuid":
            return uuid.UUID(bytes=self._take(16))
        length = self._length(">h" if field.element == "string" else ">i")
        raw = None if length is None else self._take(length)
        return raw.decode() if field.element == "string" and raw is not None else raw

    def _length(self, fixed: str) -> int | None:
        if self._is_flexible:
            length = self._varint() - 1
        else:
            length = struct.unpack(fixed, self._take(struct.calcsize(fixed)))[0]
        return None if length < 0 else length

    def _take(self, count: int) -> bytes:
        if self.position + count > len(self._raw):
            raise ValueError(f"{count} bytes at {self.position} of {len(self._raw)}")
        self.position += count
        return self._raw[self.position - count : self.position]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def unsigned_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


class Protocol:
    """All the messages of one release of Kafka."""

    def __init__(self, libs: str):
        """`libs` is the directory with Kafka's jars."""
        self.requests: dict[str, Message] = {}
        self.responses: dict[str, Message] = {}
        (jar,) = Path(libs).glob("kafka-clients-*.jar")
        with zipfile.ZipFile(jar) as files:
            for name in files.namelist():
                if name.startswith("common/message/") and name.endswith(("Request.json", "Response.json")):
                    self._add(name, files.read(name).decode())
        self.names = {message.api_key: name for name, message in self.requests.items()}

    def _add(self, name: str, text: str):
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
        definition = json.loads("\n".join(lines))
        if definition["validVersions"] == "none":
            # Removed from the protocol.
            return
        message = Message(definition)
        kind = self.requests if message.name.endswith("Request") else self.responses
        kind[message.name.removesuffix("Request").removesuffix("Response")] = message


@cache
def protocol(libs: str) -> Protocol:
    return Protocol(libs)
