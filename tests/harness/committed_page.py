"""What docs/COMPATIBILITY.md says, read back: compatibility.py made it, and can make it again of this."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from harness.client_report import CaseOutcome, ClientReport

OUTCOMES = {"✓": "pass", "–": "skip", "**✗**": "fail"}


@dataclass
class CommittedPage:
    """Clients by name, and how each integration went, by program."""

    text: str = ""
    clients: dict[str, ClientReport] = field(default_factory=dict)
    integrations: dict[str, str] = field(default_factory=dict)


def read_page(path: Path, cases: list[dict]) -> CommittedPage:
    """The page as it is committed; an empty one if there is none yet. Cases that it does not have are left out."""
    if not path.exists():
        return CommittedPage()
    page = CommittedPage(path.read_text())
    ids = {case["heading"]: case["id"] for case in cases}
    # The summary comes first: it names the clients.
    for heads, rows in tables(page.text):
        for row in rows:
            if heads[:2] == ["client", "version"]:
                page.clients[row[0]] = ClientReport(row[0], row[1])
            elif heads[0] == "program":
                page.integrations[row[0]] = row[-1]
            elif heads[:2] == ["client", "case"]:
                read_reason(page, ids, row)
            elif heads[0] == "client":
                read_outcomes(page, ids, heads, row)
    return page


def tables(text: str):
    """Each table of a page: its heads and its rows."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        heads, _, *rows = [cells(line) for line in block.splitlines()]
        yield heads, rows


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def read_outcomes(page: CommittedPage, ids: dict[str, str], heads: list[str], row: list[str]):
    for heading, mark in zip(heads[1:], row[1:], strict=False):
        if heading in ids and row[0] in page.clients and mark in OUTCOMES:
            page.clients[row[0]].cases[ids[heading]] = CaseOutcome(OUTCOMES[mark])


def read_reason(page: CommittedPage, ids: dict[str, str], row: list[str]):
    name, heading, *_, reason = row
    outcome = page.clients[name].cases.get(ids.get(heading, "")) if name in page.clients else None
    if outcome:
        outcome.reason = reason
