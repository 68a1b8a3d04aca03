"""Records that a broker has put away for good."""

import re

from harness.broker import Broker
from harness.protocol import PRODUCE, Connection, batch_v2, produce_v3, produced_v3
from harness.waiting import wait_until

CHECKPOINT = "recovery-point-offset-checkpoint"
DEADLINE_S = 300


def store(broker: Broker, topic: str, batches: int, value: bytes):
    """Appends batches of one record to partition 0, and waits until all full segments are sealed.

    Each batch has to be alone in its segment: the recovery point passes a segment when it is sealed.
    """
    append = produce_v3(topic, 0, batch_v2([value], timestamp_ms=1_700_000_000_000))
    with Connection(broker.bootstrap, DEADLINE_S) as connection:
        for _ in range(batches):
            error, last = produced_v3(connection.request(PRODUCE, 3, append))
            if error != 0:
                raise AssertionError(f"error {error} for an append to {topic}")
    point = re.compile(rf"^{re.escape(topic)} 0 (\d+)$", re.MULTILINE)

    def is_sealed() -> bool:
        found = point.search((broker.data_dir / CHECKPOINT).read_text())
        return found is not None and int(found[1]) >= last

    wait_until(is_sealed, f"{topic} to be sealed", DEADLINE_S)
