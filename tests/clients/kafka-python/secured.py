"""kafka-python where TLS and passwords are asked for."""

from contextlib import closing

import kafka
from kafka.net.sasl.oauth import AbstractTokenProvider

from client_cases import secured


class Secured:
    def __init__(self, task: secured.Task):
        self.task = task

    def settings(self) -> dict:
        task = self.task
        settings = {"bootstrap_servers": task.bootstrap, "security_protocol": task.protocol}
        if task.do == "connect":
            # By default it tries for half a minute.
            settings["bootstrap_timeout_ms"] = 2_000
        if task.ca:
            settings["ssl_cafile"] = task.ca
        if task.certificate:
            settings |= {"ssl_certfile": task.certificate, "ssl_keyfile": task.key}
        return settings | task.sasl_settings(Token)

    def connect(self):
        with closing(kafka.KafkaAdminClient(**self.settings())) as admin:
            admin.list_topics()

    def create(self, topic: str):
        with closing(kafka.KafkaAdminClient(**self.settings())) as admin:
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})

    def delete(self, topic: str):
        with closing(kafka.KafkaAdminClient(**self.settings())) as admin:
            admin.delete_topics([topic])

    def write(self, topic: str, values: list[bytes]):
        with closing(kafka.KafkaProducer(**self.settings())) as producer:
            for sent in [producer.send(topic, value) for value in values]:
                sent.get(secured.DEADLINE_S)

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        of_group = {"group_id": group, "auto_offset_reset": "earliest"}
        until = {"consumer_timeout_ms": secured.DEADLINE_S * 1000}
        with closing(kafka.KafkaConsumer(topic, **self.settings(), **of_group, **until)) as consumer:
            return [next(consumer).value for _ in range(count)]


class Token(AbstractTokenProvider):
    def __init__(self, token: str):
        self._token = token

    def token(self) -> str:
        return self._token


if __name__ == "__main__":
    secured.main("kafka-python", kafka.__version__, Secured)
