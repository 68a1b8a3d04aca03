"""The same by grpc-java, in programs of their own."""

import subprocess
import unittest
from pathlib import Path

from clients import ClientCases

from harness.broker import TESTS

BUILT = TESTS / ".work" / "logservice" / "java"
JAVA = ["java", "-Xmx256m", "-cp", f"{BUILT}/classes:{BUILT}/libs/*"]


class Java(ClientCases, unittest.TestCase):
    name = "java"
    client = [*JAVA, "Client"]
    tail = [*JAVA, "Tail"]

    @classmethod
    def setUpClass(cls):
        pom = Path(__file__).parent / "java" / "pom.xml"
        subprocess.run([TESTS / "harness" / "maven", pom, "compile"], check=True)
