import base64
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from command import (
    BOOTSTRAP,
    DEADLINE_S,
    consume,
    consume_json,
    create_topic,
    logway,
    logway_json,
    numbered_lines,
    produce,
    run,
    wait_until,
)

from harness.logway import BINARY


class RoundTrip(unittest.TestCase):
    def test_every_codec_keeps_each_line(self):
        sent = numbered_lines(20_000)
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
            with self.subTest(codec):
                topic = create_topic(codec)
                produce(topic, sent, "-z", codec)
                self.assertEqual(consume(topic), sent)

    def test_every_level_of_acks(self):
        for acks in ["0", "1", "all"]:
            with self.subTest(acks):
                topic = create_topic(f"acks-{acks}")
                produce(topic, numbered_lines(1_000), "--acks", acks)
                self.assertEqual(consume(topic), numbered_lines(1_000))

    def test_a_file_with_bytes_that_are_not_text(self):
        topic = create_topic("file")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"\xff\xfe\n\n\r\nlast")
            file.flush()
            self.assertEqual(run("produce", topic, file.name, "-d", r"\n").stdout, b"")
        self.assertEqual(consume(topic), b"\xff\xfe\n\n\r\nlast\n")
        values = [(record["value"], record.get("value_encoding")) for record in consume_json(topic)]
        self.assertEqual(values[0], (base64.b64encode(b"\xff\xfe").decode(), "base64"))
        self.assertEqual(values[1], ("", None))

    def test_keys_headers_partition_and_tombstones(self):
        topic = create_topic("kinds", "-p", "3")
        produce(topic, b"k=v=w\nk=\nno key\n", "-k", "=", "-H", "a=1", "-H", "a=2", "-p", "2", "--tombstone")
        records = consume_json(topic)
        self.assertEqual(
            [(record["key"], record["value"]) for record in records], [("k", "v=w"), ("k", None), (None, "no key")]
        )
        for offset, record in enumerate(records):
            self.assertEqual((record["topic"], record["partition"], record["offset"]), (topic, 2, offset))
            self.assertEqual(record["headers"], [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}])
            self.assertLess(abs(time.time() * 1000 - record["timestamp"]), 60_000)

    def test_a_record_without_a_timestamp(self):
        topic = create_topic("timeless")
        produce(topic, b'{"value":"v","timestamp":-1}\n', "--input-format", "json")
        self.assertEqual(consume(topic, "-f", r"%T %T{rfc3339}"), b"-1 -1")

    def test_a_template(self):
        topic = create_topic("template")
        produce(topic, b"k\tv\n", "-k", "\\t", "-H", "h=1")
        self.assertEqual(
            consume(topic, "-f", r"%t/%p:%o %k(%K)=%v(%V) %h 100%%\n"), f"{topic}/0:0 k(1)=v(1) h=1 100%\n".encode()
        )

    def test_equal_keys_meet_in_one_partition(self):
        topic = create_topic("keyed", "-p", "4")
        produce(topic, b"".join(b"k%d:%d\n" % (number % 20, number) for number in range(2_000)), "-k", ":")
        homes, last = {}, {}
        for line in consume(topic, "-f", r"%p %k %v\n").splitlines():
            partition, key, number = line.split()
            self.assertEqual(homes.setdefault(key, partition), partition)
            self.assertGreater(int(number), last.get(key, -1))
            last[key] = int(number)
        self.assertEqual((len(homes), len(set(homes.values()))), (20, 4))

    def test_the_report_as_data(self):
        report = logway_json("produce", create_topic("report"), stdin=numbered_lines(10))
        (partition,) = report["partitions"]
        self.assertEqual((report["records"], partition["first_offset"], partition["last_offset"]), (10, 0, 9))


    def test_records_that_are_refused_are_counted_apart(self):
        topic = create_topic("refused", "-p", "1", "-c", "max.message.bytes=1000")
        refused = run("produce", topic, "--format", "json", stdin=b"x" * 2_000)
        self.assertEqual(refused.returncode, 1)
        report = json.loads(refused.stdout)
        counts = [report[f"{kind}_records"] for kind in ("refused", "unsent", "unanswered")]
        self.assertEqual((report["records"], counts), (0, [1, 0, 0]))
        self.assertIn("1 record more was refused by the broker\n", refused.stderr.decode())

    def test_a_records_form_in_json(self):
        """Every field that a record of JSON can have."""
        topic = create_topic("json")
        produce(topic, b"k=v\n", "-k", "=", "-H", "a=1")
        produce(topic, b"\0\xff", "-d", "", "--key", "ff", "--key-encoding", "hex")
        text, binary = consume_json(topic)
        self.assertEqual((text["key"], text["value"]), ("k", "v"))
        self.assertEqual((binary["key"], binary["key_encoding"]), ("/w==", "base64"))
        self.assertEqual((binary["value"], binary["value_encoding"]), ("AP8=", "base64"))


