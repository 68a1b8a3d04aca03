import client

from client_cases.case import ClientCase, numbered, produce
from client_cases.model import Code, Record, Refused, fresh, read, wait_until

COMMITTED, ALL = "read_committed", "read_uncommitted"
# Between the two versions of the protocol the broker's word for it has changed.
FENCED = {Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED}


class Transactions(ClientCase):
    """A topic that is copied to two others, with the offsets of the copied records in the same transaction."""

    def setUp(self):
        self.need("TransactionalProducer")
        self.source, self.first, self.second = (self.create_topic(purpose) for purpose in ("source", "first", "second"))
        self.group = fresh("copier")
        produce(self.source, numbered(10))
        self.reader = self.consumer(group=self.group, isolation=COMMITTED)
        self.reader.assign(self.source, {0: 0})
        read(self.reader, 10)

    def open(self, transactional_id: str) -> "client.TransactionalProducer":
        producer = client.TransactionalProducer(transactional_id)
        self.addCleanup(producer.close)
        return producer

    def copy(self, producer, word: bytes, offset: int):
        """Leaves a transaction open in which there is a record for each topic, and an offset."""
        producer.begin()
        for topic in (self.first, self.second):
            producer.send(topic, 0, Record(word))
        producer.flush()
        producer.send_offsets(self.reader, {(self.source, 0): offset})

    def values(self, isolation: str, count: int) -> list[list[bytes]]:
        """The first so many of each of the two topics, of which there must be no more."""
        both = []
        for topic in (self.first, self.second):
            consumer = self.consumer(isolation=isolation)
            consumer.assign(topic, {0: 0})
            records = read(consumer, count) + consumer.poll(0.3)
            both.append([record.value for record in records])
        return both

    def committed(self) -> int | None:
        found = self.reader.committed(self.source, 0)
        return found and found[0]

    def test_transaction_commit(self):
        producer = self.open(fresh("copier"))
        self.copy(producer, b"one", 4)
        self.assertEqual(self.values(ALL, 1), [[b"one"]] * 2)
        self.assertEqual(self.values(COMMITTED, 0), [[]] * 2)
        producer.commit()
        self.assertEqual(self.values(COMMITTED, 1), [[b"one"]] * 2)
        wait_until(lambda: self.committed() == 4, "the offset of the transaction")
        # The same producer goes on.
        self.copy(producer, b"two", 7)
        producer.commit()
        self.assertEqual(self.values(COMMITTED, 2), [[b"one", b"two"]] * 2)
        wait_until(lambda: self.committed() == 7, "the offset of the second transaction")

    def test_transaction_abort(self):
        producer = self.open(fresh("copier"))
        self.copy(producer, b"gone", 4)
        producer.abort()
        self.copy(producer, b"kept", 2)
        producer.commit()
        self.assertEqual(self.values(COMMITTED, 1), [[b"kept"]] * 2)
        self.assertEqual(self.values(ALL, 2), [[b"gone", b"kept"]] * 2)
        wait_until(lambda: self.committed() == 2, "the offset of the second transaction")

    def test_transaction_fence(self):
        transactional_id = fresh("copier")
        zombie = self.open(transactional_id)
        self.copy(zombie, b"zombie", 9)
        # It aborts what the first one has left open.
        successor = self.open(transactional_id)
        with self.assertRaises(Refused) as raised:
            zombie.commit()
        self.assertIn(raised.exception.code, FENCED, raised.exception)
        self.copy(successor, b"successor", 3)
        successor.commit()
        self.assertEqual(self.values(COMMITTED, 1), [[b"successor"]] * 2)
        wait_until(lambda: self.committed() == 3, "the successor's offset")
