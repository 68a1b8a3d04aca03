"""Runs the cases of cases.py, each against a stream of its own."""

import sys
import unittest
from pathlib import Path

from harness.kinesis_cases import KinesisCases, SecuredKinesisCases


class Boto3(KinesisCases, unittest.TestCase):
    name = "boto3-cases"
    program = [sys.executable, str(Path(__file__).parent / "cases.py")]
    deadline_s = 90


class SecuredBoto3(SecuredKinesisCases, unittest.TestCase):
    name = Boto3.name
    program = Boto3.program
    deadline_s = 5 * Boto3.deadline_s

    @staticmethod
    def believing(authority: Path) -> dict[str, str]:
        return {"AWS_CA_BUNDLE": str(authority)}