class Input(unittest.TestCase):
    """Every way to make records of files and pipes."""

    AVRO = b"Obj\x01\x04\x14avro.codec\x08null\0" + bytes(range(256)) * 10
    AWKWARD = b"".join(
        json.dumps(record).encode() + b"\n"
        for record in [
            {"key": None, "value": None, "timestamp": 1_000, "partition": 2},
            {"key": "", "value": "", "timestamp": 2_000, "partition": 0},
            {"key": "/w==", "key_encoding": "base64", "value": "00ff", "value_encoding": "hex", "partition": 1},
            {"key": 'a"\n\0\u00fc\U0001f600', "value": "{}", "headers": [{"key": "h", "value": None}], "partition": 1},
            {"value": "v", "headers": [{"key": "h", "value": "1"}, {"key": "h", "value": ""}], "partition": 2},
            {"value": "v", "headers": [{"key": "gA==", "key_encoding": "base64", "value": "8J8=",
                                        "value_encoding": "base64"}], "partition": 2},
        ]
    )  # fmt: skip

    def refused(self, *arguments: str, stdin: bytes = b"", code: int = 1) -> str:
        refused = run("produce", *arguments, stdin=stdin)
        stderr = refused.stderr.decode()
        self.assertEqual((refused.returncode, refused.stdout), (code, b""), stderr)
        return stderr

    def test_json_passes_from_one_command_to_the_other_unchanged(self):
        topics = [create_topic("piped", "-p", "3", "-c", "message.timestamp.type=CreateTime") for _ in range(3)]
        produce(topics[0], self.AWKWARD, "--input-format", "json")
        first = consume(topics[0], "--format", "json")
        self.assertEqual(first.count(b"\n"), 6)
        produce(topics[1], first, "--input-format", "json")
        produce(topics[2], consume(topics[1], "--format", "json", "--value-encoding", "hex"), "--input-format", "json")

        def by_partition(output: bytes) -> list[str]:
            lines = [re.sub(rb'"topic":"[^"]+"', b"", line) for line in output.splitlines()]
            return sorted(lines, key=lambda line: json.loads(line.replace(b"{,", b"{"))["partition"])

        for copy in topics[1:]:
            self.assertEqual(by_partition(consume(copy, "--format", "json")), by_partition(first))
        kept = {(record["partition"], record["timestamp"]) for record in consume_json(topics[2])}
        self.assertLessEqual({(2, 1_000), (0, 2_000)}, kept)

    def test_json_into_a_topic_of_other_partitions(self):
        narrow = create_topic("narrow")
        line = b'{"value":"v","partition":2}\n'
        self.assertIn("-p auto", self.refused(narrow, "--input-format", "json", stdin=line))
        produce(narrow, line, "--input-format", "json", "-p", "auto", "-H", "added=1")
        (record,) = consume_json(narrow)
        self.assertEqual((record["partition"], record["headers"]), (0, [{"key": "added", "value": "1"}]))

    def test_json_that_is_none_is_refused_and_what_came_before_it_is_sent(self):
        topic = create_topic("half-json")
        for wrong, expected in [(b"hello", "line 3 of stdin"), (b'{"vaule":"x"}', "vaule"), (b'{"key":"k"}', "value"),
                                (b'[null,0,null,1,null,null,"v"]', "expected an object")]:
            stderr = self.refused(topic, "--input-format", "json", stdin=b'{"value":"good"}\n\n' + wrong + b"\n")
            self.assertIn(expected, stderr)
            self.assertIn("produced 1 record", stderr)
            self.assertIn("hint: ", stderr)
        self.assertEqual(consume(topic), b"good\n" * 4)

    def test_options_that_json_leaves_nothing_to_do_for(self):
        for option in [["-k", ":"], ["--tombstone"], ["--value-encoding", "hex"], ["--key-encoding", "hex"]]:
            self.assertIn(option[0], self.refused("t", "--input-format", "json", *option, code=2))

    def test_whole_files(self):
        topic = create_topic("whole")
        with tempfile.TemporaryDirectory() as directory:
            names = [f"{directory}/{name}" for name in ["a", "b", "empty"]]
            for name, content in zip(names, [self.AVRO, b"two\nlines\n", b""], strict=True):
                Path(name).write_bytes(content)
            logway("produce", topic, *names, "-d", "", "--key", "k")
        self.assertEqual(consume(topic, "-f", "%k%V "), b"k%d k10 k0 " % len(self.AVRO))
        self.assertEqual(consume(topic, "-n", "1", "-f", "%v"), self.AVRO)

    def test_other_delimiters(self):
        for delimiter, stdin, records in [
            (r"\0", b"a\nb\0\0c", [b"a\nb", b"", b"c"]),
            (r"\r\n", b"a\r\nb\nc\r\n", [b"a", b"b\nc"]),
            ("-|-", b"a-b-|-c", [b"a-b", b"c"]),
        ]:
            with self.subTest(delimiter):
                topic = create_topic("delimited")
                produce(topic, stdin, "-d", delimiter)
                self.assertEqual(consume(topic, "-f", "%v|"), b"".join(record + b"|" for record in records))

    def test_what_is_not_text_is_refused_before_anything_is_sent(self):
        topic = create_topic("binary")
        with tempfile.TemporaryDirectory() as directory:
            text, avro, missing = (f"{directory}/{name}" for name in ["text", "avro", "missing"])
            Path(text).write_bytes(b"text\n")
            Path(avro).write_bytes(self.AVRO)
            for arguments, stdin in [([], self.AVRO), ([avro], b""), ([text, avro], b""), ([text, missing], b"")]:
                with self.subTest(arguments):
                    self.assertNotIn("produced", self.refused(topic, *arguments, stdin=stdin))
            stderr = self.refused(topic, avro)
        for expected in ["avro is not text", "hint: ", "-d ''", r"-d '\n'"]:
            self.assertIn(expected, stderr)
        self.assertEqual(consume(topic), b"")

    def test_oddities_of_lines_are_remarked_on(self):
        topic = create_topic("odd")
        stdin = b"a" * 300_000 + b"\n" + b"b\xff\n" * 3 + b"c\r\n" * 3
        done = run("produce", topic, stdin=stdin)
        stderr = done.stderr.decode()
        self.assertEqual((done.returncode, stderr.count("warning: ")), (0, 2), stderr)
        self.assertIn("line 2 of stdin is not text", stderr)
        self.assertIn("line 5 of stdin ends in", stderr)
        self.assertEqual(consume(topic), stdin)

    def test_hex_and_base64_on_both_sides(self):
        sent = bytes(range(256))
        for encoding, encode in [("hex", bytes.hex), ("base64", lambda b: base64.b64encode(b).decode())]:
            with self.subTest(encoding):
                topic = create_topic(encoding)
                line = f"{encode(sent[:7])}:{encode(sent)}\n".encode()
                encodings = ["--key-encoding", encoding, "--value-encoding", encoding]
                produce(topic, line, "-k", ":", *encodings)
                self.assertEqual(consume(topic, "-f", "%k%v"), sent[:7] + sent)
                self.assertEqual(consume(topic, "-f", r"%k:%v\n", *encodings), line)
                self.assertEqual(run("consume", topic, "-e", *encodings).returncode, 2, "it prints no key")
                self.assertEqual(consume(topic, "-f", rf"%k{{{encoding}}}:%v{{{encoding}}}\n"), line)
                (record,) = consume_json(topic, *encodings)
                self.assertEqual((record["value"], record["value_encoding"]), (encode(sent), encoding))
        self.assertIn("line 1 of stdin: the value: ", self.refused(topic, "--value-encoding", "hex", stdin=b"xyz\n"))

    def test_a_key_from_a_field_of_the_value(self):
        topic = create_topic("fields")
        lines = b'{"user":{"id":"u1"},"n":1.50}\n{"user":{"id":null},"n":2}\n'
        produce(topic, lines, "--key-field", "user.id")
        produce(topic, lines, "--key-field", "/n")
        self.assertEqual([record["key"] for record in consume_json(topic)], ["u1", None, "1.50", "2"])
        self.assertIn("line 1 of stdin: it has no field 'x'", self.refused(topic, "--key-field", "x", stdin=lines))
        self.assertIn("is no JSON", self.refused(topic, "--key-field", "x", stdin=b"hello\n"))


