"""kcat where TLS and passwords are asked for."""

import re
import subprocess

from client_cases import secured


class KcatFailed(Exception):
    pass


class Secured:
    remarks = ["creates topics by the first record only, and deletes none"]

    def __init__(self, task: secured.Task):
        self.task = task

    def run(self, *words: str, text: bytes = b"") -> bytes:
        done = subprocess.run(["kcat", *self.settings(), *words], input=text, capture_output=True, timeout=secured.DEADLINE_S)
        if done.returncode != 0:
            raise KcatFailed(done.stderr.decode())
        return done.stdout

    def settings(self) -> list[str]:
        task = self.task
        if task.token:
            raise secured.Cannot("takes no token: it makes unsigned ones of its own")
        settings = {"bootstrap.servers": task.bootstrap, "security.protocol": task.protocol}
        if task.ca:
            settings["ssl.ca.location"] = task.ca
        if task.certificate:
            settings |= {"ssl.certificate.location": task.certificate, "ssl.key.location": task.key}
        if task.mechanism:
            settings |= {"sasl.mechanisms": task.mechanism, "sasl.username": task.user, "sasl.password": task.password}
        return [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]

    def connect(self):
        self.run("-L", "-m", "2")

    def create(self, _topic: str):
        if self.task.do == "create":
            raise secured.Cannot("creates no topics")

    def delete(self, _topic: str):
        pass

    def write(self, topic: str, values: list[bytes]):
        self.run("-P", "-t", topic, text=b"".join(value + b"\n" for value in values))

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        words = ["-q", "-u", "-c", str(count), "-X", "auto.offset.reset=earliest", "-G", group, topic]
        return self.run(*words).splitlines()


if __name__ == "__main__":
    told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) .*librdkafka (\S+)", told)
    secured.main("kcat", f"{found[1]}+librdkafka-{found[2]}", Secured)
