"""Runs the cases of cases.mjs, each against a stream of its own."""

import unittest
from pathlib import Path

from harness.kinesis_cases import KinesisCases, SecuredKinesisCases

CASES = Path(__file__).parent / "cases.mjs"


class JavaScript(KinesisCases, unittest.TestCase):
    name = "kinesis-javascript"
    program = ["node", str(CASES)]
    deadline_s = 60


class SecuredJavaScript(SecuredKinesisCases, unittest.TestCase):
    name = JavaScript.name
    program = JavaScript.program
    deadline_s = JavaScript.deadline_s

    @staticmethod
    def believing(authority: Path) -> dict[str, str]:
        return {"NODE_EXTRA_CA_CERTS": str(authority)}
