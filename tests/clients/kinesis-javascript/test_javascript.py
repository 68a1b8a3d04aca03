"""Runs the cases of cases.mjs, each against a stream of its own."""

import unittest
from pathlib import Path

from harness.kinesis_cases import KinesisCases

CASES = Path(__file__).parent / "cases.mjs"


class JavaScript(KinesisCases, unittest.TestCase):
    name = "kinesis-javascript"
    program = ["node", str(CASES)]
    deadline_s = 60
