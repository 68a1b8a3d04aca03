"""OpenTelemetry's own SDK and exporters before our source, and a server made of its messages behind our sink."""

import gzip
import json
import logging
import urllib.error
import urllib.request
from concurrent import futures

import grpc
from agents import Agent, AgentCase, lines_in
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from harness.ports import free_port
from harness.waiting import wait_until

DEADLINE_S = 60
EVENTS = 200


class Collector(logs_service_pb2_grpc.LogsServiceServicer):
    """Keeps records; is busy at first, and has no fives."""

    def __init__(self):
        self.records, self.calls = [], 0

    def Export(self, request, context):
        self.calls += 1
        if self.calls == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        records = [(logs.resource, record) for logs in request.resource_logs for scope in logs.scope_logs for record in scope.log_records]
        if any(record.body.string_value.endswith("5") for _, record in records):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no fives")
        self.records += records
        return logs_service_pb2.ExportLogsServiceResponse()


class Otlp(AgentCase):
    def source(self, more: str = "") -> Agent:
        self.port, self.arrived = free_port(), self.made("arrived")
        return Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'otlp'\nbind = '127.0.0.1'\nport = {self.port}\nchannels = ['c']\n{more}"
            f"[channels.c]\ntype = 'memory'\n"
            f"[sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{self.arrived}'\n'sink.serializer' = 'JSON'\n",
        ).start()

    def test_the_sdks_exporters_are_understood(self):
        self.source()
        url = f"http://127.0.0.1:{self.port}"
        exporters = {
            "grpc": GrpcExporter(endpoint=url, insecure=True),
            "grpc-gzip": GrpcExporter(endpoint=url, insecure=True, compression=grpc.Compression.Gzip),
            "http": HttpExporter(endpoint=f"{url}/v1/logs"),
        }
        for name, exporter in exporters.items():
            provider = LoggerProvider(resource=Resource.create({"service.name": name}))
            provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
            logger = logging.Logger(name)
            logger.addHandler(LoggingHandler(logger_provider=provider))
            for number in range(EVENTS):
                logger.error("event %d", number, extra={"number": number})
            provider.shutdown()
        wait_until(lambda: len(lines_in(self.arrived)) >= 3 * EVENTS, "all records", DEADLINE_S)
        events = [json.loads(line) for line in lines_in(self.arrived)]
        bodies = [(event["headers"]["resource.service.name"], event["body"]) for event in events]
        self.assertEqual(sorted(bodies), sorted((name, f"event {number}") for name in exporters for number in range(EVENTS)))
        headers = events[0]["headers"]
        self.assertEqual(headers["otlp.severity"], "17")
        self.assertEqual(headers["otlp.severityText"], "ERROR")
        self.assertEqual(headers["attribute.number"], events[0]["body"].removeprefix("event "))
        self.assertEqual(headers["timestamp"], headers["otlp.time"][:-6])

    def post(self, body: bytes, kind: str, path: str = "/v1/logs", **headers) -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": kind, **headers})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def test_json_is_taken_and_what_is_none_is_refused(self):
        agent = self.source("maxMessageBytes = 100000\n")
        record = {"body": {"stringValue": "one"}, "traceId": "5b8efff798038103d269b633813fc60c"}
        body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
        self.assertEqual(self.post(body, "application/json"), (200, b"{}"))
        self.assertEqual(self.post(gzip.compress(body), "application/json; charset=utf-8", **{"Content-Encoding": "gzip"}), (200, b"{}"))
        bomb = gzip.compress(b" " * (64 << 20))
        for status, *request in [
            (400, b"[", "application/json"),
            (400, b"\xff\xff", "application/x-protobuf"),
            (404, body, "application/json", "/v1/traces"),
            (413, b" " * 200_000, "application/json"),
            (415, body, "text/plain"),
        ]:
            self.assertEqual(self.post(*request)[0], status, request[1:])
        self.assertEqual(self.post(bomb, "application/json", **{"Content-Encoding": "gzip"})[0], 413)
        self.assertEqual(self.post(body, "application/json", **{"Content-Encoding": "br"})[0], 415)
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            traces = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            with self.assertRaises(grpc.RpcError) as refused:
                traces(b"", timeout=DEADLINE_S)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        wait_until(lambda: len(lines_in(self.arrived)) == 2, "both", DEADLINE_S)
        event = json.loads(lines_in(self.arrived)[0])
        self.assertEqual(event, {"body": "one", "headers": {"otlp.traceId": "5b8efff798038103d269b633813fc60c"}})
        self.assertEqual(agent.count("SOURCE.r", "EventReadFail"), 8)

    def test_a_collector_gets_each_record_once(self):
        collector = Collector()
        server = grpc.server(futures.ThreadPoolExecutor(2))
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(collector, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        dead = self.made("dead")
        agent = Agent(
            self,
            self.directory,
            "agent",
            f"[sources.r]\ntype = 'seq'\ntotalEvents = {EVENTS}\nbatchSize = 50\nchannels = ['c']\n"
            f"[channels.c]\ntype = 'memory'\n[channels.dead]\ntype = 'memory'\n"
            f"[sinks.k]\ntype = 'otlp'\nchannel = 'c'\ndead-letter = 'dead'\nendpoint = 'http://127.0.0.1:{port}'\nbatchSize = 64\n"
            f"[sinks.k.resource]\n'service.name' = 'counter'\n"
            f"[sinks.d]\ntype = 'file_roll'\nchannel = 'dead'\n'sink.directory' = '{dead}'\n",
        ).start()
        fives = {str(number) for number in range(5, EVENTS, 10)}
        wait_until(lambda: len(lines_in(dead)) >= len(fives), "the dead letters", DEADLINE_S)
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == 0, "the channel to be empty", DEADLINE_S)
        self.assertEqual(set(lines_in(dead)), fives)
        arrived = sorted(int(record.body.string_value) for _, record in collector.records)
        self.assertEqual(arrived, [number for number in range(EVENTS) if str(number) not in fives])
        resource, record = collector.records[0]
        self.assertEqual({pair.key: pair.value.string_value for pair in resource.attributes}, {"service.name": "counter"})
        self.assertGreater(record.observed_time_unix_nano, 1_700_000_000_000_000_000)
