import gzip
import os
import struct
import subprocess
import threading
import time
import unittest

from polite import TOPIC, PoliteProducer, create_topic

from harness.brokers import KINDS
from harness.protocol import (
    LIST_OFFSETS,
    PRODUCE,
    Connection,
    array,
    batch_of,
    produce_error_v3,
    produce_v3,
    record,
    string,
)

KIND = KINDS[os.environ["AGAINST"]]
NONE, INVALID_RECORD = 0, 87
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
TIMESTAMP_MS = 1_700_000_000_000
ZEROS_BYTES = 256 << 20
SEARCHERS = 16
SEARCHES_MEMORY_MAX = 128 << 20
POLITE_P99_MS_MAX = 1_000
DEADLINE_S = 120

ONE, TWO = record(0, b"x"), record(0, b"x") + record(1, b"y")
POISON = {
    "garbage": batch_of(b"garbage", 1),
    "one record of two": batch_of(TWO, 1),
    "two records in one": batch_of(ONE, 2),
    "junk behind the record": batch_of(ONE + b"junk", 1),
    "an offset that is not its own": batch_of(record(5, b"x"), 1),
    "a negative length": batch_of(b"\1" + bytes(8), 1),
    "nothing": batch_of(b"", 1),
    "gzip of fewer records": batch_of(gzip.compress(ONE), 3, GZIP),
    "gzip of nothing": batch_of(gzip.compress(b""), 1, GZIP),
    "gzip that is cut off": batch_of(gzip.compress(ONE)[:-9], 1, GZIP),
    "no gzip": batch_of(b"garbage", 1, GZIP),
    "no snappy": batch_of(b"garbage", 1, SNAPPY),
    "no lz4": batch_of(b"garbage", 1, LZ4),
    "no zstd": batch_of(b"garbage", 1, ZSTD),
}


def search_v1(topic: str, timestamp_ms: int) -> bytes:
    partition = struct.pack(">iq", 0, timestamp_ms)
    return struct.pack(">i", -1) + array([string(topic) + array([partition])])


class Poison(unittest.TestCase):
    def start(self):
        broker = KIND(self.id().rsplit(".", 1)[-1].replace("_", "-")).start()
        self.addCleanup(broker.kill)
        return broker

    def test_a_batch_that_nobody_could_read_is_refused_and_consumers_go_on(self):
        broker = self.start()
        create_topic(broker.bootstrap, "poison")
        expected = ["first"]
        with Connection(broker.bootstrap) as connection:
            for name, poison in POISON.items():
                # The oldest version that takes Zstandard; what comes first in its answer is as in version 3.
                error = produce_error_v3(connection.request(PRODUCE, 7, produce_v3("poison", 0, poison)))
                self.assertEqual(error, INVALID_RECORD, name)
                behind = batch_of(record(0, name.encode()), 1)
                self.assertEqual(produce_error_v3(connection.request(PRODUCE, 3, produce_v3("poison", 0, behind))), NONE)
                expected.append(name)
        command = ["kcat", "-b", broker.bootstrap, "-C", "-t", "poison", "-o", "beginning", "-e", "-q"]
        read = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        self.assertEqual(read.stdout.splitlines(), expected)

    def test_searches_by_time_in_zeros_take_no_memory_and_delay_nobody(self):
        broker = self.start()
        for topic in (TOPIC, "zeros"):
            create_topic(broker.bootstrap, topic)
        packed = gzip.compress(record(0, bytes(ZEROS_BYTES)), 6)
        zeros = produce_v3("zeros", 0, batch_of(packed, 1, GZIP))
        polite = self.enterContext(PoliteProducer(broker.bootstrap))
        before, peak, failures = broker.rss_bytes(), 0, []

        def search():
            try:
                with Connection(broker.bootstrap, DEADLINE_S) as connection:
                    self.assertEqual(produce_error_v3(connection.request(PRODUCE, 3, zeros)), NONE)
                    found = connection.request(LIST_OFFSETS, 1, search_v1("zeros", TIMESTAMP_MS))
                    error, _, offset = struct.unpack_from(">hqq", found, len(found) - 18)
                    self.assertEqual(error, NONE)
                    self.assertGreaterEqual(offset, 0)
            except Exception as failure:
                failures.append(failure)

        searchers = [threading.Thread(target=search) for _ in range(SEARCHERS)]
        for searcher in searchers:
            searcher.start()
        while any(searcher.is_alive() for searcher in searchers):
            peak = max(peak, broker.rss_bytes())
            time.sleep(0.02)
        latency = polite.finish()
        print(f"{(peak - before) >> 20} MiB more, {latency}")
        self.assertEqual(failures, [])
        self.assertLess(peak - before, SEARCHES_MEMORY_MAX)
        self.assertLess(latency.p99_ms, POLITE_P99_MS_MAX)
