#!/usr/bin/env python3
"""What it costs a broker to compress batches anew as `compression.type` says, beside Apache Kafka.

The same batches, made before, go one after the other over one connection to a topic of each target, at Logway and at
Kafka in turns. What is counted is the processor time of the broker's process for each record, and what a topic that
keeps batches as they are (`producer`) costs is taken off. That comparison holds on a machine that does other work, too;
rates do not.
"""

import argparse
import statistics
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "compression")]

from batches import CODECS, Batch, appended, fetched, record  # noqa: E402

from harness.apache_kafka import ApacheKafka  # noqa: E402
from harness.logway import Logway  # noqa: E402
from harness.protocol import PRODUCE, Connection, produce_error_v3, produce_v3  # noqa: E402
from harness.topics import create_topic  # noqa: E402

T = 1_700_000_000_000
TARGETS = {
    "producer": {},
    "uncompressed": {},
    "gzip": {},
    "snappy": {},
    "lz4": {},
    "zstd": {},
    "lz4 12": {"compression.lz4.level": "12"},
    "zstd 10": {"compression.zstd.level": "10"},
}
# Appends that need no sync on either side: what is measured is the processor.
UNSYNCED = {"flush.messages": "9223372036854775807", "retention.ms": "-1"}


def batch_of(records: int) -> Batch:
    """Records of about 200 bytes, as a web server logs them."""
    plain = b""
    for number in range(records):
        value = (
            b'{"time":"2026-11-25T13:%02d:%02d.%03dZ","client":"10.%d.%d.%d","method":"GET","path":"/items/%d/reviews",'
            b'"status":%d,"bytes":%d,"agent":"Mozilla/5.0 (X11; Linux x86_64)"}'
            % (
                number // 60 % 60,
                number % 60,
                number * 7919 % 1000,
                number * 31 % 256,
                number * 57 % 256,
                number * 101 % 256,
                number * 7919 % 10007,
                (200, 200, 200, 304, 404)[number % 5],
                number * 104729 % 65536,
            )
        )
        plain += record(number, number, b"user-%d" % (number * 13 % 997), value)
    last = records - 1
    return Batch(base_timestamp=T, max_timestamp=T + last, last_offset_delta=last, count=records, plain=plain)


def append(broker, topic: str, raw: bytes, times: int):
    request = produce_v3(topic, 0, raw, acks=1)
    with Connection(broker.bootstrap, timeout_s=120) as connection:
        for _ in range(times):
            error = produce_error_v3(connection.request(PRODUCE, 7, request))
            if error:
                raise AssertionError(f"error {error} for an append to {topic}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--batches", type=int, default=400, help="appends of a round to each topic")
    arguments.add_argument("--records", type=int, default=500, help="records of a batch")
    arguments.add_argument("--sources", nargs="+", default=["none", "gzip", "zstd"], choices=CODECS)
    options = arguments.parse_args()
    batch = batch_of(options.records)
    brokers = [kind("bench-compression") for kind in (Logway, ApacheKafka)]
    for broker in brokers:
        broker.start()
    try:
        measure(options, batch, brokers)
    finally:
        for broker in brokers:
            broker.stop()


def measure(options, batch: Batch, brokers: list):
    print(f"{options.records} records in a batch of {len(batch.encode('none'))} bytes without compression;")
    print(f"{options.rounds} rounds of {options.batches} batches, both brokers in turns; medians\n")
    print("| from | to | batch stored, Logway / Kafka | added µs a record, Logway | Kafka | Logway / Kafka |")
    print("|---|---|---|---|---|---|")
    for source in options.sources:
        raw = batch.encode(source)
        targets = {name: more for name, more in TARGETS.items() if codec_of(name) != source}
        spent = {}
        for name, more in targets.items():
            topic = f"{source}-to-{name.replace(' ', '-')}"
            for broker in brokers:
                create_topic(broker.bootstrap, topic, 1, **UNSYNCED, **more, compression_type=name.split()[0])
                appended(broker.bootstrap, topic, raw)
                spent[broker.kind, name, "size"] = fetched(broker.bootstrap, topic)[0].size
                append(broker, topic, raw, options.batches)  # warms the JVM
                spent[broker.kind, name] = []
        for _ in range(options.rounds):
            for name in targets:
                for broker in brokers:
                    before = broker.cpu_s()
                    append(broker, f"{source}-to-{name.replace(' ', '-')}", raw, options.batches)
                    used_us = (broker.cpu_s() - before) * 1e6
                    spent[broker.kind, name].append(used_us / options.batches / options.records)
        kept = {broker.kind: statistics.median(spent[broker.kind, "producer"]) for broker in brokers}
        print(f"| {source} | kept (all of it) | | {kept['logway']:.3f} | {kept['kafka']:.3f} | |")
        for name in list(targets)[1:]:
            rounds = zip(spent["logway", name], spent["kafka", name], strict=True)
            pairs = [(ours - kept["logway"], theirs - kept["kafka"]) for ours, theirs in rounds]
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            sizes = f"{spent['logway', name, 'size']} / {spent['kafka', name, 'size']}"
            print(f"| {source} | {name} | {sizes} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |", flush=True)


def codec_of(target: str) -> str:
    return {"uncompressed": "none"}.get(target, target.split()[0])


if __name__ == "__main__":
    main()
