"""What the suite of a client says about itself and its cases; the lines are described in tests/clients/cases.toml."""

import re
import tomllib
from dataclasses import dataclass, field

from harness.broker import TESTS

CASES = TESTS / "clients" / "cases.toml"
CLIENT_LINE = re.compile(r"^client (\S+) (\S+)$", re.MULTILINE)
CASE_LINE = re.compile(r"^case (\S+) (?:(pass)\b.*|(fail|skip): (.*))$", re.MULTILINE)


@dataclass
class CaseOutcome:
    """`outcome` is "pass", "fail" or "skip"; a pass needs no reason."""

    outcome: str
    reason: str = ""


@dataclass
class ClientReport:
    name: str
    version: str
    cases: dict[str, CaseOutcome] = field(default_factory=dict)


def read_cases() -> list[dict]:
    """The table of cases, in its order."""
    return tomllib.loads(CASES.read_text())["case"]


def read_client_report(printed: str) -> tuple[ClientReport | None, list[str]]:
    """The report in a suite's output and what is wrong with it; None if it is not the suite of a client."""
    client = CLIENT_LINE.search(printed)
    if not client:
        return None, []
    report, faults = ClientReport(*client.groups()), []
    wanted = [case["id"] for case in read_cases()]
    for id, passed, other, reason in CASE_LINE.findall(printed):
        if id not in wanted:
            faults.append(f"case {id} is not in {CASES.name}")
        elif id in report.cases:
            faults.append(f"case {id} is reported twice")
        else:
            report.cases[id] = CaseOutcome(passed or other, reason.strip())
    faults += [f"case {id} is not reported" for id in wanted if id not in report.cases]
    return report, faults
