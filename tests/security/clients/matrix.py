"""Every client at one broker that asks for TLS, passwords, tokens and rights.

Each client's program gets tasks, one a line of fields `name=value` with tabs between: the task's name, what to `do`
(`use`, `connect`, `create`, `write`, `read`), and what of `bootstrap`, `topic`, `ca`, `certificate`, `key`, `mechanism`,
`user`, `password` and `token` it needs. `use` creates a topic, writes ten records to it, reads them in a group and deletes
the topic. The program prints `client NAME VERSION`, and for each task its name and `ok` (perhaps with a remark), `cannot REASON` or
`error TEXT`, again with tabs between. What the client says for itself, by exceptions, call backs or its log, is in that text.

How each case of tests/clients/cases.toml went is printed in the words that are given there. What clients must say is in
refusals.toml.
"""

import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from programs import PROGRAMS, Program
from secure import PASSWORD, Authority, SecureLogway, openssl
from tokens import Signer, write_keys

from harness.client_report import CaseOutcome, cases_of
from harness.waiting import wait_until

HERE = Path(__file__).resolve().parent
SUITE = "secured-clients"
WRONG = "a-wrong-word"
MECHANISMS = {"plain": "PLAIN", "scram-256": "SCRAM-SHA-256", "scram-512": "SCRAM-SHA-512"}
# The broker starts with a certificate only if it is still good. It must have started by then.
EXPIRY = timedelta(seconds=15)
CLIENTS_AT_ONCE = 2
CLIENT_DEADLINE_S = 180
TASK_DEADLINE_S = 30


class Place:
    """The broker, who may do what at it, and the files and words that clients come with."""

    def __init__(self):
        self.broker = broker = SecureLogway(SUITE, more_listeners={"EXPIRED": "SSL"})
        self.signer, stranger = Signer(broker.directory), Signer(broker.directory, "stranger")
        self.wrong_token = stranger.token("alice")
        keys = broker.directory / "keys.json"
        write_keys(keys, self.signer)
        self.stranger = Authority(broker.directory / "stranger")
        for name, lifetime in [("alice", timedelta(days=1)), ("late", -timedelta(hours=1))]:
            both = broker.authority.issue(name, lifetime)
            # Java's clients have a keystore.
            openssl("pkcs12", "-export", "-in", both, "-out", both.with_suffix(".p12"), "-passout", "pass:keystore")
        expiring = broker.authority.issue("expiring", EXPIRY)
        self.expired_at = datetime.now(UTC) + EXPIRY
        broker.settings |= {
            "sasl.enabled.mechanisms": ",".join([*MECHANISMS.values(), "OAUTHBEARER"]),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            "sasl.oauthbearer.expected.issuer": Signer.ISSUER,
            "sasl.oauthbearer.expected.audience": "logway",
            "listener.name.expired.ssl.keystore.location": str(expiring),
        }

    def furnish(self):
        """Alice may do everything with topics and groups. Carol has one topic and one group; others she may see only."""
        for user in ("alice", "carol"):
            self.broker.add_user(user)
        for resource in ("--topic", "--group"):
            self.broker.allow("alice", resource, "*", "--operation", "all")
            self.broker.allow("carol", resource, "carols", "--operation", "all")
        self.broker.allow("carol", "--topic", "alices", "--operation", "describe", "--operation", "read")
        for topic in ("alices", "carols"):
            self.broker.logway("topic", "create", topic, "-p", "1")

    def wait_for_expiry(self):
        wait_until(lambda: datetime.now(UTC) > self.expired_at, "a certificate to be over", 2 * EXPIRY.seconds)

    def task(self, name: str, do: str, listener: str, topic: str = "", authority: Path | None = None, who: str = "",
             **login: str) -> dict[str, str]:
        """`who` has a certificate of this name."""
        files = {}
        if "SASL_PLAINTEXT" != listener:
            files["ca"] = authority or self.broker.authority.file
        if who:
            directory = self.broker.authority.directory
            files |= {"certificate": directory / f"{who}.crt", "key": directory / f"{who}.key"}
        return {"task": name, "do": do, "bootstrap": self.broker.addresses[listener], "topic": topic} | files | login

    def tasks(self, client: str) -> list[dict[str, str]]:
        """The case that a task belongs to is its name up to the dot."""
        return [*self.ways_in(client.strip("@").replace("/", "-")), *self.ways_to_be_refused()]

    def ways_in(self, client: str):
        def use(case: str, listener: str, **more):
            name = f"{case}.{listener}"
            return self.task(name, "use", listener, f"{client}.{name}", **more)

        yield use("secured-tls", "SSL")
        yield use("secured-mutual-tls", "MUTUAL", who="alice")
        for listener in ("SASL_SSL", "SASL_PLAINTEXT"):
            for case, mechanism in MECHANISMS.items():
                yield use(f"secured-{case}", listener, mechanism=mechanism, user="alice", password=PASSWORD)
            yield use("secured-oauthbearer", listener, mechanism="OAUTHBEARER", token=self.signer.token("alice"))

    def ways_to_be_refused(self):
        for mechanism in MECHANISMS.values():
            login = {"mechanism": mechanism, "password": WRONG}
            yield self.task(f"refused-password.{mechanism}", "connect", "SASL_SSL", user="alice", **login)
        # Who is unknown is told the same as who has a wrong password.
        yield self.task("refused-password.unknown", "connect", "SASL_SSL", user="nobody", **login)
        yield self.task("refused-token.wrong", "connect", "SASL_SSL", mechanism="OAUTHBEARER", token=self.wrong_token)
        yield self.task("refused-authority.unknown", "connect", "SSL", authority=self.stranger.file)
        yield self.task("refused-expired.broker", "connect", "EXPIRED")
        yield self.task("refused-no-certificate.none", "connect", "MUTUAL")
        yield self.task("refused-own-expired.own", "connect", "MUTUAL", who="late")
        carol = {"mechanism": "SCRAM-SHA-256", "user": "carol", "password": PASSWORD}
        yield self.task("refused-write.topic", "write", "SASL_SSL", "alices", **carol)
        yield self.task("refused-read.group", "read", "SASL_SSL", "alices", **carol)
        yield self.task("refused-create.topic", "create", "SASL_SSL", "bobs", **carol)


    def leaks(self) -> list[str]:
        """What is in the broker's log or metrics and must not be."""
        log, metrics = self.broker.log_path.read_text(), self.broker.metrics()
        secrets = {"a wrong password": WRONG, "a password": PASSWORD, "a token": self.wrong_token}
        told = [name for name, secret in secrets.items() if secret in log or secret in metrics]
        return told if "a client is not who it says" in log else [*told, "nothing of the refusals in the log"]


