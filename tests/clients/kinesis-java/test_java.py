"""Runs the cases of Main.java, each against a stream of its own."""

import unittest

from harness.broker import TESTS
from harness.kinesis_cases import KinesisCases

BUILT = TESTS / ".work" / "kinesis-java"


class Java(KinesisCases, unittest.TestCase):
    name = "kinesis-java"
    program = ["java", "-Xmx256m", "-cp", f"{BUILT}/classes:{BUILT}/libs/*", "io.logway.kinesis.Main"]
    deadline_s = 90
