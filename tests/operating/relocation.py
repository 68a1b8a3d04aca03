"""Places of the whole system, and the addresses of a broker with default settings, made those of a test."""

import os
import re
from pathlib import Path

PLACES = re.compile(r"(?<![\w./-])/(?=(etc|usr/local|var/lib|disks|backup)\b)")


def relocated(text: str, root: Path) -> str:
    """The text with every path below `root`, and with the test's ports."""
    text = PLACES.sub(f"{root}/", text)
    for port in ("9092", "9093", "9644"):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{os.environ[f'PORT_{port}']}")
    return text