class Ending(unittest.TestCase):
    """Ctrl-C and SIGTERM."""

    def test_produce_says_what_was_acknowledged(self):
        for number, code, name in [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]:
            with self.subTest(name):
                topic = create_topic("ended")
                command = [BINARY, "produce", topic, "-b", BOOTSTRAP, "--format", "json"]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
                with subprocess.Popen(command, **pipes) as producer:
                    producer.stdin.write(b"one\ntwo\nnever finished")
                    producer.stdin.flush()
                    wait_until(lambda topic=topic: consume(topic) == b"one\ntwo\n", "two records")
                    producer.send_signal(number)
                    # Not communicate(), which closes stdin, the other way to end.
                    self.assertEqual(producer.wait(DEADLINE_S), code)
                    stdout, stderr = producer.stdout.read(), producer.stderr.read()
                self.assertIn(f"error: ended by {name}", stderr.decode())
                self.assertIn("produced 2 records", stderr.decode())
                self.assertEqual(json.loads(stdout)["records"], 2)
                self.assertEqual(consume(topic), b"one\ntwo\n")

    def test_a_consumer_ends_with_a_whole_record(self):
        topic = create_topic("ended")
        produce(topic, numbered_lines(20_000))
        command = [BINARY, "consume", topic, "-b", BOOTSTRAP]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
            begun = consumer.stdout.readline()
            consumer.send_signal(signal.SIGINT)
            rest, stderr = consumer.stdout.read(), consumer.stderr.read()
            self.assertEqual((consumer.wait(DEADLINE_S), stderr), (0, b""))
        printed = begun + rest
        self.assertTrue(numbered_lines(20_000).startswith(printed) and printed.endswith(b"\n"))

    def test_a_consumer_whose_reader_sleeps_ends_with_the_second_signal(self):
        topic = create_topic("asleep")
        produce(topic, numbered_lines(100_000))
        command = [BINARY, "consume", topic, "-b", BOOTSTRAP]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as consumer:
            consumer.stdout.read(1)
            consumer.send_signal(signal.SIGINT)

            def ends() -> bool:
                consumer.send_signal(signal.SIGINT)
                return consumer.poll() is not None

            wait_until(ends, "the end of a consumer that nobody reads from")
            self.assertEqual(consumer.returncode, 130)


