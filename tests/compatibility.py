#!/usr/bin/env python3
"""Makes docs/COMPATIBILITY.md of what the clients' suites reported when they last ran against Logway.

    tests/compatibility.py             writes it, from tests/.work/results
    tests/compatibility.py --check     fails if the committed one says something else

The table holds clients, versions and how each case went, but no times: it changes only if one of these does.
"""

import argparse
import difflib
import json
import sys
import tomllib
from itertools import groupby

from harness.broker import TESTS, WORK
from harness.client_report import CaseOutcome, ClientReport, read_cases

PAGE = TESTS.parent / "docs" / "COMPATIBILITY.md"
MARKS = {"pass": "✓", "skip": "–", "fail": "**✗**"}

HEAD = """# Compatibility

<!-- Made by tests/compatibility.py of what the suites in tests/clients reported. Do not edit. -->

Every client below is the unmodified release, run against one Logway broker by `make test`; `tests/run.py NAME` runs one
of them, and `tests/run.py NAME --against kafka` holds Apache Kafka to the same cases.

✓ works; – the client has no such thing; **✗** does not work. Each – and ✗ has its reason [below](#reasons).
"""


INTEGRATIONS = """## Integrations

Programs that are built upon a client, as their users run them; `make test-all` runs these, or `tests/run.py NAME`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    options = parser.parse_args()
    reports = read_reports()
    if not reports:
        print("no client has reported yet: run tests/run.py first", file=sys.stderr)
        return 1
    page = render(read_cases(), reports, read_integrations())
    if not options.check:
        PAGE.write_text(page)
        return 0
    committed = PAGE.read_text() if PAGE.exists() else ""
    if committed == page:
        return 0
    changes = difflib.unified_diff(committed.splitlines(), page.splitlines(), "committed", "reported", lineterm="", n=0)
    print("\n".join(changes))
    print(f"{PAGE.name} is out of date: tests/compatibility.py writes it anew", file=sys.stderr)
    return 1


def read_results() -> list[tuple[dict, dict]]:
    """Each suite that has run against Logway with its latest result, in the order of suites.toml."""
    results = []
    for suite in tomllib.loads((TESTS / "suites.toml").read_text())["suite"]:
        path = WORK / "results" / f"{suite['name']}@logway.json"
        if path.exists():
            results.append((suite, json.loads(path.read_text())))
    return results


def read_reports() -> list[ClientReport]:
    """The latest report of each client."""
    reports = []
    for _, result in read_results():
        client = result.get("client")
        if client:
            cases = {id: CaseOutcome(**outcome) for id, outcome in client["cases"].items()}
            reports.append(ClientReport(client["name"], client["version"], cases))
    return reports


def read_integrations() -> list[list[str]]:
    """A row for each suite that says which program it runs: the program, what was tried, and how that went."""
    rows = []
    for suite, result in read_results():
        if "program" in suite:
            mark = MARKS["fail" if result["failed"] else "pass"]
            total = result["passed"] + result["failed"]
            rows.append([suite["program"], suite["covers"], f"{mark} {result['passed']}/{total}"])
    return rows


def render(cases: list[dict], reports: list[ClientReport], integrations: list[list[str]]) -> str:
    areas = {area: list(of_area) for area, of_area in groupby(cases, key=lambda case: case["area"])}
    parts = [HEAD, summary(areas, reports)]
    if integrations:
        parts += [INTEGRATIONS, table(["program", "covers", ""], integrations)]
    for area, of_area in areas.items():
        parts += [f"## {area.capitalize()}\n", matrix(of_area, reports), legend(of_area)]
    parts += ["## Reasons\n", reasons(cases, reports)]
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


def reasons(cases: list[dict], reports: list[ClientReport]) -> str:
    rows = []
    for report in reports:
        for case in cases:
            outcome = outcome_of(report, case)
            if outcome.outcome != "pass":
                reason = outcome.reason.replace("|", "\\|")
                rows.append([report.name, case["heading"], MARKS[outcome.outcome], reason])
    return table(["client", "case", "", "reason"], rows)


def outcome_of(report: ClientReport, case: dict) -> CaseOutcome:
    return report.cases.get(case["id"], CaseOutcome("fail", "not reported"))


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
