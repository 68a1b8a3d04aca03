"""Does with a client in Python what tests/security/clients/matrix.py asks for: see there for the lines in and out."""

import logging
import sys
import traceback
from dataclasses import dataclass

RECORDS = [b"%d" % number for number in range(10)]
# Within this a client must have what it waits for.
DEADLINE_S = 20


class Cannot(Exception):
    """The client has no such thing; the text says what."""


@dataclass
class Task:
    """Who goes where, and does what. What is empty is not given."""

    task: str
    do: str
    bootstrap: str
    topic: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.ca else "PLAINTEXT")

    def sasl_settings(self, provider) -> dict:
        """How kafka-python and aiokafka are told who they are. `provider(token)` gives a token when it is asked for."""
        if self.token:
            return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider(self.token)}
        if self.mechanism:
            return {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return {}


def main(name: str, version: str, client):
    """`client(task)` has `connect()`, `create(topic)`, `write(topic, values)`, `read(topic, group, count)`, `delete(topic)`
    `said`, a list of what it was told beside the exceptions that these raise, and `remarks` on what went well."""
    print("client", name, version, sep="\t", flush=True)
    for line in sys.stdin:
        task = Task(**dict(field.split("=", 1) for field in line.rstrip("\n").split("\t")))
        print(task.task, *outcome(client, task), sep="\t", flush=True)


def outcome(client, task: Task) -> list[str]:
    told = Told()
    logging.getLogger().addHandler(told)
    made = None
    try:
        made = client(task)
        perform(made, task)
        return ["ok", *getattr(made, "remarks", [])]
    except Cannot as reason:
        return ["cannot", str(reason)]
    except Exception as error:
        traceback.print_exc()
        said = [f"{type(error).__name__}: {error}", *getattr(made, "said", []), *told.said]
        return ["error", " | ".join(" ".join(words.split()) for words in said)]
    finally:
        logging.getLogger().removeHandler(told)


def perform(client, task: Task):
    if task.do == "connect":
        client.connect()
    elif task.do == "create":
        client.create(task.topic)
    elif task.do == "write":
        client.write(task.topic, RECORDS)
    elif task.do == "read":
        client.read(task.topic, task.topic, 1)
    else:
        client.create(task.topic)
        client.write(task.topic, RECORDS)
        values = client.read(task.topic, task.topic, len(RECORDS))
        if values != RECORDS:
            raise AssertionError(f"read {values}")
        client.delete(task.topic)


class Told(logging.Handler):
    """What a client has logged as a warning or an error, each sentence once."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        words = record.getMessage()
        if words not in self.said:
            self.said.append(words)
