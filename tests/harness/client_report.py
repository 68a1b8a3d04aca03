"""What the suite of a client says about itself and its cases; the lines are described in tests/clients/cases.toml."""

import re
import tomllib
from dataclasses import dataclass, field

from harness.broker import TESTS

CASES = TESTS / "clients" / "cases.toml"
CLIENT_LINE = re.compile(r"^client (\S+) (\S+)$", re.MULTILINE)
CASE_LINE = re.compile(r"^case (\S+) (pass|fail|skip)(?: \([\d.]+ s\))?(?:: (.*))?$", re.MULTILINE)


@dataclass
class CaseOutcome:
    """`outcome` is "pass", "fail" or "skip"; a pass needs no reason, but may have a remark."""

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


def cases_of(suite: str, door: str | None = None) -> list[dict]:
    """What a suite reports: the cases that name it, or else those that each own suite of a client of that front door reports."""
    cases = read_cases()
    own = [case for case in cases if "suite" not in case and case.get("door") == door]
    return [case for case in cases if case.get("suite") == suite] or own


def read_client_reports(printed: str, suite: str, door: str | None = None) -> tuple[list[ClientReport], list[str]]:
    """The reports in a suite's output and what is wrong with them; none if it is not the suite of a client."""
    reports, faults = [], []
    wanted = [case["id"] for case in cases_of(suite, door)]
    # A line about the client comes before those about its cases.
    _, *parts = CLIENT_LINE.split(printed)
    for name, version, cases in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        report = ClientReport(name, version)
        for id, outcome, reason in CASE_LINE.findall(cases):
            if id not in wanted:
                faults.append(f"{name}: case {id} is not one of this suite in {CASES.name}")
            elif id in report.cases:
                faults.append(f"{name}: case {id} is reported twice")
            else:
                report.cases[id] = CaseOutcome(outcome, reason.strip())
        faults += [f"{name}: case {id} is not reported" for id in wanted if id not in report.cases]
        reports.append(report)
    return reports, faults
