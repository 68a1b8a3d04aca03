"""The JSON that commands print, as docs/reference/json.md has it."""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
SECTION = re.compile(r"^## `logway (?P<command>[^`]+)`\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
ROW = re.compile(r"^\| `(?P<path>\.[^`]*)` \| (?P<types>[^|]+?)(?P<left_out>; left out[^|]*)? \|", re.M)
LEAVES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None), "object": dict}


@dataclass
class Shape:
    is_lines: bool
    types: dict[str, str]
    may_be_left_out: set[str]
    seen: set[str] = field(default_factory=set)

    def check(self, value, path: str = "."):
        """Fails where a value is not what is documented, or has a field more or less."""
        types = self.types[path]
        if not any(is_of(value, kind) for kind in types.split(" or ")):
            raise AssertionError(f"{path} is {value!r}, and not {types}")
        self.seen.add(path)
        if isinstance(value, list):
            elements = f"{path}[]"
            for element in value if types.startswith("array of object") else []:
                self.check_fields(element, elements)
        elif isinstance(value, dict):
            self.check_fields(value, path)

    def check_fields(self, value: dict, path: str):
        prefix = path if path.endswith(".") else f"{path}."
        documented = {name for name in self.types if name.startswith(prefix) and is_name(name[len(prefix) :])}
        printed = {f"{prefix}{name}" for name in value}
        if printed - documented:
            raise AssertionError(f"{sorted(printed - documented)} is printed and not documented")
        if documented - printed - self.may_be_left_out:
            raise AssertionError(f"{sorted(documented - printed)} is documented and not printed")
        for name, inner in value.items():
            self.check(inner, f"{prefix}{name}")


def is_name(text: str) -> bool:
    return bool(text) and not re.search(r"[.\[]", text)


def is_of(value, kind: str) -> bool:
    if kind.startswith("array of "):
        return isinstance(value, list) and all(is_of(element, kind.removeprefix("array of ")) for element in value)
    if kind.startswith("`"):
        return value == kind.strip("`")
    return isinstance(value, LEAVES[kind]) and (isinstance(value, bool) <= (kind == "boolean"))


@cache
def documented() -> dict[str, Shape]:
    """What is documented, by command."""
    shapes = {}
    for section in SECTION.finditer(PAGE.read_text()):
        rows = list(ROW.finditer(section["text"]))
        shapes[section["command"]] = Shape(
            section["text"].strip().startswith("A document a line"),
            {row["path"]: row["types"] for row in rows},
            {row["path"] for row in rows if row["left_out"]},
        )
    return shapes


def command_of(arguments) -> str | None:
    """The section for a command line."""
    words = list(arguments)
    if "json" not in words or words[words.index("json") - 1] != "--format":
        return None
    named = (" ".join(words[:count]) for count in (3, 2))
    command = next((name for name in named if name in documented()), words[0])
    for option in ["--records", "--watch"]:
        if any(word.split("=")[0] == option for word in words):
            command = f"{command} {option}"
    return command


def unseen(command: str) -> set[str]:
    """The fields that are documented and were not printed in this process."""
    shape = documented()[command]
    return {path for path in shape.types if path not in shape.seen}


def check(arguments, stdout: bytes):
    """Holds what a command printed against the page."""
    command = command_of(arguments)
    if command is None or not stdout:
        return
    if command not in documented():
        raise AssertionError(f"what {command!r} prints as JSON is not documented")
    shape = documented()[command]
    documents = stdout.splitlines() if shape.is_lines else [stdout]
    for document in documents:
        shape.check(json.loads(document))
