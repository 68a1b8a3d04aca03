"""As Copier.java, with librdkafka, which speaks the classic protocol: AddPartitionsToTxn, and an epoch that stays."""

import os
import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer

# Behind a restart of a broker librdkafka may look for the coordinator of a group and never send the offsets, with Apache
# Kafka, too. A process that gets nothing done for so long begins anew.
PATIENCE_S = 15

progress_at = time.monotonic()


def note(line: str):
    global progress_at
    progress_at = time.monotonic()
    print(line, flush=True)


def watch():
    while time.monotonic() - progress_at < PATIENCE_S:
        time.sleep(0.5)
    print("anew: nothing gets done", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv[:-1], str(int(sys.argv[-1]) + 1)])


def copy(bootstrap: str, transactional_id: str, group: str, source: str, target: str, count: int, chance) -> bool:
    quiet = {"log_level": 2, "reconnect.backoff.max.ms": 200}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, **quiet})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            **quiet,
        }
    )
    try:
        producer.init_transactions(30)
        consumer.subscribe([source])
        while True:
            records = [record for record in consumer.consume(40, 0.5) if record.error() is None]
            assigned = consumer.assignment()
            if not records:
                offsets = consumer.committed(assigned, 10) if assigned else []
                if sum(max(it.offset, 0) for it in offsets) >= count:
                    return True
                continue
            producer.begin_transaction()
            for record in records:
                producer.produce(target, key=record.key(), value=record.value())
            positions = consumer.position(assigned)
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
            if chance.randrange(5) == 0:
                producer.flush(30)
                producer.abort_transaction(30)
                note(f"aborted {len(records)}")
                return False
            producer.commit_transaction(30)
            note(f"committed {len(records)}")
    finally:
        consumer.close()


def main():
    bootstrap, transactional_id, group, source, target, count, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    threading.Thread(target=watch, daemon=True).start()
    while True:
        try:
            if copy(bootstrap, transactional_id, group, source, target, int(count), chance):
                note("done")
                return
        except KafkaException as failure:
            note(f"anew: {failure}")
            time.sleep(0.2)


if __name__ == "__main__":
    main()
