"""Runs the cases of Main.java, each against a stream of its own."""

import subprocess
import unittest
from pathlib import Path

from harness.broker import TESTS
from harness.kinesis_cases import KinesisCases, SecuredKinesisCases

BUILT = TESTS / ".work" / "kinesis-java"


class Java(KinesisCases, unittest.TestCase):
    name = "kinesis-java"
    program = ["java", "-Xmx256m", "-cp", f"{BUILT}/classes:{BUILT}/libs/*", "io.logway.kinesis.Main"]
    deadline_s = 90


class SecuredJava(SecuredKinesisCases, unittest.TestCase):
    name = Java.name
    program = Java.program
    deadline_s = Java.deadline_s

    @staticmethod
    def believing(authority: Path) -> dict[str, str]:
        store = authority.with_suffix(".p12")
        password = ["-storepass", "changeit"]
        subprocess.run(["keytool", "-importcert", "-noprompt", "-file", authority, "-keystore", store, *password],
                       check=True, capture_output=True)
        return {"JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"}
