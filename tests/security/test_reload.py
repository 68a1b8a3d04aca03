"""A certificate is replaced under load: no connection is lost and no request fails."""

import threading
import time
import unittest

from confluent_kafka import Producer

from secure import SecureLogway

DEADLINE_S = 30


class Reload(unittest.TestCase):
    def test_a_certificate_is_replaced_under_load(self):
        broker = SecureLogway("secure-reload").start()
        self.addCleanup(broker.kill)
        broker.logway("topic", "create", "t")
        errors, delivered, stop = [], [], threading.Event()
        settings = broker.client("SSL") | {"error_cb": errors.append, "log_level": 0, "linger.ms": 0}
        producer = Producer(settings)

        def report(error, _):
            (errors if error else delivered).append(error)

        def load():
            while not stop.is_set():
                producer.produce("t", "x", on_delivery=report)
                producer.poll(0.001)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for round in range(1, 4):
                broker.authority.issue("broker")
                end = time.monotonic() + DEADLINE_S
                while broker.log_path.read_text().count("a new certificate is in force") < round:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.05)
                before = len(delivered)
                while len(delivered) < before + 100:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.05)
                # A new client is served with the new one.
                broker.logway("topic", "list", listener="SSL")
        finally:
            stop.set()
            thread.join()
        self.assertEqual(producer.flush(DEADLINE_S), 0)
        self.assertEqual(errors, [])
