"""Readers that read nothing, and filters that pass nothing: the broker stays small, and a polite producer is served."""

import os
import sys
import unittest
from pathlib import Path

import grpc
from confluent_kafka.admin import NewTopic
from log_client import DEADLINE_S, Appender, connect, read
from logway.log.v1 import log_pb2, log_pb2_grpc

from harness.load import create_topics
from harness.logway import Logway
from harness.waiting import wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hostile"))
from polite import TOPIC, PoliteProducer  # noqa: E402

SLOW_READERS = int(os.environ.get("SLOW_READERS", "1000"))
PER_CHANNEL = 100
FILTERS = 8
# Each has two pieces of up to 32 KiB on their way, beside two budgets of half of queued.max.request.bytes each.
GROWTH_BYTES_MAX = 384 << 20
# A log of so many bytes, far more than the readers may have of it together.
VALUE = b'["' + b'x","' * 2_500 + b'"]'
APPENDS, PER_APPEND = 60, 50


class Hostile(unittest.TestCase):
    def setUp(self):
        self.broker = Logway("logservice-hostile", {"logservice.listen": "127.0.0.1:0",
                                                    "queued.max.request.bytes": str(128 << 20)}).start()
        self.addCleanup(self.broker.kill)
        create_topics(self.broker.bootstrap, NewTopic("large", 1, 1), NewTopic(TOPIC, 1, 1))
        appender = Appender(lambda: self.broker.log_service, "large")
        for _ in range(APPENDS):
            appender.append([VALUE] * PER_APPEND)
        appender.finish()

    def channel(self) -> grpc.Channel:
        # Its window is never opened further while nobody takes what has come.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0),
                   ("grpc.max_receive_message_length", -1)]
        return self.enterContext(grpc.insecure_channel(self.broker.log_service, options))

    def test_a_thousand_slow_readers(self):
        before = self.broker.rss_bytes()
        with PoliteProducer(self.broker.bootstrap) as polite:
            calls = []
            for _ in range(SLOW_READERS // PER_CHANNEL):
                service = log_pb2_grpc.LogServiceStub(self.channel())
                calls += [service.Read(log_pb2.ReadRequest(log="large")) for _ in range(PER_CHANNEL)]
            open_streams = f"logway_log_service_read_streams_open {SLOW_READERS}\n"
            wait_until(lambda: open_streams in self.broker.metrics(), open_streams, DEADLINE_S)
            polite.wait_for_acks(500)
            # One who reads is served beside them.
            count = sum(1 for _ in read(lambda: self.broker.log_service, "large"))
            self.assertEqual(count, APPENDS * PER_APPEND)
            polite.wait_for_acks(500)
            grown = self.broker.rss_bytes() - before
            latency = polite.finish()
            for call in calls:
                call.cancel()
        print(f"{SLOW_READERS} slow readers: {grown >> 20} MiB more, {latency}")
        self.assertLess(grown, GROWTH_BYTES_MAX)

    def test_filters_that_pass_nothing(self):
        with PoliteProducer(self.broker.bootstrap) as polite:
            service = log_pb2_grpc.LogServiceStub(self.channel())
            # An expression as long as they may be, which is never true.
            long = "||".join(["'nobody' in value"] * 60)
            filters = [log_pb2.Filter(keys=[b"nobody"]), log_pb2.Filter(expression=long)]
            calls = [service.Read(log_pb2.ReadRequest(log="large", progress_interval_ms=100, filter=filters[it % 2]))
                     for it in range(FILTERS)]
            for call in calls:
                progress = 0
                while progress < APPENDS * PER_APPEND:
                    reply = next(call)
                    self.assertEqual(len(reply.records), 0)
                    self.assertGreaterEqual(reply.next_offset, progress)
                    progress = reply.next_offset
            polite.wait_for_acks(500)
            latency = polite.finish()
            for call in calls:
                call.cancel()
        print(f"{FILTERS} filters that pass nothing: {latency}")
