"""Asks Logway and Apache Kafka the same, request by request, and compares what they answer, field by field.

    tests/conformance/run.sh                 all scripts
    tests/conformance/run.sh fetch groups    those of some modules in scripts/
    tests/conformance/run.sh --long          with many more odd arguments; SEED=N repeats a run
    tests/conformance/run.sh --stranger      as a user who may do nothing; with differences_of_strangers.toml besides
    tests/conformance/run.sh --propose FILE  writes the new differences as entries of the list

Both brokers start fresh with the same settings, and live through the same scripts. What differs and is not in
differences.toml fails the suite; so does what is in there and does not occur any more.
"""

import argparse
import importlib
import pkgutil
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance import scripts
from conformance.connection import Connection
from conformance.definitions import Protocol, protocol
from conformance.differences import LIST, LIST_OF_STRANGERS, Accepted, Difference, compare, proposals, read_list, summary
from conformance.kafka_with_telemetry import KafkaWithTelemetry
from conformance.permissions import STRANGER, GuardedKafka, GuardedLogway, make_known
from conformance.script import SCRIPTS, Script
from conformance.side import Key, Side
from harness.apache_kafka import need_kafka
from harness.broker import Broker
from harness.logway import Logway
from harness.seed import SEED

# What hangs on a setting is to be the same, and quick.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
    # The scripts' records are of 2023, and Kafka looks for old ones half a minute after its start.
    "log.retention.ms": "-1",
}


def main() -> int:
    options = parse_options()
    for module in pkgutil.iter_modules(scripts.__path__):
        importlib.import_module(f"conformance.scripts.{module.name}")
    chosen = [script for script in SCRIPTS if not options.modules or script.module in options.modules]
    if options.stranger:
        chosen = [script for script in chosen if script.is_for_strangers]
    if not chosen:
        print(f"no such scripts; there are {', '.join(sorted({script.module for script in SCRIPTS}))}", file=sys.stderr)
        return 1
    if options.long:
        print(f"SEED={SEED}", flush=True)
    messages = protocol(need_kafka())
    kinds = (GuardedKafka, GuardedLogway) if options.stranger else (KafkaWithTelemetry, Logway)
    brokers = [kind("conformance", SETTINGS) for kind in kinds]
    stranger = STRANGER if options.stranger else None
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda broker: broker.start(), brokers))
            versions = shared_versions(brokers, messages)
            sides = [Side(broker, messages, versions, options.long, stranger) for broker in brokers]
            failures = list(pool.map(lambda side: run(side, chosen), sides))
    finally:
        for broker in brokers:
            broker.kill()
    return judge(*sides, failures, options, is_whole=not options.modules)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a module of scripts/")
    parser.add_argument("--long", action="store_true", help="with many more odd arguments")
    parser.add_argument("--stranger", action="store_true", help="ask as a user who may do nothing")
    parser.add_argument("--propose", type=Path, metavar="FILE", help="write new differences as entries of the list")
    parser.add_argument("--show", metavar="WORDS", help="print what both answered to the requests with these words")
    return parser.parse_args()


def shared_versions(brokers: list[Broker], messages: Protocol) -> dict[str, range]:
    """What both announce and the definitions have, by API."""
    shared: dict[str, range] = {}
    for broker in brokers:
        connection = Connection(broker.bootstrap.split(",")[0], messages)
        announced = connection.ask("ApiVersions", 0, {})["ApiKeys"]
        connection.close()
        ranges = {messages.names[api["ApiKey"]]: (api["MinVersion"], api["MaxVersion"]) for api in announced}
        before = shared or ranges
        shared = {}
        for api, (first, last) in ranges.items():
            if api in before:
                known, other = messages.requests[api].versions, before[api]
                other_first, other_last = (other[0], other[-1]) if isinstance(other, range) else other
                shared[api] = range(max(first, other_first, known.first), min(last, other_last, known.last) + 1)
    return shared


def run(side: Side, chosen: list[Script]) -> dict[str, str]:
    """Runs the scripts on one side; what went wrong is returned by script."""
    failures = {}
    side.begin("suite")
    if side.is_stranger:
        make_known(side)
    side.wait_for_coordinator("first")
    side.wait_until(lambda: side.do("InitProducerId", TransactionalId=None)["ErrorCode"] == 0, "producer ids")
    side.named_topic("settled")
    for script in chosen:
        side.begin(script.name)
        try:
            script.play(side)
        except Exception:
            failures[script.name] = traceback.format_exc()
    return failures


class Verdict:
    """Prints what came of each part, and counts."""

    def __init__(self):
        self.passed = self.failed = 0

    def say(self, is_good: bool, about: str, lines: list[str] | None = None):
        if is_good:
            self.passed += 1
        else:
            self.failed += 1
        print(f"{'ok' if is_good else 'FAILED'} {about}")
        print("".join(f"    {line}\n" for line in lines or []), end="")


def judge(kafka: Side, logway: Side, failures: list[dict[str, str]], options, is_whole: bool) -> int:
    """Compares the answers and prints what came of it, by API."""
    own, verdict = read_list(LIST_OF_STRANGERS if options.stranger else LIST), Verdict()
    # What differs for everybody, differs for a stranger, too.
    accepted = own + (read_list(LIST) if options.stranger else [])
    new: list[Difference] = []
    by_api: dict[str, list[Key]] = {}
    for key in sorted(kafka.answers.keys() | logway.answers.keys()):
        by_api.setdefault(key.api, []).append(key)
    for api, keys in by_api.items():
        found = [one for key in keys for one in differences_of(key, kafka, logway)]
        of_api = [one for one in found if not is_accepted(one, accepted)]
        versions = kafka.versions(api)
        known = f"{len(keys)} answers, {len(found) - len(of_api)} known differences, {len(of_api)} new"
        verdict.say(not of_api, f"{api} {versions[0]}-{versions[-1]}: {known}", summary(of_api))
        new += of_api
    for side, of_side in zip((kafka, logway), failures):
        for script, trace in of_side.items():
            verdict.say(False, f"{script} on {side.kind}", trace.splitlines())
    if is_whole:
        missing = sorted(set(kafka.versions_of_all()) - by_api.keys())
        verdict.say(not missing, "requests of every API", missing)
    # A part of the scripts shows nothing of what no longer occurs.
    if is_whole and not options.long:
        stale = [f"{entry}: {', '.join(entry.stale())}" for entry in own if entry.stale()]
        verdict.say(not stale, "every entry of differences.toml occurs", stale)
    if options.show:
        show(options.show, kafka, logway)
    if options.propose:
        options.propose.write_text("\n".join(proposals(new)))
    print(f"{verdict.passed} passed, {verdict.failed} failed")
    return 1 if verdict.failed else 0


def show(words: str, kafka: Side, logway: Side):
    for key in sorted(kafka.answers):
        if words in f"{key.api} {key.request} v{key.version}":
            print(f"{key}\n  kafka  {kafka.answers[key]}\n  logway {logway.answers.get(key)}")


def differences_of(key: Key, kafka: Side, logway: Side) -> list[Difference]:
    asked = {"kafka": kafka.answers.get(key), "logway": logway.answers.get(key)}
    if None in asked.values():
        # Its script has ended early on one side, which is a failure of its own.
        return []
    return compare(key, asked["kafka"], asked["logway"])


def is_accepted(found: Difference, accepted: list[Accepted]) -> bool:
    # Each entry that takes it counts as seen.
    return any([entry.takes(found) for entry in accepted])


if __name__ == "__main__":
    sys.exit(main())
