"""Importing Parlora does nothing: no device, no socket, no process, no credential, no extra."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT

EXTRAS = {"pyaudio", "sounddevice", "pocketsphinx", "espeakng_loader", "hibari_tts", "aiortc", "starlette", "uvicorn"}
CREDENTIAL = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|^\*$", re.IGNORECASE)


@pytest.fixture(scope="module")
def watched() -> dict[str, list[str]]:
    command = [sys.executable, "-m", "tests.architecture.watch_process"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report: dict[str, list[str]] = json.loads(result.stdout)
    return report


def test_importing_every_module_reaches_for_nothing_outside(watched: dict[str, list[str]]) -> None:
    assert watched["reached"] == []


def test_importing_every_module_reads_no_credential(watched: dict[str, list[str]]) -> None:
    assert [name for name in watched["read"] if CREDENTIAL.search(name)] == []


def test_importing_every_module_loads_no_extra(watched: dict[str, list[str]]) -> None:
    assert EXTRAS & set(watched["modules"]) == set()


@pytest.mark.parametrize(
    "effect",
    [
        "open('/dev/null')",
        "import socket; socket.socket().bind(('127.0.0.1', 0))",
        "import os; os.environ['OPENAI_API_KEY']",
        "import os; os.environ.get('OPENAI_API_KEY')",
        "import os; os.getenv('OPENAI_API_KEY')",
        "import os; dict(os.environ)",
        "import os; os.environ.copy()",
    ],
)
def test_the_watch_sees_what_a_careless_module_would_do(effect: str) -> None:
    program = f"""
from tests.architecture import watch_process
watch_process.modules = lambda: ["careless"]
watch_process.importlib.import_module = lambda name: exec({effect!r}) or watch_process
watch_process.main()
"""
    environment = os.environ | {"OPENAI_API_KEY": "none"}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    report = json.loads(result.stdout)
    assert report["reached"] or any(CREDENTIAL.search(name) for name in report["read"])
