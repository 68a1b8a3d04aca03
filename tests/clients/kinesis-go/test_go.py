"""Runs the cases of main.go, each against a stream of its own."""

import unittest
from pathlib import Path

from harness.broker import TESTS
from harness.kinesis_cases import KinesisCases, SecuredKinesisCases


class Go(KinesisCases, unittest.TestCase):
    name = "kinesis-go"
    program = [str(TESTS / ".work" / "kinesis-go" / "kinesis-go")]
    deadline_s = 90


class SecuredGo(SecuredKinesisCases, unittest.TestCase):
    name = Go.name
    program = Go.program
    deadline_s = Go.deadline_s

    @staticmethod
    def believing(authority: Path) -> dict[str, str]:
        return {"AWS_CA_BUNDLE": str(authority)}
