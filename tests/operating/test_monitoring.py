"""The alert rules and the dashboard: Prometheus' own checker reads them, and a broker exports what they ask for."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = ROOT / "packaging/prometheus"
DASHBOARD = ROOT / "packaging/grafana/logway.json"
REFERENCE = ROOT / "docs/reference/metrics.md"
METRIC = re.compile(r"\b(?:logway|process)_[a-z_]+\b")
# Grafana puts these in before it asks.
VARIABLES = {"$__rate_interval": "1m", "$cluster": ".*", "$instance": ".*"}


def promtool(*arguments: str | Path):
    command = [os.environ["PROMTOOL"], *arguments]
    done = subprocess.run(command, cwd=RULES, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def exported() -> set[str]:
    """Every name under which a broker exports a number."""
    names = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", REFERENCE.read_text(), re.MULTILINE):
        names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return names


def questions() -> list[str]:
    """What the dashboard asks Prometheus."""
    board = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    found += [annotation["expr"] for annotation in board["annotations"]["list"]]
    for variable, value in VARIABLES.items():
        found = [question.replace(variable, value) for question in found]
    return found


class Monitoring(unittest.TestCase):
    def test_the_rules_alert_of_what_must_and_of_nothing_else(self):
        promtool("check", "rules", "alerts.yml")
        promtool("test", "rules", "alerts_test.yml")

    def test_prometheus_understands_the_dashboard(self):
        rules = [{"record": f"panel:{number}", "expr": question} for number, question in enumerate(questions())]
        self.assertGreater(len(rules), 20)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            # JSON is YAML.
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            promtool("check", "rules", file.name)

    def test_a_broker_exports_what_they_ask_for(self):
        asked = {name for question in questions() for name in METRIC.findall(question)}
        expressions = re.sub(r"^ *(summary|action|#).*$", "", (RULES / "alerts.yml").read_text(), flags=re.MULTILINE)
        asked |= set(METRIC.findall(expressions))
        self.assertGreater(len(asked), 30)
        self.assertEqual(asked - exported(), set())


if __name__ == "__main__":
    unittest.main()
