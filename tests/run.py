#!/usr/bin/env python3
"""Runs the suites of tests/suites.toml and ends with the line `N passed, M failed`, summed over all of them.

    tests/run.py                         all but the heavy ones, as `make test` does
    tests/run.py --all                   all of them, as `make test-all` does
    tests/run.py kcat crash              only these
    tests/run.py kcat --against kafka    against Apache Kafka, which is fetched if need be
    tests/run.py --jobs 1                one after the other
    tests/run.py --all --within 60       no heavy one begins when 60 minutes are over, as in CI

Suites that follow each other run two at a time if the table says so or they talk to a broker given to them, each to one
of its own: they wait more than they compute. The others, some of which measure, have the machine for themselves.

A suite reports by lines `N passed, M failed` in what it prints (cargo's own summary counts too); without any, its exit
code is one pass or one failure. What it printed is kept in tests/.work/results/NAME@KIND.log, its counts in .json.
What its brokers have left in tests/.work/brokers is kept if it failed.
The suite of a client also says which version it runs and how each case of tests/clients/cases.toml went (see there);
that goes to .json too, and tests/compatibility.py makes the table of it.
"""

import argparse
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tomllib

from harness.broker import BROKERS, TESTS, BrokerFailed
from harness.brokers import KINDS
from harness.client_report import ClientReport, read_client_reports
from harness.logway import BINARY

ROOT = TESTS.parent
RESULTS = TESTS / ".work" / "results"
# By default the first member of a group waits 3 s for others, and most cases begin a group.
# And one case waits for the cleaner, which looks every 15 s.
SETTINGS = {"group.initial.rebalance.delay.ms": "300", "log.cleaner.backoff.ms": "300"}
# Where a log tells of a failure, in the words of our cases, of cargo, and of the runners of other languages.
FAILURE = re.compile(r"^\s*(FAILED |FAIL\b|--- FAIL|not ok|case \S+ fail\b|test .* FAILED|thread '.*' panicked)")
# The next case, after a failure.
PASS = re.compile(r"^\s*(ok |case \S+ pass)")
FAILED_CASE = re.compile(r"^case (\S+) fail\b")
# How much of a trace after such a line is told at the end, and of all of a suite; the rest is in its log.
LINES_OF_A_FAILURE, LINES_OF_FAILURES = 25, 40
# What the broker printed follows it in the log of a suite that failed.
BROKER_PRINTED = "What the broker printed"
COUNTS = re.compile(r"^(?:test result: \w+\. )?(\d+) passed[,;] (\d+) failed", re.MULTILINE)


@dataclass
class Result:
    suite: str
    against: str
    passed: int
    failed: int
    seconds: float
    clients: list[ClientReport] = field(default_factory=list)

    @property
    def name(self) -> str:
        return name_of(self.suite, self.against)


def name_of(suite: str, against: str) -> str:
    return f"{suite}@{against}" if against else suite


