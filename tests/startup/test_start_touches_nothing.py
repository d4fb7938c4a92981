"""Importing the library and starting a node open no device and read no credential (spec 000 §9)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCH = Path(__file__).parent / "watch"

START_A_NODE = """
import pkgutil, importlib, parlora
for package in ("parlora.channels", "parlora.providers", "parlora.backends", "parlora.policies"):
    home = importlib.import_module(package)
    for module in pkgutil.walk_packages(home.__path__, package + "."):
        importlib.import_module(module.name)
with parlora.ActorHost():
    pass
"""


def watched(program: str, tmp_path: Path) -> list[str]:
    """Run the program and every process it starts under the watch; returns what they reached for."""
    report = tmp_path / "report"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(WATCH), *filter(None, sys.path)]),
        "PARLORA_WATCH": str(report),
        "OPENAI_API_KEY": "nobody reads this",
        "TWILIO_AUTH_TOKEN": "nor this",
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    return [line.partition(" ")[2] for line in report.read_text().splitlines()]


@pytest.mark.row("SL-38")
def test_importing_every_adapter_and_starting_a_node_reaches_for_nothing(tmp_path: Path) -> None:
    assert watched(START_A_NODE, tmp_path) == ["watched", "watched"]  # This program and the node's first process.


@pytest.mark.parametrize("inside", ["{}", "import os\nif os.fork() == 0:\n    {}\n    os._exit(0)\nos.wait()"])
@pytest.mark.parametrize(
    ("effect", "seen"),
    [
        ("open('/dev/zero').close()", "opened /dev/zero"),
        ("import os; os.environ['OPENAI_API_KEY']", "read OPENAI_API_KEY"),
        ("import pocketsphinx", "imported pocketsphinx"),
        ("import os; os.getenv('TWILIO_AUTH_TOKEN')", "read TWILIO_AUTH_TOKEN"),
    ],
)
def test_the_watch_sees_it_in_a_process_and_in_its_children(
    effect: str, seen: str, inside: str, tmp_path: Path
) -> None:
    assert watched(inside.format(effect), tmp_path)[:2] == ["watched", seen]
