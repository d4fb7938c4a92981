"""Telemetry handlers, called in the processes of a session."""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

FILE = "PARLORA_TEST_TELEMETRY"


def record(event: str, measurements: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
    """Append one line to the file that the environment names."""
    line = json.dumps([event, dict(measurements), dict(metadata)]) + "\n"
    with open(os.environ[FILE], "a") as file:
        file.write(line)


def slow(event: str, measurements: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
    record(event, measurements, metadata)
    time.sleep(30)


def raising(event: str, measurements: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
    record(event, measurements, metadata)
    raise ZeroDivisionError
