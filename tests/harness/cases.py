"""Runs a folder of unittest cases and reports in the one format that tests/run.py reads.

    python cases.py FOLDER [PATTERN]

prints `ok CASE (SECONDS)` or `FAILED CASE` with the reason, and ends with the line `N passed, M failed`. A case that
skips itself counts as neither.

With CLIENT="NAME VERSION" in the environment it is the suite of a client: a method like `test_produce_gzip`, whose name
is that of a case in tests/clients/cases.toml, then reports in the words that are given there.
"""

import os
import sys
import time
import unittest

from harness.client_report import read_cases


class Report(unittest.TestResult):
    """One line per case, as it ends."""

    def __init__(self, case_ids: set[str]):
        super().__init__()
        self.case_ids = case_ids
        self.passed = 0

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()
        self._failed_subtests = []

    def addSuccess(self, test):
        self.passed += 1
        took = f"({time.monotonic() - self._began:.2f} s)"
        id = self._case_id(test)
        print(f"case {id} pass {took}" if id else f"ok {name(test)} {took}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._print_failure(test, err, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._print_failure(test, err, self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        id = self._case_id(test)
        print(f"case {id} skip: {reason}" if id else f"skipped {name(test)}: {reason}", flush=True)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed_subtests.append(subtest)
            # A case of the table is reported once, by the first of its parts that fails.
            shown = subtest if len(self._failed_subtests) > 1 or not self._case_id(test) else test
            self._print_failure(shown, err, "".join(self._exc_info_to_string(err, test)))

    def _case_id(self, test) -> str | None:
        id = test.id().split(".")[-1].removeprefix("test_").replace("_", "-")
        return id if id in self.case_ids else None

    def _print_failure(self, test, err, trace):
        id = self._case_id(test)
        reason = " ".join(f"{err[0].__name__}: {err[1]}".split())
        print(f"case {id} fail: {reason}" if id else f"FAILED {name(test)}")
        print("".join(f"    {line}\n" for line in trace.splitlines()), flush=True)


def name(test) -> str:
    """`file.case`, without the class."""
    parts = test.id().split(".")
    return f"{parts[0]}.{'.'.join(parts[2:])}" if len(parts) > 2 else test.id()


def main(folder: str, pattern: str = "test_*.py") -> int:
    client = os.environ.get("CLIENT")
    if client:
        print(f"client {client}", flush=True)
    case_ids = {case["id"] for case in read_cases()} if client else set()
    report = Report(case_ids)
    unittest.defaultTestLoader.discover(folder, pattern=pattern).run(report)
    failed = len(report.failures) + len(report.errors)
    print(f"{report.passed} passed, {failed} failed")
    return 1 if failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
