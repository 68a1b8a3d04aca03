import json
import random
import tempfile
import unittest

from kcat import BOOTSTRAP, consume, create_topic, kcat, produce, run

from client_cases.model import fresh


class Metadata(unittest.TestCase):
    def test_lists_brokers_and_topics(self):
        topic_name = fresh("kcat-listed")
        create_topic(topic_name, 3)
        listing = json.loads(kcat("-L", "-J"))
        self.assertEqual([broker["name"] for broker in listing["brokers"]], [BOOTSTRAP])
        topic = next(topic for topic in listing["topics"] if topic["topic"] == topic_name)
        self.assertEqual([partition["partition"] for partition in topic["partitions"]], [0, 1, 2])
        node = listing["brokers"][0]["id"]
        for partition in topic["partitions"]:
            self.assertEqual((partition["leader"], partition["isrs"]), (node, [{"id": node}]))

    def test_plain_listing_names_the_broker_as_it_was_reached(self):
        self.assertIn(f"at {BOOTSTRAP}".encode(), kcat("-L"))


class RoundTrip(unittest.TestCase):
    def test_a_binary_file_as_one_record(self):
        seed = random.randrange(1 << 32)
        blob = random.Random(seed).randbytes(900_000)
        topic = fresh("kcat-blob")
        with tempfile.NamedTemporaryFile() as file:
            file.write(blob)
            file.flush()
            produce(topic, file.name)
        self.assertEqual(consume(topic, "-f", "%s"), blob, f"seed {seed}")

    def test_keys_choose_partitions_and_partitions_keep_their_order(self):
        topic = fresh("kcat-keyed")
        create_topic(topic, 4)
        sent = b"".join(b"k%d:%d\n" % (number % 50, number) for number in range(5_000))
        produce(topic, "-K", ":", stdin=sent)
        homes, last = {}, {}
        for line in consume(topic, "-f", "%p %k %s\n").splitlines():
            partition, key, number = line.split()
            self.assertEqual(homes.setdefault(key, partition), partition)
            self.assertGreater(int(number), last.get(partition, -1))
            last[partition] = int(number)
        self.assertEqual((len(homes), len(last)), (50, 4))


class Errors(unittest.TestCase):
    def test_a_partition_that_does_not_exist(self):
        topic = fresh("kcat-errors")
        produce(topic, stdin=b"x\n")
        refused = run("-C", "-t", topic, "-p", "7", "-e", "-o", "beginning")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"partition 7 does not exist", refused.stderr)
