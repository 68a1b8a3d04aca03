"""Runs the cases of main.rs, each against a stream of its own."""

import unittest
from pathlib import Path

from harness.broker import TESTS
from harness.kinesis_cases import KinesisCases, SecuredKinesisCases


class Rust(KinesisCases, unittest.TestCase):
    name = "kinesis-rust"
    program = [str(TESTS / ".work" / "kinesis-rust" / "debug" / "logway-kinesis-rust-suite")]
    deadline_s = 90


class SecuredRust(SecuredKinesisCases, unittest.TestCase):
    name = Rust.name
    program = Rust.program
    deadline_s = Rust.deadline_s

    @staticmethod
    def believing(authority: Path) -> dict[str, str]:
        return {"AWS_CA_BUNDLE": str(authority)}
