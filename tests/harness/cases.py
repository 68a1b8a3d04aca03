"""Runs a folder of unittest cases and reports in the one format that tests/run.py reads.

    python cases.py FOLDER [PATTERN]

prints `ok CASE (SECONDS)` or `FAILED CASE` with the reason, and ends with the line `N passed, M failed`. A case that
the broker cannot run prints `cannot run CASE` with the reason, and counts as neither.
"""

import sys
import time
import unittest


class Report(unittest.TestResult):
    """One line per case, as it ends."""

    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()

    def addSuccess(self, test):
        self.passed += 1
        print(f"ok {name(test)} ({time.monotonic() - self._began:.2f} s)", flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"cannot run {name(test)}: {reason}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._print_failure(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._print_failure(test, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._print_failure(subtest, "".join(self._exc_info_to_string(err, test)))

    def _print_failure(self, test, reason):
        print(f"FAILED {name(test)}\n" + "".join(f"    {line}\n" for line in reason.splitlines()), flush=True)


def name(test) -> str:
    """`file.case`, without the class."""
    parts = test.id().split(".")
    return f"{parts[0]}.{'.'.join(parts[2:])}" if len(parts) > 2 else test.id()


def main(folder: str, pattern: str = "test_*.py") -> int:
    report = Report()
    unittest.defaultTestLoader.discover(folder, pattern=pattern).run(report)
    failed = len(report.failures) + len(report.errors)
    print(f"{report.passed} passed, {failed} failed")
    return 1 if failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
