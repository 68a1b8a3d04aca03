#!/usr/bin/env python3
"""Makes docs/COMPATIBILITY.md of what the clients' suites reported when they last ran against Logway.

    tests/compatibility.py             writes it, from tests/.work/results
    tests/compatibility.py --check     fails if the committed one says something else

Who has not reported keeps the row that is committed. So the check holds without any report too: each client and program
of suites.toml has its row, in the version that its suite pins, with each case of clients/cases.toml, and the page is
what would be made of these. Within a run of tests/run.py only what was reported in that run counts.

The table holds clients, versions and how each case went, but no times: it changes only if one of these does.
"""

import argparse
import difflib
import json
import os
import sys
import tomllib
from itertools import groupby
from pathlib import Path

from harness.broker import TESTS, WORK
from harness.client_report import CaseOutcome, ClientReport, read_cases
from harness.committed_page import CommittedPage, read_page

PAGE = TESTS.parent / "docs" / "COMPATIBILITY.md"
MARKS = {"pass": "✓", "skip": "–", "fail": "**✗**"}

HEAD = """# Compatibility

<!-- Made by tests/compatibility.py of what the suites in tests/clients reported. Do not edit. -->

Every client below is the unmodified release, run against one Logway broker by `make test`; `tests/run.py NAME` runs one
of them, and `tests/run.py NAME --against kafka` holds Apache Kafka to the same cases. `tests/run.py secured-clients` runs
all of them against a broker that asks who they are. AWS's SDKs, at the Kinesis address, have [cases of their own](#kinesis).

What no client shows is compared by the suite `conformance`: the answers of Logway and of Apache Kafka 4.3.0 to the same
raw requests, field by field. What differs, and why, is in
[differences.toml](../tests/conformance/differences.toml).

✓ works; – the client has no such thing, or does not tell why it was refused; **✗** does not work. Each – and ✗ has its
reason [below](#reasons). What the clients say when they are refused stands among the [remarks](#remarks).
"""

INTEGRATIONS = """## Integrations

Programs that are built upon a client, as their users run them; `make test-all` runs these, or `tests/run.py NAME`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    options = parser.parse_args()
    suites = tomllib.loads((TESTS / "suites.toml").read_text())["suite"]
    cases = read_cases()
    committed = read_page(PAGE, cases)
    faults: list[str] = []
    reports = {
        door: [report for suite in of_door if (report := report_of(suite, cases, committed, faults))]
        for door, of_door in by_door([suite for suite in suites if "client" in suite]).items()
    }
    integrations = [integration_of(suite, committed, faults) for suite in suites if "program" in suite]
    page = render(by_door(cases), reports, [row for row in integrations if row])
    if not options.check:
        PAGE.write_text(page)
    elif committed.text != page:
        lines = committed.text.splitlines(), page.splitlines()
        print("\n".join(difflib.unified_diff(*lines, "committed", "reported", lineterm="", n=0)))
        faults.append(f"{PAGE.name} is out of date: tests/compatibility.py writes it anew")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


def by_door(entries: list[dict]) -> dict[str | None, list[dict]]:
    """Suites or cases by the front door that they are about; Kafka's is the first."""
    return {door: [entry for entry in entries if entry.get("door") == door] for door in (None, "kinesis")}


def report_of(suite: dict, cases: list[dict], committed: CommittedPage, faults: list[str]) -> ClientReport | None:
    """The row of a client: what it reported, or else what is committed."""
    name = suite["client"]
    row = committed.clients.get(name)
    reports = reports_of(suite)
    if reports and name not in reports:
        faults.append(f"the suite {suite['name']} reports as {', '.join(reports)}; suites.toml calls its client {name}")
    elif reports:
        # Where the distribution chooses the version, another machine may have another one.
        keeps_version = row and "pinned" not in suite
        shared = {case["id"] for case in cases if "suite" in case}
        kept = {id: outcome for id, outcome in row.cases.items() if id in shared} if row else {}
        row = ClientReport(name, row.version if keeps_version else reports[name].version, kept | reports[name].cases)
    if row:
        for other in {case["suite"] for case in cases if "suite" in case}:
            found = reports_of({"name": other}).get(name)
            row.cases |= found.cases if found else {}
    if not row:
        faults.append(f"{name} has no row: tests/run.py {suite['name']}, then tests/compatibility.py")
    elif "pinned" in suite and not is_pinned(row.version, TESTS.parent / suite["pinned"]):
        faults.append(f"{name} {row.version} is not the version in {suite['pinned']}: tests/run.py {suite['name']}")
    return row