class Run:
    """What a client's program has told of its tasks."""

    def __init__(self, program: Program, tasks: list[dict[str, str]], log: Path):
        self.tasks = [task["task"] for task in tasks]
        self.version, self.told, self.took_s = "", {}, {}
        lines = "".join("\t".join(f"{name}={value}" for name, value in task.items() if value) + "\n" for task in tasks)
        with log.open("wb") as errors, program.start(errors) as process:
            stop = threading.Timer(CLIENT_DEADLINE_S, process.kill)
            stop.start()
            process.stdin.write(lines)
            process.stdin.close()
            began = time.monotonic()
            for line in process.stdout:
                ended = time.monotonic()
                self._read(line.rstrip("\n").split("\t"), ended - began)
                began = ended
            stop.cancel()

    def _read(self, words: list[str], took_s: float):
        match words:
            case ["client", _, version]:
                self.version = version
            case [task, "ok" | "cannot" | "error" as kind, *text]:
                self.told[task] = (kind, " ".join(text))
                self.took_s[task] = took_s

    def tasks_of(self, case: str) -> list[str]:
        return [task for task in self.tasks if task.split(".")[0] == case]

    def outcome(self, case: str, wanted: str, unclear: str) -> CaseOutcome:
        """How a case went. A pass has a remark of the client, or what it said when it was refused."""
        is_refused, remark = case.startswith("refused"), ""
        for task in self.tasks_of(case):
            kind, text = self.told.get(task, ("error", f"no answer within {CLIENT_DEADLINE_S} s, or the program ended"))
            if kind == "cannot":
                return CaseOutcome("skip", text)
            if self.took_s.get(task, 0) > TASK_DEADLINE_S:
                return CaseOutcome("fail", f"{task} took {self.took_s[task]:.0f} s: {text}")
            if is_refused and kind == "ok":
                return CaseOutcome("fail", f"{task} went well")
            if is_refused and task not in self.told or kind == "error" and not (is_refused and says(text, wanted)):
                return CaseOutcome("fail", f"{task}: {text}")
            remark = text
        if not is_refused:
            return CaseOutcome("pass", remark)
        return CaseOutcome("skip", f"{unclear}: {wanted}") if unclear else CaseOutcome("pass", wanted)


def says(text: str, wanted: str) -> bool:
    """Whether the parts of `wanted`, between ellipses, are in a text, in this order."""
    at = 0
    for part in wanted.split(" … "):
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return bool(wanted)


def main(names: list[str]) -> int:
    refusals = tomllib.loads((HERE / "refusals.toml").read_text())
    clients = names or list(PROGRAMS)
    outcomes = []
    place = Place()
    with place.broker:
        place.furnish()
        for client in clients:
            PROGRAMS[client].prepare()
        place.wait_for_expiry()

        def run(client: str) -> Run:
            log = place.broker.directory / f"{client.replace('/', '-')}.log"
            return Run(PROGRAMS[client], place.tasks(client), log)

        # They wait more than they compute.
        with ThreadPoolExecutor(CLIENTS_AT_ONCE) as pool:
            for client, done in zip(clients, pool.map(run, clients), strict=True):
                outcomes += report(client, done, refusals.get(client, {}))
        leaks = place.leaks()
    print(f"FAILED no-secret-in-log: {leaks}" if leaks else "ok no-secret-in-log")
    outcomes.append("fail" if leaks else "pass")
    print(f"{outcomes.count('pass')} passed, {outcomes.count('fail')} failed")
    return 1 if "fail" in outcomes else 0


def report(client: str, run: Run, refusals: dict) -> list[str]:
    """Prints how each case of a client went, and returns the outcomes."""
    print(f"client {client} {run.version or 'unknown'}")
    outcomes = []
    for case in cases_of(SUITE):
        refusal = refusals.get(case["id"], "")
        if isinstance(refusal, str):
            refusal = {"says": refusal, "unclear": ""}
        outcome = run.outcome(case["id"], refusal["says"], refusal["unclear"])
        took_s = sum(run.took_s.get(task, 0) for task in run.tasks_of(case["id"]))
        reason = f": {outcome.reason}" if outcome.reason else ""
        print(f"case {case['id']} {outcome.outcome} ({took_s:.1f} s){reason}", flush=True)
        outcomes.append(outcome.outcome)
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
