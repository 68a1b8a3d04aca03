"""aiokafka where TLS and passwords are asked for."""

import asyncio

import aiokafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.helpers import create_ssl_context

from client_cases import secured


class Secured:
    def __init__(self, task: secured.Task):
        self.task = task

    def settings(self) -> dict:
        task = self.task
        settings = {"bootstrap_servers": task.bootstrap, "security_protocol": task.protocol}
        if task.ca:
            settings["ssl_context"] = create_ssl_context(
                cafile=task.ca, certfile=task.certificate or None, keyfile=task.key or None
            )
        return settings | task.sasl_settings(Token)

    def connect(self):
        self.run(AIOKafkaAdminClient, lambda admin: admin.list_topics())

    def create(self, topic: str):
        async def create(admin):
            answer = await admin.create_topics([NewTopic(topic, 1, 1)])
            for name, code, *_ in answer.topic_errors:
                if code:
                    raise aiokafka.errors.for_code(code)(name)

        self.run(AIOKafkaAdminClient, create)

    def delete(self, topic: str):
        async def delete(admin):
            answer = await admin.delete_topics([topic])
            for name, code, *_ in answer.topic_error_codes:
                if code:
                    raise aiokafka.errors.for_code(code)(name)

        self.run(AIOKafkaAdminClient, delete)

    def write(self, topic: str, values: list[bytes]):
        async def write(producer):
            for value in values:
                await producer.send_and_wait(topic, value)

        self.run(aiokafka.AIOKafkaProducer, write)

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        async def read(consumer):
            return [(await consumer.getone()).value for _ in range(count)]

        of_group = {"group_id": group, "auto_offset_reset": "earliest"}
        return self.run(aiokafka.AIOKafkaConsumer, read, topic, **of_group)

    def run(self, kind, use, *arguments, **more):
        async def run():
            client = kind(*arguments, **self.settings(), **more)
            try:
                await (client.start())
                return await use(client)
            finally:
                await (client.close() if kind is AIOKafkaAdminClient else client.stop())

        return asyncio.run(asyncio.wait_for(run(), secured.DEADLINE_S))


class Token(AbstractTokenProvider):
    def __init__(self, token: str):
        self._token = token

    async def token(self) -> str:
        return self._token


if __name__ == "__main__":
    secured.main("aiokafka", aiokafka.__version__, Secured)