def reports_of(suite: dict) -> dict[str, ClientReport]:
    """What a suite has reported of clients, by their names."""
    reports = (read_result(suite) or {}).get("clients", [])
    return {
        report["name"]: ClientReport(
            report["name"], report["version"], {id: CaseOutcome(**it) for id, it in report["cases"].items()}
        )
        for report in reports
    }


def is_pinned(version: str, pins: Path) -> bool:
    """Whether a file that pins versions has this one; what is bundled with it comes after a plus sign."""
    own = version.split("+")[0]
    return any(own in line for line in pins.read_text().splitlines())


def integration_of(suite: dict, committed: CommittedPage, faults: list[str]) -> list[str] | None:
    """The row of a program: its name, what was tried, and how that went."""
    result, outcome = read_result(suite), committed.integrations.get(suite["program"])
    if result:
        mark = MARKS["fail" if result["failed"] else "pass"]
        outcome = f"{mark} {result['passed']}/{result['passed'] + result['failed']}"
    if not outcome:
        faults.append(f"{suite['program']} has no row: tests/run.py {suite['name']}, then tests/compatibility.py")
        return None
    return [suite["program"], suite["covers"], outcome]


def read_result(suite: dict) -> dict | None:
    """The latest result of a suite against Logway, if it is of the run that this is a part of."""
    path = WORK / "results" / f"{suite['name']}@logway.json"
    if not path.exists() or path.stat().st_mtime < float(os.environ.get("RUN_BEGAN", 0)):
        return None
    return json.loads(path.read_text())


def render(cases: dict, reports: dict, integrations: list[list[str]]) -> str:
    """Cases and reports are given by front door."""
    areas = {
        door: {area: list(of_area) for area, of_area in groupby(of_door, key=lambda case: case["area"])}
        for door, of_door in cases.items()
    }
    parts = [HEAD, *(summary(areas[door], reports[door]) for door in areas)]
    if integrations:
        parts += [INTEGRATIONS, table(["program", "covers", ""], integrations)]
    for door, of_door in areas.items():
        for area, of_area in of_door.items():
            heading = area[:1].upper() + area[1:]
            parts += [f"## {heading}\n", matrix(of_area, reports[door]), legend(of_area)]
    parts += ["## Reasons\n", table(["client", "case", "", "reason"], [row for door in cases for row in reasons(cases[door], reports[door])])]
    parts += ["## Remarks\n", table(["client", "case", "remark"], [row for door in cases for row in remarks(cases[door], reports[door])])]
    return "\n".join(parts)


def summary(areas: dict[str, list[dict]], reports: list[ClientReport]) -> str:
    """One row per client: how many of the cases that it can run at all went well."""
    rows = []
    for report in reports:
        counts = [count(report, of_area) for of_area in areas.values()]
        rows.append([report.name, report.version, *counts])
    return table(["client", "version", *areas], rows)


def count(report: ClientReport, cases: list[dict]) -> str:
    outcomes = [outcome_of(report, case).outcome for case in cases]
    passed, possible = outcomes.count("pass"), len(outcomes) - outcomes.count("skip")
    if not possible:
        return MARKS["skip"]
    return f"{MARKS['pass'] if passed == possible else MARKS['fail']} {passed}/{possible}"


def matrix(cases: list[dict], reports: list[ClientReport]) -> str:
    rows = [[report.name, *(MARKS[outcome_of(report, case).outcome] for case in cases)] for report in reports]
    return table(["client", *(case["heading"] for case in cases)], rows)


def legend(cases: list[dict]) -> str:
    return "".join(f"- *{case['heading']}*: {case['proves']}\n" for case in cases)


def reasons(cases: list[dict], reports: list[ClientReport]) -> list[list[str]]:
    rows = []
    for report in reports:
        for case in cases:
            outcome = outcome_of(report, case)
            if outcome.outcome != "pass":
                rows.append([report.name, case["heading"], MARKS[outcome.outcome], escaped(outcome.reason)])
    return rows


def remarks(cases: list[dict], reports: list[ClientReport]) -> list[list[str]]:
    """What a client said that was refused, and whatever else is to be said of a pass."""
    rows = []
    for report in reports:
        for case in cases:
            outcome = outcome_of(report, case)
            if outcome.outcome == "pass" and outcome.reason:
                rows.append([report.name, case["heading"], escaped(outcome.reason)])
    return rows


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def outcome_of(report: ClientReport, case: dict) -> CaseOutcome:
    return report.cases.get(case["id"], CaseOutcome("fail", "not reported"))


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
