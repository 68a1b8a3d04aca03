"""Python's confluent-kafka where TLS and passwords are asked for."""

import time

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from client_cases import secured
from harness.waiting import wait_until

TOKEN_LIFETIME_S = 300


class Secured:
    def __init__(self, task: secured.Task):
        self.task = task
        self.said = []
        self.has_token = False

    def settings(self) -> dict:
        task = self.task
        settings = {"bootstrap.servers": task.bootstrap, "security.protocol": task.protocol, "log_level": 0}
        settings["error_cb"] = lambda error: self.said.append(error.str())
        if task.ca:
            settings["ssl.ca.location"] = task.ca
        if task.certificate:
            settings |= {"ssl.certificate.location": task.certificate, "ssl.key.location": task.key}
        if task.token:
            settings |= {"sasl.mechanisms": "OAUTHBEARER", "oauth_cb": self.give_token}
        elif task.mechanism:
            settings |= {"sasl.mechanisms": task.mechanism, "sasl.username": task.user, "sasl.password": task.password}
        return settings

    def admin(self) -> AdminClient:
        self.has_token = False
        admin = AdminClient(self.settings())
        if self.task.token:
            # It is asked for by polling.
            wait_until(lambda: admin.poll(0.1) or self.has_token, "a token to be asked for", secured.DEADLINE_S)
        return admin

    def give_token(self, _config):
        self.has_token = True
        return self.task.token, time.time() + TOKEN_LIFETIME_S

    def connect(self):
        admin = self.admin()
        wait_until(lambda: admin.poll(0.1) or self.said, "an error to be told", secured.DEADLINE_S)
        raise ConnectionError(self.said.pop(0))

    def create(self, topic: str):
        admin = self.admin()
        admin.create_topics([NewTopic(topic, 1)])[topic].result(secured.DEADLINE_S)

    def delete(self, topic: str):
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(secured.DEADLINE_S)

    def write(self, topic: str, values: list[bytes]):
        producer, errors = confluent_kafka.Producer(self.settings()), []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: error and errors.append(error))
        left = producer.flush(secured.DEADLINE_S)
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        if left:
            raise TimeoutError(f"{left} records are not acknowledged")

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer(self.settings() | {"group.id": group, "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([topic])
            values, end = [], time.monotonic() + secured.DEADLINE_S
            while len(values) < count:
                if time.monotonic() > end:
                    raise TimeoutError(f"read {len(values)} records")
                message = consumer.poll(0.5)
                if message is not None and message.error():
                    raise confluent_kafka.KafkaException(message.error())
                if message is not None:
                    values.append(message.value())
            return values
        finally:
            consumer.close()


if __name__ == "__main__":
    secured.main("confluent-kafka", confluent_kafka.__version__, Secured)
