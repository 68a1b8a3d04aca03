"""What differs between two answers, and which of these differences are accepted: those in differences.toml."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from conformance.side import Key, shown

LIST = Path(__file__).parent / "differences.toml"
# To requests of a user who may do nothing.
LIST_OF_STRANGERS = LIST.with_stem("differences_of_strangers")
ABSENT, PRESENT = "absent", "present"
# How the names of the requests begin that only a long run asks.
LONG_ONLY = "odd.random_arguments"
# Lists in which it matters for a reason which element differs; of others it is only said that one does.
NAMED = {"Configs", "ApiKeys", "SupportedFeatures", "FinalizedFeatures", "Synonyms"}


@dataclass(frozen=True)
class Difference:
    key: Key
    path: str
    kafka: str
    logway: str


@dataclass
class Accepted:
    """An entry of the list: one reason, for all the requests, paths and values that it names.

    `*` in any of them stands for anything. `versions` are None where it is about all of them.
    """

    api: str
    requests: list[str]
    versions: range | None
    paths: list[str]
    kafka: str
    logway: str
    reason: str
    # What of its requests, versions and paths has occurred.
    seen: set[str | int] = field(default_factory=set)

    def takes(self, found: Difference) -> bool:
        if not fits(self.api, found.key.api) or (self.versions and found.key.version not in self.versions):
            return False
        if not (fits(self.kafka, found.kafka) and fits(self.logway, found.logway)):
            return False
        paths = [path for path in self.paths if fits(path, found.path)]
        requests = [request for request in self.requests if fits(request, found.key.request)]
        if not paths or not requests:
            return False
        self.seen.update(paths, requests, [found.key.version])
        return True

    def stale(self) -> list[str]:
        """What of it does not occur, but for what only a long run asks."""
        requests = [request for request in self.requests if not request.startswith(LONG_ONLY)]
        if not requests:
            return []
        named = [*(self.versions or ()), *self.paths, *requests]
        return [f"version {one}" if isinstance(one, int) else one for one in named if one not in self.seen]

    def __str__(self) -> str:
        return f"{self.api}: {self.reason} (Kafka: {self.kafka}, Logway: {self.logway})"


def fits(pattern: str, text: str) -> bool:
    if "*" not in pattern:
        return pattern == text
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text, re.DOTALL) is not None


def read_list(path: Path = LIST) -> list[Accepted]:
    entries = tomllib.loads(path.read_text()).get("difference", [])
    return [accepted(entry) for entry in entries]


def accepted(entry: dict) -> Accepted:
    versions = None
    if "versions" in entry:
        first, _, last = entry["versions"].partition("-")
        versions = range(int(first), int(last or first) + 1)
    requests, paths = (listed(entry.get(name, "*")) for name in ("requests", "paths"))
    return Accepted(entry["api"], requests, versions, paths, entry["kafka"], entry["logway"], entry["reason"])


def listed(one_or_more: str | list[str]) -> list[str]:
    return [one_or_more] if isinstance(one_or_more, str) else one_or_more


def compare(key: Key, kafka: dict, logway: dict) -> list[Difference]:
    """Field by field; where one lacks a whole branch, that is one difference."""
    found = []

    def walk(path: str, ours: object, theirs: object):
        if isinstance(ours, dict) and isinstance(theirs, dict):
            for name in [*theirs, *(name for name in ours if name not in theirs)]:
                inner = f"{path}{name}" if name.startswith("[") or not path else f"{path}.{name}"
                if name not in ours:
                    found.append(Difference(key, inner, side_of(theirs[name]), ABSENT))
                elif name not in theirs:
                    found.append(Difference(key, inner, ABSENT, side_of(ours[name])))
                else:
                    walk(inner, ours[name], theirs[name])
        elif type(ours) is not type(theirs) or ours != theirs:
            found.append(Difference(key, path, side_of(theirs), side_of(ours)))

    if kafka["(outcome)"] != logway["(outcome)"]:
        # Nothing else of it can be compared.
        return [Difference(key, "(outcome)", kafka["(outcome)"], logway["(outcome)"])]
    walk("", logway, kafka)
    return found


def side_of(value: object) -> str:
    return PRESENT if isinstance(value, dict) else shown(value)


def grouped(found: list[Difference]) -> list[tuple[tuple, list[Difference]]]:
    """Those that are alike together: of one API, field and pair of values."""
    alike: dict[tuple, list[Difference]] = {}
    for one in found:
        alike.setdefault((one.key.api, generic(one.path), one.kafka, one.logway), []).append(one)
    return sorted(alike.items())


def proposals(found: list[Difference]) -> list[str]:
    """New differences as entries of the list."""
    return [entry(*about, of_it) for about, of_it in grouped(found)]


def summary(found: list[Difference]) -> list[str]:
    """New differences, a line for those that are alike."""
    lines = []
    for (_, path, kafka, logway), of_it in grouped(found):
        versions = sorted({one.key.version for one in of_it})
        requests = sorted({one.key.request for one in of_it})
        about = f"{path}: Kafka {kafka[:80]}, Logway {logway[:80]}"
        lines.append(f"v{versions[0]}-{versions[-1]} {about}: {len(requests)} requests: {'; '.join(requests)[:300]}")
    return lines


def generic(path: str) -> str:
    return re.sub(r"(\w+)\[([^\]]*)\]", lambda at: at[0] if at[1] in NAMED else f"{at[1]}[*]", path)


def entry(api: str, path: str, kafka: str, logway: str, found: list[Difference]) -> str:
    requests = sorted({one.key.request for one in found})
    versions = sorted({one.key.version for one in found})
    listed = "[\n" + "".join(f"  {quoted(request)},\n" for request in requests) + "]"
    return "\n".join(
        [
            "[[difference]]",
            f"api = {quoted(api)}",
            f"requests = {quoted(requests[0]) if len(requests) == 1 else listed}",
            f'versions = "{versions[0]}-{versions[-1]}"',
            f"paths = {quoted(path)}",
            f"kafka = {quoted(kafka)}",
            f"logway = {quoted(logway)}",
            'reason = ""',
            "",
        ]
    )


def quoted(text: str) -> str:
    if "'" not in text and "\n" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