def main() -> int:
    suites = tomllib.loads((TESTS / "suites.toml").read_text())["suite"]
    options = parse_options([suite["name"] for suite in suites])
    RESULTS.mkdir(parents=True, exist_ok=True)
    # By this a suite tells which results are of this run.
    os.environ["RUN_BEGAN"] = str(time.time())
    no_heavy_from = time.monotonic() + 60 * options.within
    chosen = [(suite, kind) for suite in suites if is_chosen(suite, options) for kind in kinds(suite, options.against)]
    is_built_here = any(suite["name"] == "build" for suite, _ in chosen)
    if not is_built_here and any(kind == "logway" for _, kind in chosen) and not Path(BINARY).is_file():
        print(f"{BINARY} does not exist: run `make build` first", file=sys.stderr)
        return 1
    results, left_out = [], []

    def run_in_time(run: tuple[dict, str]) -> Result | None:
        suite, against = run
        if suite.get("heavy") and time.monotonic() > no_heavy_from:
            left_out.append(name_of(suite["name"], against))
            return None
        return run_and_report(run)

    with ThreadPoolExecutor(options.jobs) as pool:
        for together in batches(chosen):
            kept = set(BROKERS.glob("*"))
            of_batch = [result for result in pool.map(run_in_time, together) if result]
            if not any(result.failed for result in of_batch):
                remove_brokers(set(BROKERS.glob("*")) - kept)
            results.extend(of_batch)
            if any(result.suite == "build" and result.failed for result in of_batch):
                say("       nothing else is run: there is nothing to try")
                break
    passed, failed = sum(result.passed for result in results), sum(result.failed for result in results)
    for result in results:
        if result.failed:
            # Once more at the end: of a long run only its end may be kept.
            say("\n".join([f"\nof {result.name}:", *failures(result)]))
    if left_out:
        say(f"not run, since {options.within:g} minutes were over: {', '.join(left_out)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def parse_options(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"one of {', '.join(names)}")
    parser.add_argument("--all", action="store_true", help="the heavy suites too, where none is named")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many suites may run at once: 2")
    until = "after how many minutes no heavy suite begins; those left out are named at the end"
    parser.add_argument("--within", type=float, default=math.inf, metavar="MINUTES", help=until)
    parser.add_argument("--against", choices=KINDS, help="the broker, if not those that the table says")
    options = parser.parse_args()
    unknown = set(options.suites) - set(names)
    if unknown:
        parser.error(f"no suite is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


def is_chosen(suite: dict, options: argparse.Namespace) -> bool:
    """By its name; or, where none is given, unless it is heavy and only `--all` takes it in."""
    if options.suites:
        return suite["name"] in options.suites
    return options.all or not suite.get("heavy", False)


def kinds(suite: dict, chosen: str | None) -> list[str]:
    """The brokers to run a suite against; one empty name for a suite that needs none."""
    if "broker" not in suite:
        return [""]
    return [chosen] if chosen else suite.get("against", ["logway"])


def batches(chosen: list[tuple[dict, str]]) -> list[list[tuple[dict, str]]]:
    """The suites in their order; those that may run at once are in one batch."""

    def batch(at: tuple[int, tuple[dict, str]]) -> object:
        position, (suite, _) = at
        return "together" if is_given(suite) or suite.get("together") else position

    return [[run for _, run in group] for _, group in itertools.groupby(enumerate(chosen), batch)]


def is_given(suite: dict) -> bool:
    """Whether run.py starts the suite's broker."""
    return suite.get("broker") == "given"


def run_and_report(run: tuple[dict, str]) -> Result:
    suite, against = run
    say(f"       {name_of(suite['name'], against)} begins")
    result = run_suite(suite, against)
    report(result)
    return result


def run_suite(suite: dict, against: str) -> Result:
    result = Result(suite["name"], against, passed=0, failed=0, seconds=0)
    # Under its final name only when it is complete: another run may be going on.
    log_path = RESULTS / f"{result.name}.log.{os.getpid()}"
    began = time.monotonic()
    with log_path.open("wb") as log:
        try:
            exit_code = run_with_broker(suite, against, log)
        except BrokerFailed as failure:
            log.write(str(failure).encode())
            exit_code = 1
    result.seconds = round(time.monotonic() - began, 1)
    log_path = log_path.rename(RESULTS / f"{result.name}.log")
    printed = log_path.read_text(errors="replace")
    counts = COUNTS.findall(printed)
    result.passed = sum(int(passed) for passed, _ in counts)
    result.failed = sum(int(failed) for _, failed in counts)
    result.clients, faults = read_client_reports(printed, suite["name"], suite.get("door"))
    if faults:
        with log_path.open("a") as log:
            log.writelines(f"{fault}\n" for fault in faults)
        result.failed += len(faults)
    if exit_code != 0 and result.failed == 0:
        result.failed = 1
    elif not counts:
        result.passed = 1
    return result


def remove_brokers(directories: set[Path]):
    """Removes what brokers have left behind; not what belongs to another process that still runs."""
    for directory in directories:
        pid = directory.suffix.removeprefix(".")
        if pid == str(os.getpid()) or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(directory, ignore_errors=True)


def run_with_broker(suite: dict, against: str, log) -> int:
    environment = {**os.environ, "AGAINST": against}
    if not is_given(suite):
        return run_command(suite, environment, log)
    with KINDS[against](suite["name"], SETTINGS | suite.get("settings", {})) as broker:
        of_broker = {"BOOTSTRAP": broker.bootstrap, "DATA_DIR": str(broker.data_dir)} | broker.environment()
        exit_code = run_command(suite, environment | of_broker, log)
        if exit_code != 0:
            log.write(f"\n{BROKER_PRINTED} ({broker.directory} is kept):\n{broker.log_since_start()}".encode())
        return exit_code


def run_command(suite: dict, environment: dict, log) -> int:
    """Runs the suite in a process group of its own, so that nothing of it goes on when it is stopped."""
    process = subprocess.Popen(
        suite["run"],
        shell=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    deadline_s = suite.get("deadline_s", 600)
    try:
        return process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        log.write(f"\nstopped after {deadline_s} s\n".encode())
        return 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def report(result: Result):
    """One line on stdout and one JSON file per suite; the end of its output as well if something failed."""
    (RESULTS / f"{result.name}.json").write_text(json.dumps(asdict(result)) + "\n")
    lines = []
    if result.failed:
        lines = [f"    {line}" for line in log_lines(result)[-80:]]
    verdict = "FAILED" if result.failed else "ok"
    lines.append(
        f"{verdict:6} {result.name:32} {result.passed:5} passed, {result.failed} failed {result.seconds:8.1f} s"
    )
    say("\n".join(lines))


def failures(result: Result) -> list[str]:
    """What the log of a suite says of its failures, wherever in it; its last lines if no line of it tells of one."""
    lines = log_lines(result)
    told, cases = [], []
    for begin, line in enumerate(lines):
        if FAILURE.match(line):
            after = lines[begin + 1 : begin + LINES_OF_A_FAILURE]
            told += [line, *itertools.takewhile(lambda line: not PASS.match(line) and not FAILURE.match(line), after)]
            if case := FAILED_CASE.match(line):
                cases.append(case[1])
    told = (told or lines[-LINES_OF_A_FAILURE:])[:LINES_OF_FAILURES]
    return [f"    {line}" for line in told + said_by_broker_of(cases, lines)[-LINES_OF_A_FAILURE:]]


def said_by_broker_of(cases: list[str], lines: list[str]) -> list[str]:
    """What the broker printed of cases: their topics, groups and transactions have the case's id in their names."""
    said = itertools.dropwhile(lambda line: not line.startswith(BROKER_PRINTED), lines)
    return [line for line in said if any(case in line for case in cases)]


def log_lines(result: Result) -> list[str]:
    return (RESULTS / f"{result.name}.log").read_text(errors="replace").splitlines()


def say(text: str):
    """Prints in one piece: another suite may have something to say at the same time."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