class Positions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.topic = create_topic("positions")
        produce(cls.topic, numbered_lines(100))

    def offsets(self, *arguments: str) -> list[int]:
        return [int(offset) for offset in consume(self.topic, "-f", "%o\n", *arguments).split()]

    def test_every_form_of_offset(self):
        self.assertEqual(self.offsets("-o", "start"), list(range(100)))
        self.assertEqual(self.offsets("-o", "end"), [])
        self.assertEqual(self.offsets("-o", "97"), [97, 98, 99])
        self.assertEqual(self.offsets("-o", "-5"), list(range(95, 100)))
        self.assertEqual(self.offsets("-o", "40", "-n", "3", "-p", "0"), [40, 41, 42])

    def test_times(self):
        topic = create_topic("times")
        times_ms = []
        for number in range(3):
            produce(topic, b"record %d\n" % number)
            times_ms.append(consume_json(topic)[-1]["timestamp"])
            while time.time() * 1000 < times_ms[-1] + 2:
                time.sleep(0.001)
        self.assertEqual(consume(topic, "-o", f"@{times_ms[1]}"), b"record 1\nrecord 2\n")
        self.assertEqual(consume(topic, "-o", f"@{times_ms[1] + 1}"), b"record 2\n")
        self.assertEqual(consume(topic, "-o", "@2020-01-01T00:00:00Z", "-n", "1"), b"record 0\n")

    def test_times_ago(self):
        topic = create_topic("ago")
        now_ms = int(time.time() * 1000)
        for age_ms, value in [(7_200_000, "two hours ago"), (1_800_000, "half an hour ago"), (0, "now")]:
            line = json.dumps({"value": value, "timestamp": now_ms - age_ms}).encode()
            produce(topic, line, "--input-format", "json")
        self.assertEqual(consume(topic, "-o", "@-1h"), b"half an hour ago\nnow\n")
        self.assertEqual(consume(topic, "-o", "@-1h59m", "-n", "1"), b"half an hour ago\n")
        self.assertEqual(len(consume(topic, "-o", "@-1d").splitlines()), 3)

    def test_follows_until_it_has_enough(self):
        command = [BINARY, "consume", self.topic, "-o", "99", "-n", "2", "-b", BOOTSTRAP]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
            self.assertEqual(follower.stdout.readline(), b"line 99\n")
            produce(self.topic, b"written later\n")
            self.assertEqual(follower.communicate(timeout=DEADLINE_S)[0], b"written later\n")
            self.assertEqual(follower.returncode, 0)

    def test_a_reader_that_has_seen_enough(self):
        shell = f"'{BINARY}' consume {self.topic} -b {BOOTSTRAP} -o start -e | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=DEADLINE_S, env=os.environ)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (b"line 0\n", b"", 0))
