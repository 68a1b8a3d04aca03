"""The metrics as others read them: Prometheus' own checker, the parsers of its Python client, and Telegraf's."""

import gzip
import json
import os
import subprocess
import unittest
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from harness.logway import BINARY, Logway
from harness.protocol import ALTER_CLIENT_QUOTAS, Connection, client_quota_v0
from harness.waiting import wait_until

HERE = Path(__file__).parent
OPEN_METRICS = "application/openmetrics-text"
# What the two versions of Prometheus send.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
# What Telegraf's input sends.
TELEGRAF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
    "text/plain;version=0.0.4;q=0.3"
)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("operating-metrics").start()
        cls.addClassCleanup(cls.broker.kill)
        for number in range(3):
            cls.logway("topic", "create", f"topic-{number}", "-p", "2", "-c", "cleanup.policy=compact")
            cls.logway("produce", f"topic-{number}", "-k", ":", stdin=b"key:value\n" * 100)
            cls.logway("consume", f"topic-{number}", "--group", "group", "-o", "start", "-n", "100")
        cls.logway("config", "set", "client-metrics", "all", "interval.ms=100", "metrics=*")
        with Connection(cls.broker.bootstrap) as connection:
            connection.request(ALTER_CLIENT_QUOTAS, 0, client_quota_v0("greedy", "producer_byte_rate", 1_000))
        cls.push_metrics()

    @classmethod
    def push_metrics(cls):
        """A client that exceeds its quota, and one that pushes metrics of its own: there are metrics of either."""
        names = ("greedy", "telling")
        greedy, telling = (Producer({"bootstrap.servers": cls.broker.bootstrap, "client.id": name}) for name in names)
        greedy.produce("topic-0", b"x" * 100_000, b"key")

        def is_shown() -> bool:
            telling.produce("topic-0", b"x", b"key")
            telling.flush(10)
            shown = cls.broker.metrics()
            return "logway_client_metric{" in shown and "logway_throttled_requests_total{" in shown

        wait_until(is_shown, "metrics of a client", 60)

    @classmethod
    def logway(cls, *arguments: str, stdin: bytes = b""):
        command = [BINARY, *arguments, "-b", cls.broker.bootstrap]
        subprocess.run(command, input=stdin, check=True, capture_output=True, timeout=60)

    def get(self, path: str = "/metrics", method: str = "GET", **headers: str):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://{self.broker.http}{path}", method=method, headers=headers)
        return urllib.request.urlopen(request, timeout=60)

    def text(self, **headers: str) -> str:
        return self.get(**headers).read().decode()

    def test_promtool_has_nothing_to_say(self):
        command = [os.environ["PROMTOOL"], "check", "metrics"]
        done = subprocess.run(command, input=self.text(), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_telegraf_knows_the_type_of_each(self):
        with self.get(Accept=TELEGRAF) as page:
            command = ["go", "run", ".", page.headers["Content-Type"]]
            done = subprocess.run(command, input=page.read(), capture_output=True, cwd=HERE / "telegraf", timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        counts = json.loads(done.stdout)
        self.assertEqual(counts["untyped"], 0)
        self.assertGreater(min(counts["counter"], counts["gauge"], counts["histogram"]), 20)

    def test_each_family_is_there_once_with_type_and_help_in_both_formats(self):
        text = list(parse_text(self.text()))
        open_text = self.text(Accept=OPEN_METRICS)
        open_families = list(openmetrics.text_string_to_metric_families(open_text))
        for families in (text, open_families):
            names = Counter(family.name for family in families)
            self.assertEqual([name for name, count in names.items() if count > 1], [])
            self.assertEqual([family.name for family in families if family.type in ("unknown", "untyped")], [])
            self.assertEqual([family.name for family in families if not family.documentation], [])
        described = [{(family.name, family.type, family.documentation) for family in families}
                     for families in (text, open_families)]
        self.assertEqual(*described)
        samples = [{(sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples}
                   for families in (text, open_families)]
        self.assertEqual(*samples)
        self.assertGreater(len(samples[0]), 500)

    def test_an_upgrade_and_the_space_of_each_disk_can_be_seen(self):
        samples = {sample.name: sample for family in parse_text(self.text()) for sample in family.samples}
        told = subprocess.run([BINARY, "--version"], check=True, capture_output=True, text=True, timeout=60).stdout
        build = samples["logway_build_info"]
        self.assertEqual(build.value, 1)
        self.assertIn(f" {build.labels['version']} (", told)
        if build.labels["commit"] != "unknown":
            self.assertIn(f"({build.labels['commit']})", told)
        disk = os.statvfs(self.broker.data_dir)
        free, total = (samples[f"logway_log_dir_{what}_bytes"] for what in ("free", "total"))
        self.assertEqual([free.labels["log_dir"], total.labels["log_dir"]], [str(self.broker.data_dir)] * 2)
        self.assertEqual(total.value, disk.f_blocks * disk.f_frsize)
        self.assertTrue(0 < free.value <= total.value)

    def test_who_asks_gets_the_format_that_he_reads(self):
        for accept, expected in (
            (None, "text/plain; version=0.0.4; charset=utf-8"),
            (TELEGRAF, "text/plain; version=0.0.4; charset=utf-8"),
            (PROMETHEUS_2, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ):
            with self.subTest(accept=accept):
                answer = self.get(**({"Accept": accept} if accept else {}))
                self.assertEqual(answer.headers["Content-Type"], expected)
                is_open = OPEN_METRICS in expected
                self.assertEqual(answer.read().endswith(b"# EOF\n"), is_open)

    def test_compressed_is_the_same(self):
        answer = self.get(Accept_Encoding="gzip", Accept=OPEN_METRICS)
        self.assertEqual(answer.headers["Content-Encoding"], "gzip")
        packed = answer.read()
        unpacked = gzip.decompress(packed)
        self.assertIn(b"# TYPE logway_topics gauge\n", unpacked)
        self.assertLess(5 * len(packed), len(unpacked))

    def test_head_and_what_is_not_served(self):
        answer = self.get(method="HEAD")
        self.assertEqual(answer.read(), b"")
        self.assertGreater(int(answer.headers["Content-Length"]), 10_000)
        for path, method, code in (("/nowhere", "GET", 404), ("/metrics", "POST", 405), ("/health/ready", "PUT", 405)):
            with self.subTest(path=path), self.assertRaises(urllib.error.HTTPError) as failed:
                self.get(path, method)
            self.assertEqual(failed.exception.code, code)
            self.assertEqual(failed.exception.headers["Allow"], "GET,HEAD" if code == 405 else None)
