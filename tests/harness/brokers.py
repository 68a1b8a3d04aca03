"""The brokers that a suite can run against, by kind."""

from harness.apache_kafka import ApacheKafka
from harness.logway import Logway

KINDS = {broker.kind: broker for broker in (Logway, ApacheKafka)}
